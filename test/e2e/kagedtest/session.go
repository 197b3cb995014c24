package kagedtest

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
)

// Session is a session of a project with an attached client.
type Session struct {
	// ID is the session, Project its project.
	ID, Project string
	// Client is the signed-in client.
	Client *client.Client
	// Socket is the attached socket; nil before Attach.
	Socket *client.Socket
	// Frames are all frames read until now.
	Frames []client.Frame
}

// Get makes a GET request and reads the answer. Like [Post], it tries again as long as the answer is unavailable, as
// clients do, because a service serves before its peers have connected.
func Get[T any](t testing.TB, c *client.Client, path string) T {
	t.Helper()
	return ask[T](t, c, http.MethodGet, path, nil)
}

// Post makes a POST request and reads the answer.
func Post[T any](t testing.TB, c *client.Client, path string, body any) T {
	t.Helper()
	return ask[T](t, c, http.MethodPost, path, body)
}

func ask[T any](t testing.TB, c *client.Client, method, path string, body any) (out T) {
	t.Helper()
	Eventually(t, method+" "+path+" is answered", func() bool {
		err := c.Do(t.Context(), method, path, body, &out)
		if err != nil && !errors.Is(err, fault.Unavailable) {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return err == nil
	})
	return out
}

// Open loads the project in dir and creates a session, with a client attached from its first frame.
func Open(t testing.TB, c *client.Client, dir string) *Session {
	t.Helper()
	s := Create(t, c, dir)
	s.Attach(t, nil)
	return s
}

// Create loads the project in dir and creates a session without a client attached.
func Create(t testing.TB, c *client.Client, dir string) *Session {
	t.Helper()
	project := Post[struct{ ID, State string }](t, c, "/api/v1/projects/load", map[string]any{"path": dir})
	if project.State != "ready" {
		t.Fatalf("the project is %s", project.State)
	}
	created := Post[struct{ ID, State string }](t, c, "/api/v1/projects/"+project.ID+"/sessions", map[string]any{})
	return &Session{ID: created.ID, Project: project.ID, Client: c}
}

// Attach opens the socket and sends the positions seen; nil stands for a new client, which gets all frames.
func (s *Session) Attach(t testing.TB, seen map[string]int64) {
	t.Helper()
	if seen == nil {
		seen = map[string]int64{"output": 0, "events": 0}
	}
	Eventually(t, "a socket is attached", func() bool {
		var err error
		s.Socket, err = s.Client.Attach(t.Context(), s.ID, seen, false)
		if err != nil && !errors.Is(err, fault.Unavailable) {
			t.Fatalf("attaching: %v", err)
		}
		return err == nil
	})
	socket := s.Socket
	t.Cleanup(func() { socket.Close() })
}

// Send posts a message and returns its run.
func (s *Session) Send(t testing.TB, text string) (run string) {
	t.Helper()
	return Post[struct {
		RunID string `json:"run_id"`
	}](t, s.Client, "/api/v1/sessions/"+s.ID+"/messages", map[string]any{"content": text}).RunID
}

// Until reads frames up to one of a kind, stores all of them, and returns that one.
func (s *Session) Until(t testing.TB, kind string) client.Frame {
	t.Helper()
	for {
		if f := s.read(t, kind); f.Type == kind {
			return f
		}
	}
}

// Next reads one frame and stores it.
func (s *Session) Next(t testing.TB) client.Frame {
	t.Helper()
	return s.read(t, "a frame")
}

// read reads one frame and stores it.
func (s *Session) read(t testing.TB, what string) client.Frame {
	t.Helper()
	timer := time.AfterFunc(Limit, func() { s.Socket.Close() })
	defer timer.Stop()
	f, err := s.Socket.Read()
	if err != nil {
		t.Fatalf("waiting for %s after %d frames: %v", what, len(s.Frames), err)
	}
	s.Frames = append(s.Frames, f)
	return f
}

// Run posts a message and reads frames until its run is over: the end of the message on one channel, the end of the run
// and the idle session on the other, in either order. It returns the run's outcome.
func (s *Session) Run(t testing.TB, text string) (outcome string) {
	t.Helper()
	from := len(s.Frames)
	run := s.Send(t, text)
	var written, idle bool
	for ; !written || !idle || outcome == ""; from++ {
		if from == len(s.Frames) {
			s.read(t, "the end of a run")
		}
		var p struct {
			RunID          string `json:"run_id"`
			Outcome, State string
		}
		switch f := s.Frames[from]; f.Type {
		case "message.end":
			written = true
		case "approval.requested":
			if Payload(t, f, &p); p.RunID == run {
				t.Fatalf("run %s waits for an approval that is not given: %s", run, f.Payload)
			}
		case "run.ended":
			if Payload(t, f, &p); p.RunID == run {
				outcome = p.Outcome
			}
		case "session.state":
			Payload(t, f, &p)
			idle = p.State == "idle" && outcome != ""
		}
	}
	return outcome
}

// Seen returns the last sequence number of each channel, 0 before its first frame.
func (s *Session) Seen() map[string]int64 {
	seen := map[string]int64{"output": 0, "events": 0}
	for _, f := range s.Frames {
		if f.Channel == "output" || f.Channel == "events" {
			seen[f.Channel] = f.Seq
		}
	}
	return seen
}

// UntilLost reads frames until the socket ends without a close frame, and stores them.
func (s *Session) UntilLost(t testing.TB) {
	t.Helper()
	hang := time.AfterFunc(Limit, func() { t.Error("the socket does not end"); s.Socket.Close() })
	defer hang.Stop()
	for {
		f, err := s.Socket.Read()
		if err != nil {
			return
		}
		s.Frames = append(s.Frames, f)
	}
}

// SameAgain attaches again from the first frame of the session and fails the test unless every earlier frame is
// repeated byte for byte. It closes the present socket without a close frame.
func (s *Session) SameAgain(t testing.TB) {
	t.Helper()
	s.Socket.Close()
	again := Session{ID: s.ID, Project: s.Project, Client: s.Client}
	again.Attach(t, nil)
	defer again.Socket.Close()
	again.BeginsWith(t, s.Frames)
}

// BeginsWith fails the test unless the session's frames start with these, byte for byte. It reads frames that have not
// arrived yet.
func (s *Session) BeginsWith(t testing.TB, earlier []client.Frame) {
	t.Helper()
	want := map[string][]string{}
	for _, f := range earlier {
		if f.Seq > 0 && f.Channel != "control" {
			want[f.Channel] = append(want[f.Channel], string(f.Raw))
		}
	}
	for next := 0; len(want["output"])+len(want["events"]) > 0; next++ {
		if next == len(s.Frames) {
			s.Next(t)
		}
		f := s.Frames[next]
		expected := want[f.Channel]
		if len(expected) == 0 || f.Seq == 0 {
			continue
		}
		if string(f.Raw) != expected[0] {
			t.Fatalf("%s frame %d was\n%s\nand is\n%s", f.Channel, f.Seq, expected[0], f.Raw)
		}
		want[f.Channel] = expected[1:]
	}
}

// Payload decodes a frame's payload.
func Payload(t testing.TB, f client.Frame, into any) {
	t.Helper()
	if err := json.Unmarshal(f.Payload, into); err != nil {
		t.Fatalf("frame %s: %v", f.Raw, err)
	}
}

// Contiguous fails the test unless the sequence numbers of each channel count from 1 without gaps.
func (s *Session) Contiguous(t testing.TB) {
	t.Helper()
	next := map[string]int64{"output": 1, "events": 1}
	for _, f := range s.Frames {
		want, sequenced := next[f.Channel]
		if !sequenced || f.Seq == 0 { // warnings are the socket's own frames, which have no number
			continue
		}
		if f.Seq != want {
			t.Fatalf("%s frame %d came where %d was due: %s", f.Channel, f.Seq, want, f.Raw)
		}
		next[f.Channel]++
	}
}
