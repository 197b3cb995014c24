package client_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// tell sends frames.
func tell(conn *websocket.Conn, frames ...string) {
	for _, f := range frames {
		_ = conn.WriteMessage(websocket.TextMessage, []byte(f))
	}
}

func delta(seq int) string {
	return fmt.Sprintf(
		`{"channel":"output","seq":%d,"type":"message.delta","payload":{"message_id":"m","delta":"d%d"}}`, seq, seq)
}

func closing(code string) string {
	return `{"channel":"control","seq":9,"type":"closing","payload":{"code":"` + code + `","reason":"It is over."}}`
}

const welcome = `{"channel":"control","seq":1,"type":"welcome",
	"payload":{"session_id":"01S","server_seq":{"output":2,"events":0}}}`

// position is the position event of a terminal at a byte.
func position(offset, missing, replayEnd int) string {
	return fmt.Sprintf("\x02"+`{"channel":"pty","seq":1,"type":"pty.position","payload":{"process_id":"P",`+
		`"offset":%d,"missing":%d,"replay_end":%d,"terminal":true}}`, offset, missing, replayEnd)
}

// refusal is an error about a terminal.
func refusal(code string, subscribed bool) string {
	return fmt.Sprintf(`{"channel":"control","seq":2,"type":"error","payload":{"code":%q,"message":"No.",`+
		`"details":{"channel":"pty:P","subscribed":%t}}}`, code, subscribed)
}

// A stream yields each frame once across interruptions: it resumes after the last one, drops duplicates, reports missed
// frames, and ends with its session.
func TestFollow(t *testing.T) {
	f := newFake()
	c := f.open(t)
	visits, hellos := 0, []string{}
	f.socket = func(_ string, conn *websocket.Conn) {
		_, hello, _ := conn.ReadMessage()
		_, _, _ = conn.ReadMessage() // the subscribe frame
		hellos = append(hellos, string(hello))
		tell(conn, welcome)
		switch visits++; visits {
		case 1:
			tell(conn, delta(3), delta(4), closing("server_shutdown"))
		case 2:
			tell(conn, delta(4), delta(5),
				`{"channel":"events","seq":0,"type":"audit.warning","payload":{"warning":"no-sandbox"}}`)
		case 3:
			tell(conn, closing("resume_failed"))
		case 4:
			tell(conn, delta(8), closing("session_ended"))
		}
	}
	var states []client.State
	note := func(s client.State) { states = append(states, s) }
	stream, err := c.Follow(t.Context(), "01S", client.FollowOptions{State: note})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for frame, err := range stream.Frames() {
		if err != nil {
			got = append(got, err.Error())
			if !errors.Is(err, client.ErrMissed) {
				t.Error(err)
			}
			continue
		}
		m, err := frame.Message()
		switch m := m.(type) {
		case *apiv1.MessageDelta:
			got = append(got, m.GetDelta())
		case *apiv1.AuditWarning:
			got = append(got, m.GetWarning())
		default:
			t.Errorf("%s: %v, %v", frame.Raw, m, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if want := []string{"d3", "d4", "d5", "no-sandbox", client.ErrMissed.Error(), "d8"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	want := []string{
		`{"channel":"control","payload":{"resume_from_seq":{}},"type":"hello"}`,
		`{"channel":"control","payload":{"resume_from_seq":{"events":0,"output":4}},"type":"hello"}`,
		`{"channel":"control","payload":{"resume_from_seq":{"events":0,"output":5}},"type":"hello"}`,
		`{"channel":"control","payload":{"resume_from_seq":{}},"type":"hello"}`,
	}
	for i := range hellos {
		hellos[i] = hellos[i][:len(hellos[i])-1] // WriteJSON appends a newline
	}
	if !slices.Equal(hellos, want) {
		t.Errorf("greeted with %q, want %q", hellos, want)
	}
	if states[0] != client.Live || states[1] != client.Waiting {
		t.Errorf("it stood at %v", states)
	}
}

// A stream ends with an error if another client takes it over, and without one if it is closed or its loop left.
func TestFollowEnds(t *testing.T) {
	f := newFake()
	c := f.open(t)
	reason := "replaced"
	f.socket = func(query string, conn *websocket.Conn) {
		if query != "takeover=1" {
			t.Errorf("asked with %q", query)
		}
		_, _, _ = conn.ReadMessage()
		_, _, _ = conn.ReadMessage()
		tell(conn, welcome, delta(3))
		if reason != "" {
			tell(conn, closing(reason))
		}
		_, _, _ = conn.ReadMessage()
	}
	follow := func() *client.Stream {
		o := client.FollowOptions{Takeover: true, Seen: map[string]int64{"output": 2}}
		stream, err := c.Follow(t.Context(), "01S", o)
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	var last error
	n := 0
	for _, err := range follow().Frames() {
		n, last = n+1, err
		if err == nil {
			continue
		}
	}
	if n != 2 || !errors.Is(last, fault.Conflict) {
		t.Errorf("%d values, %v", n, last)
	}
	f.mu.Lock()
	reason = ""
	f.mu.Unlock()
	stream := follow()
	for frame, err := range stream.Frames() {
		if err != nil || frame.Seq != 3 {
			t.Errorf("got %v, %v", frame, err)
		}
		stream.Close()
	}
	if stream.Seen()["output"] != 3 {
		t.Errorf("seen %v", stream.Seen())
	}
}

// A terminal begins with the retained output, resumes at the next byte after an interruption, sends input, and ends
// with its process.
func TestTerminal(t *testing.T) {
	f := newFake()
	c := f.open(t)
	visits, asked := 0, []string{}
	f.socket = func(query string, conn *websocket.Conn) {
		_, _, _ = conn.ReadMessage()
		tell(conn, welcome)
		_, subscribe, _ := conn.ReadMessage()
		asked = append(asked, query, string(subscribe[:len(subscribe)-1]))
		send := func(data string) { _ = conn.WriteMessage(websocket.BinaryMessage, []byte(data)) }
		switch visits++; visits {
		case 1:
			send(position(10, 10, 12))
			send("\x01abcd")
			tell(conn, refusal("rate_limited", true))
			_, size, _ := conn.ReadMessage()
			_, keys, _ := conn.ReadMessage()
			asked = append(asked, string(size[:len(size)-1]), string(keys))
		case 2:
			_, size, _ := conn.ReadMessage()
			asked = append(asked, string(size[:len(size)-1]))
			send(position(14, 0, 14))
			send("\x01ef")
			send("\x02" + `{"channel":"pty","seq":2,"type":"pty.ended","payload":{"process_id":"P","exit_code":3,` +
				`"signal":"","reason":"","offset":16,"duration_ms":5}}`)
			_, _, _ = conn.ReadMessage()
		case 3:
			tell(conn, refusal("process_not_found", false))
			_, _, _ = conn.ReadMessage()
		}
	}
	terminal, err := c.Terminal(t.Context(), "01S", "P", 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range terminal.Events() {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Position != nil:
			got = append(got, fmt.Sprint("at ", e.Position.GetOffset()))
		case e.Refused != nil:
			got = append(got, "refused")
			if err := terminal.Resize(100, 30); err != nil {
				t.Error(err)
			}
			if _, err := terminal.Write([]byte("x\r")); err != nil {
				t.Error(err)
			}
		case e.Away:
			got = append(got, "away")
		case e.Ended != nil:
			got = append(got, fmt.Sprint("ended ", e.Ended.GetExitCode()))
		default:
			got = append(got, fmt.Sprintf("%s %t", e.Output, e.Replay))
		}
	}
	events := []string{"at 10", "ab true", "cd false", "refused", "away", "at 14", "ef false", "ended 3"}
	if !slices.Equal(got, events) {
		t.Errorf("got %q, want %q", got, events)
	}
	const size = `{"channel":"control","payload":{"cols":100,"process_id":"P","rows":30},"type":"pty.resize"}`
	subscribe := func(offset int) string {
		return fmt.Sprintf(`{"channel":"control","payload":{"channels":["pty:P"],"offsets":{"pty:P":%d}},`+
			`"type":"subscribe"}`, offset)
	}
	want := []string{
		"terminals=1", subscribe(0), size, "\x01x\r", "terminals=1", subscribe(14), size,
	}
	f.mu.Lock()
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	f.mu.Unlock()
	gone, err := c.Terminal(t.Context(), "01S", "P", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range gone.Events() {
		if !errors.Is(err, fault.ProcessNotFound) {
			t.Errorf("a process that is not there: %v", err)
		}
	}
}
