package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// binary is a received binary frame.
type binary struct {
	kind    byte
	process string // of an addressed frame
	data    string
	event   frame // of a control event
}

// binary returns the next frame and fails the test unless the frame is binary.
func (s *ws) binary() binary {
	s.t.Helper()
	kind, data, err := s.conn.ReadMessage()
	if err != nil || kind != websocket.BinaryMessage || len(data) == 0 {
		s.t.Fatalf("got %d %q, %v, want a binary frame", kind, data, err)
	}
	b := binary{kind: data[0], data: string(data[1:])}
	if b.kind >= 0x11 {
		b.process, b.data = b.data[:26], b.data[26:]
	}
	if b.kind == 0x02 || b.kind == 0x12 {
		b.event.text = b.data
		if err := json.Unmarshal([]byte(b.data), &b.event); err != nil || b.event.Channel != "pty" {
			s.t.Fatalf("%q is no event: %v", data, err)
		}
	}
	return b
}

// output reads binary frames until it has as many bytes as want, and compares them.
func (s *ws) output(want string) {
	s.t.Helper()
	got := ""
	for len(got) < len(want) {
		b := s.binary()
		if b.event.Type != "" {
			s.t.Fatalf("got %s after %q, want %q", b.data, got, want)
		}
		got += b.data
	}
	if got != want {
		s.t.Fatalf("output is %q, want %q", got, want)
	}
}

func (s *ws) event(kind string) frame {
	s.t.Helper()
	b := s.binary()
	if b.event.Type != kind {
		s.t.Fatalf("got %q, want %s", b.data, kind)
	}
	return b.event
}

// position reads pty.position and fails the test unless it has these values.
func (s *ws) position(offset, missing, replayEnd string) {
	s.t.Helper()
	f := s.event("pty.position")
	if f.field("offset") != offset || f.field("missing") != missing || f.field("replay_end") != replayEnd {
		s.t.Fatalf("got %s, want %s, %s missing, replay up to %s", f.text, offset, missing, replayEnd)
	}
}

// onTerminal starts a daemon with a session that has a background process.
func onTerminal(t *testing.T, s setup) (d *daemon, process string, p *boxed) {
	d, _ = onSession(t, s)
	process = ident.New()
	d.manager.with(func() { d.manager.terminals = map[string]string{process: session} })
	return d, process, d.box.begin(process, session)
}

// The terminal of a background process is sent as plain binary frames: first the stored output, then new output, at
// any boundaries. Input and sizes go to the process. After the end of the process the channel is silent
// (A-WS-PTY-01 to -05, A-EX-04).
func TestTerminal(t *testing.T) {
	t.Parallel()
	d, id, p := onTerminal(t, setup{})
	d.box.change(p, func() { p.start, p.output = 10, []byte("kept €"[:7]) })
	s := d.operator().socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["pty:`+id+`"]}`)
	s.position("10", "10", "17")
	s.output("kept €"[:7])
	d.box.write(p, "kept €"[7:]+"\x1b[31m")
	s.output("kept €"[7:] + "\x1b[31m")
	s.send("pty.resize", `{"invocation_id":"`+id+`","cols":120,"rows":40}`)
	s.raw(websocket.BinaryMessage, "\x01echo hi\n")
	for _, want := range []string{"size 120x40", "echo hi\n"} {
		if got := <-p.got; got != want {
			t.Errorf("the process got %q, want %q", got, want)
		}
	}
	d.manager.with(func() {
		if r := d.manager.typed; len(r) != 1 || string(r[0].GetInput()) != "echo hi\n" ||
			r[0].GetTerminal().GetRunId() != "01R" {
			t.Errorf("recorded %v", r)
		}
	})
	d.box.exit(p, 3)
	f := s.event("pty.ended")
	if f.field("exit_code") != "3" || f.field("process_id") != id || f.field("duration_ms") != "5" {
		t.Errorf("ended: %s", f.text)
	}
	d.box.write(p, "late")
	s.sync()
	s.raw(websocket.BinaryMessage, "\x01late\n")
	if f := s.want("control", "error"); f.field("code") != "not_found" {
		t.Errorf("input after the end: %s", f.text)
	}
}

// A second terminal on a socket is refused unless its frames are addressed. Addressed frames keep output, input and
// ends of the terminals apart (A-CONTRA-16).
func TestAddressedTerminals(t *testing.T) {
	t.Parallel()
	d, one, p := onTerminal(t, setup{config: quick(map[string]any{"terminals": int64(2)})})
	two, three := ident.New(), ident.New()
	d.manager.with(func() { d.manager.terminals[two], d.manager.terminals[three] = session, session })
	q := d.box.begin(two, session)
	s := d.operator().socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["pty:`+one+`"]}`)
	s.position("0", "0", "0")
	s.send("subscribe", `{"channels":["pty:`+two+`"]}`)
	f := s.want("control", "error")
	if f.field("code") != "conflict" || !strings.Contains(f.text, "pty_not_addressed") {
		t.Errorf("a second plain terminal: %s", f.text)
	}
	s.send("subscribe", `{"channels":["pty:`+two+`"],"addressed":true}`)
	if b := s.binary(); b.kind != 0x12 || b.process != two {
		t.Errorf("got %+v", b)
	}
	s.send("subscribe", `{"channels":["pty:`+three+`"],"addressed":true}`)
	if f := s.want("control", "error"); f.field("code") != "rate_limited" {
		t.Errorf("a third terminal of two: %s", f.text)
	}
	d.box.write(p, "one")
	if b := s.binary(); b.kind != 0x01 || b.data != "one" {
		t.Errorf("got %+v", b)
	}
	d.box.write(q, "two")
	if b := s.binary(); b.kind != 0x11 || b.process != two || b.data != "two" {
		t.Errorf("got %+v", b)
	}
	s.raw(websocket.BinaryMessage, "\x11"+two+"x")
	s.raw(websocket.BinaryMessage, "\x01y")
	if a, b := <-q.got, <-p.got; a != "x" || b != "y" {
		t.Errorf("input went to the wrong process: %q, %q", a, b)
	}
	s.send("unsubscribe", `{"channels":["pty:`+one+`"]}`)
	s.sync()
	d.box.write(p, "unseen")
	s.sync()
	s.send("subscribe", `{"channels":["pty:`+three+`"]}`)
	f = s.want("control", "error")
	if f.field("code") != "process_not_found" || !strings.Contains(f.text, `"subscribed":false`) {
		t.Errorf("a process that the supervisor does not know: %s", f.text)
	}
}

// Two windows show one process while another client holds the session. Both get every byte, and both can type. A
// window resumes at an offset and has no channel but terminals.
func TestWindows(t *testing.T) {
	t.Parallel()
	d, id, p := onTerminal(t, setup{})
	c := d.operator()
	holder := c.socket(session)
	holder.hello(`{}`)
	window := func(offset string) *ws {
		s, got := c.dial(session, wish{query: "?terminals=1"})
		if s == nil {
			t.Fatalf("a window: %d %s", got.status, got.body)
		}
		s.hello(`{"output":7}`)
		s.send("subscribe", `{"channels":["pty:`+id+`"],"offsets":{"pty:`+id+`":`+offset+`}}`)
		return s
	}
	d.box.write(p, "hello")
	a, b := window("0"), window("3")
	a.position("0", "0", "5")
	a.output("hello")
	b.position("3", "0", "5")
	b.output("lo")
	a.raw(websocket.BinaryMessage, "\x01a")
	b.raw(websocket.BinaryMessage, "\x01b")
	if got := <-p.got + <-p.got; got != "ab" && got != "ba" {
		t.Errorf("the process got %q", got)
	}
	d.box.write(p, " all")
	a.output(" all")
	b.output(" all")
	a.send("subscribe", `{"channels":["output"]}`)
	if f := a.want("control", "error"); f.field("code") != "not_found" || !strings.Contains(f.text, "terminals=1") {
		t.Errorf("output in a window: %s", f.text)
	}
	holder.sync()
	ahead := window("99")
	ahead.position("9", "0", "9")
	for query, want := range map[string]string{"?terminals=2": "validation_failed"} {
		if _, got := c.dial(session, wish{query: query}); got.refusal(t).Code != want {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	if _, got := c.dial("unknown", wish{query: "?terminals=1"}); got.status != 404 {
		t.Errorf("a window of an unknown session: %d %s", got.status, got.body)
	}
}

// A terminal can be opened only for a background process of the socket's own session, for any id that a client
// sends.
func TestTerminalsOfOthers(t *testing.T) {
	t.Parallel()
	d, id, _ := onTerminal(t, setup{})
	d.manager.with(func() { d.manager.terminals[id] = "another session" })
	s := d.operator().socket(session)
	s.hello(`{}`)
	for name, code := range map[string]string{
		"pty:" + id: "process_not_found", "pty:": "not_found", "pty:../../x": "not_found",
		"pty:" + strings.Repeat("A", 5000): "not_found", "pty:" + strings.ToLower(id): "not_found",
		`pty:\u0000`: "not_found",
	} {
		s.send("subscribe", `{"channels":["`+name+`"]}`)
		if f := s.want("control", "error"); f.field("code") != code {
			t.Errorf("%.40s: %.200s", name, f.text)
		}
	}
	for _, payload := range []string{`{}`, `{"process_id":"` + id + `","cols":1,"rows":1}`} {
		s.send("pty.resize", payload)
		if f := s.want("control", "error"); f.field("code") != "not_found" {
			t.Errorf("resize %s: %s", payload, f.text)
		}
	}
	s.sync()
}

// A binary frame that is not input breaks the protocol, also while a terminal is shown (A-WS-FRAME-03).
func TestHostileBinaryFrames(t *testing.T) {
	t.Parallel()
	d, id, p := onTerminal(t, setup{})
	c := d.operator()
	for _, data := range []string{
		"", "\x01", "\x00x", "\x02x", "\x12" + id + "{}", "\x11" + id, "\x11short",
		"\x11" + strings.Repeat("\xff", 30), "\x03x",
	} {
		s := c.socket(session)
		s.hello(`{}`)
		s.send("subscribe", `{"channels":["pty:`+id+`"]}`)
		s.event("pty.position")
		s.raw(websocket.BinaryMessage, data)
		s.closed("policy_violation", websocket.ClosePolicyViolation)
		<-d.manager.released
		if t.Failed() {
			t.Fatalf("after %q", data)
		}
	}
	s := c.socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["pty:`+id+`"]}`)
	s.event("pty.position")
	s.send("pty.resize", `{"process_id":"`+id+`","cols":0,"rows":99999}`)
	f := s.want("control", "error")
	if f.field("code") != "validation_failed" || !strings.Contains(f.text, `"subscribed":true`) {
		t.Errorf("resize: %s", f.text)
	}
	s.raw(websocket.BinaryMessage, "\x01\x00\xff\xfe\x1b]0;x\x07")
	if got := <-p.got; got != "\x00\xff\xfe\x1b]0;x\x07" {
		t.Errorf("the process got %q", got)
	}
}

// After an outage of the supervisor the output continues at the next byte. A restarted supervisor does not know the
// process, whose end is reported as lost.
func TestTerminalOfARestartedSupervisor(t *testing.T) {
	t.Parallel()
	d, id, p := onTerminal(t, setup{})
	s := d.operator().socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["pty:`+id+`"]}`)
	s.position("0", "0", "0")
	d.box.write(p, "one ")
	s.output("one ")
	d.box.restart(false)
	d.box.write(p, "two")
	s.output("two")
	d.box.restart(true)
	f := s.event("pty.ended")
	if f.field("reason") != "lost" || f.field("exit_code") != "<nil>" || f.field("offset") != "7" {
		t.Errorf("ended: %s", f.text)
	}
	s.sync()
}

// While a client does not read, the reading of its terminal waits. The client keeps its socket and is told the size
// of the gap.
func TestTerminalOfASlowClient(t *testing.T) {
	t.Parallel()
	d, id, p := onTerminal(t, setup{config: quick(map[string]any{"pty_buffer": int64(64 << 10)})})
	s := d.operator().socket(session)
	s.hello(`{}`)
	const kept = 256 << 10
	flood := func() {
		for range 64 {
			d.box.change(p, func() {
				all := append(p.output, strings.Repeat("x", kept)...)
				lost := max(0, len(all)-kept)
				p.start, p.output = p.start+int64(lost), all[lost:]
			})
		}
	}
	s.send("subscribe", `{"channels":["pty:`+id+`"]}`)
	s.position("0", "0", "0")
	flood()
	d.box.exit(p, 0)
	got, missing := int64(0), int64(0)
	for {
		b := s.binary()
		if b.event.Type == "" {
			got += int64(len(b.data))
			continue
		}
		var payload struct{ Missing, Offset int64 }
		if err := json.Unmarshal(b.event.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if b.event.Type == "pty.ended" {
			if got+missing != payload.Offset || payload.Offset != 64*256<<10 {
				t.Errorf("%d bytes came and %d were missing, of %d", got, missing, payload.Offset)
			}
			break
		}
		missing += payload.Missing
	}
	s.sync()
}

// A line is recorded before it is sent to the process; other input is recorded soon after. The record of a hidden
// line has no text. A line that cannot be recorded is not sent.
func TestRecordsOfInput(t *testing.T) {
	t.Parallel()
	d, id, p := onTerminal(t, setup{})
	s := d.operator().socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["pty:`+id+`"]}`)
	s.position("0", "0", "0")
	typed := func(input string) {
		t.Helper()
		s.raw(websocket.BinaryMessage, "\x01"+input)
		for got := ""; got != input; {
			if got += <-p.got; !strings.HasPrefix(input, got) {
				t.Fatalf("the process got %q, want %q", got, input)
			}
		}
	}
	records := func() (text string) {
		d.manager.with(func() {
			for _, r := range d.manager.typed {
				if text += string(r.GetInput()); r.GetHidden() && !strings.HasSuffix(text, "[hidden]") {
					text += "[hidden]"
				}
			}
		})
		return text
	}
	typed("l")
	typed("s")
	typed("\r")
	d.box.change(p, func() { p.hidden = true })
	typed("sec")
	typed("ret\r")
	d.box.change(p, func() { p.hidden = false })
	d.manager.with(func() { d.manager.untyped = fault.New(fault.Unavailable, "The store is away.") })
	s.raw(websocket.BinaryMessage, "\x01rm x\r")
	if f := s.want("control", "error"); f.field("code") != "unavailable" {
		t.Errorf("a line without a record: %s", f.text)
	}
	d.manager.with(func() { d.manager.untyped = nil })
	typed("\x03")
	typed("exit")
	s.send("unsubscribe", `{"channels":["pty:`+id+`"]}`)
	s.conn.Close()
	<-d.manager.released
	for !strings.HasSuffix(records(), "exit") {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("recorded %q", records())
		}
	}
	if got := records(); got != "ls\r[hidden]\x03exit" {
		t.Errorf("recorded %q", got)
	}
	if len(p.got) > 0 {
		t.Errorf("the process got %q too", <-p.got)
	}
}

// Input for a process that does not read waits up to a limit. Further input is refused, and the socket stays open.
func TestInputThatWaits(t *testing.T) {
	t.Parallel()
	d, id, p := onTerminal(t, setup{config: quick(map[string]any{"pty_input": int64(1000)})})
	d.box.change(p, func() { p.full = true })
	s := d.operator().socket(session)
	s.hello(`{}`)
	s.send("subscribe", `{"channels":["pty:`+id+`"]}`)
	s.position("0", "0", "0")
	s.raw(websocket.BinaryMessage, "\x01"+strings.Repeat("x", 900))
	s.raw(websocket.BinaryMessage, "\x01"+strings.Repeat("x", 900)) // waits, or is refused
	s.raw(websocket.BinaryMessage, "\x01"+strings.Repeat("x", 900))
	s.send("ping", `{}`)
	refused := 0
	for f := s.want("control", "error"); f.Type != "pong"; refused++ {
		if f.field("code") != "rate_limited" || !strings.Contains(f.text, `"subscribed":true`) {
			t.Errorf("too much input: %s", f.text)
		}
		var err error
		if f, err = s.next(); err != nil {
			t.Fatal(err)
		}
	}
	if refused > 2 {
		t.Errorf("%d of 3 inputs were refused", refused)
	}
	d.box.change(p, func() { p.full = false })
	got := 0
	for got < 900 {
		got += len(<-p.got)
	}
	s.sync()
}
