package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/retry"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/channel"
)

// Frames are the published frames of sessions.
type Frames interface {
	// Stored yields the stored batches of a channel that hold frame from or a later one, in order and without a hole;
	// it may end with channel.ErrGap or with unavailable.
	Stored(ctx context.Context, session, name string, from int64) iter.Seq2[channel.Batch, error]
	// Next returns the number that the next frame of a channel will have, 0 where no frame is kept. It fails
	// with unavailable.
	Next(ctx context.Context, session, name string) (int64, error)
}

// Watch notes the published batches of a session, for a reader without a hold.
type Watch interface {
	// Published receives after each publication.
	Published() <-chan struct{}
	// First returns the number of the first frame of a channel that was published since the watch began, 0 before
	// that.
	First(name string) int64
	// Forget ends the watch.
	Forget()
}

// The times of a stream of events.
const (
	// streamAlive is how often a silent stream says that it is there, streamLook how often it looks by itself for
	// frames.
	streamAlive = 15 * time.Second
	streamLook  = time.Second
	// streamWrite is how long a client may take for one batch.
	streamWrite = 30 * time.Second
	// streamStored is the pause before a frame that was published and is not stored yet is asked for again.
	streamStored = 20 * time.Millisecond
)

// maxStreams bounds the streams of events of a gateway. Of more, the oldest of the operator with most ends.
const maxStreams = 1024

// lasting returns the context of a stream of events, which behind a sign-in proxy ends with its greatest age: the
// client comes back through the proxy.
func (s *Server) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.deps.Limits.Age > 0 {
		return context.WithTimeout(ctx, s.deps.Limits.Age)
	}
	return context.WithCancel(ctx)
}

// stream answers GET /api/v1/sessions/{id}/stream: the frames of a session as server-sent events, for as many readers
// as like. A socket may hold the session meanwhile. The id of an event is the place in all
// channels, so Last-Event-ID resumes.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	id := r.PathValue("id")
	at, err := s.places(r)
	if err != nil {
		return err
	}
	_, err = sessionmanagerv1.NewSessionServiceClient(s.deps.SessionManager).GetSession(
		ctx, &apiv1.GetSessionRequest{Id: id},
	)
	if err != nil {
		return rpc.FromStatus(err)
	}
	ctx, cancel := s.lasting(ctx)
	defer cancel()
	signedOut := make(chan struct{})
	defer s.signedOut(r)(sync.OnceFunc(func() { close(signedOut) }))()
	x := exchangeOf(r)
	in := s.streaming.enter(x.identity.UserID, cancel)
	defer s.streaming.leave(in)
	defer x.release()()
	watch := s.deps.Watch(id)
	defer watch.Forget()
	lost := false
	for _, p := range at {
		next, err := s.deps.Frames.Next(ctx, id, p.name)
		if err != nil {
			return err
		}
		if lost = lost || next > 0 && p.next > next; p.next == 0 {
			p.next = next
		}
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e := &events{w: w, control: http.NewResponseController(w), at: at, watch: watch}
	switch {
	case e.comment("kaged") != nil:
	case lost:
		e.lost()
	default:
		s.relay(ctx, id, e, signedOut)
	}
	return nil
}

// relay sends frames until the client leaves or is signed out, the session ends or the gateway stops.
func (s *Server) relay(ctx context.Context, id string, e *events, signedOut <-chan struct{}) {
	alive := time.NewTicker(streamAlive)
	defer alive.Stop()
	look := time.NewTicker(streamLook)
	defer look.Stop()
	for {
		sent, err := e.drain(ctx, id, s.deps.Frames)
		switch {
		case errors.Is(err, channel.ErrGap):
			e.lost()
			return
		case err != nil && fault.CodeOf(err) != fault.Unavailable:
			return // the client has left
		case e.ended:
			e.closing("session_ended", "The session has ended.")
			return
		case sent:
			alive.Reset(streamAlive)
		}
		select {
		case <-e.watch.Published():
			retry.Wait(ctx, streamStored)
		case <-look.C:
		case <-alive.C:
			if e.comment("alive") != nil {
				return
			}
		case <-signedOut:
			e.closing("signed_out", "The browser of this stream was signed out; sign in again.")
			return
		case <-s.stopping:
			e.closing("server_shutdown", "The gateway is stopping; connect again.")
			return
		case <-ctx.Done():
			return
		}
	}
}

// place is where a reader stands in a channel: the number of the next frame, 0 for the next one to come.
type place struct {
	name string
	next int64
}

// places returns where the reader wants to begin. It fails with validation_failed for channels that there are not and
// for a Last-Event-ID that no event had.
func (s *Server) places(r *http.Request) ([]*place, error) {
	var list []*place
	wanted := r.URL.Query().Get("channels")
	if wanted == "" {
		wanted = frametype.Output.String() + "," + frametype.Events.String()
	}
	for name := range strings.SplitSeq(wanted, ",") {
		if _, known := frametype.ParseChannel(name); !known {
			return nil, wirejson.Invalid("channels", "channels must be output, events, or both with a comma.")
		}
		list = append(list, &place{name: name})
	}
	seen := r.Header.Get("Last-Event-ID")
	if seen == "" {
		return list, nil
	}
	for part := range strings.SplitSeq(seen, ",") {
		name, text, _ := strings.Cut(part, ":")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, wirejson.Invalid(
				"Last-Event-ID", "Last-Event-ID must be the id of an event, such as output:12,events:5.",
			)
		}
		for _, p := range list {
			if p.name == name {
				p.next = min(n, math.MaxInt64-1) + 1 // no event has the largest number
			}
		}
	}
	return list, nil
}

// events is a stream of events to one client.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	at      []*place
	watch   Watch
	ended   bool // a frame said that the session has ended
}

// drain sends the stored frames from the reader's place on, and reports whether there were any.
func (e *events) drain(ctx context.Context, session string, from Frames) (sent bool, err error) {
	for _, p := range e.at {
		if p.next == 0 {
			p.next = e.watch.First(p.name)
		}
		if p.next == 0 {
			continue
		}
		for b, err := range from.Stored(ctx, session, p.name, p.next) {
			if err != nil {
				return sent, err
			}
			if b.Next() <= p.next {
				continue
			}
			if b.First > p.next {
				return sent, channel.ErrGap
			}
			if err := e.batch(p, b.From(p.next)); err != nil {
				return sent, err
			}
			sent = true
		}
	}
	return sent, nil
}

// batch sends the frames of a batch.
func (e *events) batch(p *place, b channel.Batch) error {
	var out bytes.Buffer
	b.Frames(func(frame []byte) bool {
		var head struct {
			Type    string `json:"type"`
			Payload struct {
				State string `json:"state"`
			} `json:"payload"`
		}
		_ = json.Unmarshal(frame, &head) // kaged wrote it
		e.ended = e.ended || head.Type == frametype.SessionStateChanged.Name && head.Payload.State == "ended"
		p.next++
		fmt.Fprintf(&out, "id: %s\nevent: %s\ndata: %s\n\n", e.id(), head.Type, frame)
		return true
	})
	p.next = b.Next()
	return e.write(out.Bytes())
}

// id is the place of the reader in all channels.
func (e *events) id() string {
	parts := make([]string, len(e.at))
	for i, p := range e.at {
		parts[i] = p.name + ":" + strconv.FormatInt(max(p.next-1, 0), 10)
	}
	return strings.Join(parts, ",")
}

func (e *events) comment(text string) error { return e.write([]byte(": " + text + "\n\n")) }

// lost says that the reader's place is gone.
func (e *events) lost() {
	e.closing("resume_failed", "The frames since then are not kept any more; read the session again.")
}

// closing says why the stream ends. Its event has no id: a client that comes back resumes where it was.
func (e *events) closing(code, reason string) {
	data, err := json.Marshal(map[string]string{"code": code, "reason": reason})
	if err == nil {
		_ = e.write(fmt.Appendf(nil, "event: closing\ndata: %s\n\n", data))
	}
}

func (e *events) write(data []byte) error {
	_ = e.control.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := e.w.Write(data); err != nil {
		return err
	}
	return e.control.Flush()
}
