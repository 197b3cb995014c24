package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// musicSite is the project of the specification's worked example.
const musicSite = `version: 1
project: music-site
description: The worked example of the API's specification.
primary:
  model: smart-generalist
  system_prompt: ./prompt.md
  subagents:
    scraper:
      description: Looks for new releases.
      model: smart-generalist
      system_prompt: ./scraper.md
      tools: {"shell.exec": {enabled: true}, "shell.process": {enabled: true}}
`

// wire is a client of the worked example: plain HTTP and a plain WebSocket, without kaged's client packages.
type wire struct {
	t    *testing.T
	base string
	http http.Header
	conn *websocket.Conn
	seqs map[string]int64
}

func (w *wire) request(method, path, body string, status int) (answer map[string]any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = w.http.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != status {
		w.t.Fatalf("%s %s: %d %v, %v, want %d", method, path, resp.StatusCode, answer, err, status)
	}
	return answer
}

func (w *wire) send(frame string) {
	w.t.Helper()
	if err := w.conn.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		w.t.Fatal(err)
	}
}

// wireFrame is a frame in the form of the specification; data are the bytes of a binary frame.
type wireFrame struct {
	Channel string
	Seq     int64
	Type    string
	Payload map[string]any
	data    []byte
}

func (f wireFrame) text(key string) string { return fmt.Sprint(f.Payload[key]) }

// next returns the next frame. Frames of a channel are numbered without gaps (A-WS-FRAME-01).
func (w *wire) next() wireFrame {
	w.t.Helper()
	_ = w.conn.SetReadDeadline(time.Now().Add(kagedtest.Limit))
	kind, data, err := w.conn.ReadMessage()
	if err != nil {
		w.t.Fatal(err)
	}
	if kind == websocket.BinaryMessage {
		return wireFrame{Channel: "pty", data: data}
	}
	var f wireFrame
	if err := json.Unmarshal(data, &f); err != nil {
		w.t.Fatalf("%s: %v", data, err)
	}
	if f.Channel == "output" || f.Channel == "events" {
		if w.seqs[f.Channel]++; f.Seq != w.seqs[f.Channel] {
			w.t.Fatalf("frame %d of %s came as %d", w.seqs[f.Channel], f.Channel, f.Seq)
		}
	}
	return f
}

// until reads frames up to one of a type on a channel, and returns it with the frames before it on the same channel.
func (w *wire) until(channel, kind string, held *[]wireFrame) (before []wireFrame, found wireFrame) {
	w.t.Helper()
	for i := 0; ; i++ {
		var f wireFrame
		if i < len(*held) {
			f = (*held)[i]
		} else {
			f = w.next()
			*held = append(*held, f)
		}
		if f.Channel != channel {
			continue
		}
		*held = append((*held)[:i:i], (*held)[i+1:]...)
		i--
		if f.Type == kind {
			return before, f
		}
		before = append(before, f)
	}
}

// The worked example of the specification, frame by frame, with a token and without kaged's client packages: a session,
// its socket, a message, a run that calls an agent, the terminal of its process, and the end (A-EX-01 to -04,
// A-CONTRA-11).
func TestTheWorkedExample(t *testing.T) {
	t.Parallel()
	llm := fakellm.Start(t)
	gate := fakellm.NewGate()
	llm.Handle(func(r *fakellm.Request) fakellm.Step {
		scraper := strings.Contains(r.System, "You scrape.")
		switch {
		case scraper && r.Turns() == 0:
			return fakellm.Step{fakellm.Tool("shell.exec", `{"background":true,"terminal":true,
				"command":"stty -echo; echo page; read line; stty size; echo \"got $line\""}`)}
		case scraper:
			return fakellm.Step{fakellm.Wait(gate), fakellm.Say("Found 3 releases.")}
		case r.Turns() == 0:
			return fakellm.Step{
				fakellm.Say("I'll dispatch the scraper..."),
				fakellm.Tool("agent-scraper", `{"prompt":"Look at the page of new releases."}`),
			}
		}
		return fakellm.Step{fakellm.Say("Found 3 releases.")}
	})
	world := kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic"))
	dir := t.TempDir()
	kagedtest.Write(t, dir, ".kaged/project.yaml", musicSite)
	kagedtest.Write(t, dir, "prompt.md", "You dispatch.")
	kagedtest.Write(t, dir, "scraper.md", "You scrape.")
	world.Up(t, databaseEnv(t))
	admin := world.SignIn(t)
	kagedtest.Post[struct{}](t, admin, "/api/v1/projects/load", map[string]any{"path": dir})
	scope := map[string]any{"name": "example", "scope": "run"}
	token := kagedtest.Post[struct{ Token string }](t, admin, "/api/v1/tokens", scope).Token
	signed := http.Header{"Authorization": {"Bearer " + token}}
	w := &wire{t: t, base: admin.BaseURL(), http: signed, seqs: map[string]int64{}}

	// 1. A session.
	session := w.request("POST", "/api/v1/projects/music-site/sessions", `{}`, 201)
	id := session["id"].(string)
	if session["state"] != "idle" {
		t.Errorf("a new session is %v", session["state"])
	}

	// 2. Its socket.
	dialer := websocket.Dialer{Subprotocols: []string{"kaged.v1"}}
	socket := "ws" + strings.TrimPrefix(w.base, "http") + "/api/v1/sessions/" + id + "/socket"
	conn, upgrade, err := dialer.DialContext(t.Context(), socket, w.http)
	if err != nil || upgrade.StatusCode != 101 || upgrade.Header.Get("Sec-WebSocket-Protocol") != "kaged.v1" {
		t.Fatalf("upgrade: %v, %v", upgrade, err)
	}
	defer conn.Close()
	w.conn = conn
	w.send(`{"channel":"control","type":"hello","payload":{"resume_from_seq":{"output":0,"events":0}}}`)
	welcome := w.next()
	at, _ := welcome.Payload["server_seq"].(map[string]any)
	if welcome.Type != "welcome" || at["output"] != 0.0 || at["events"] != 0.0 {
		t.Fatalf("welcome: %+v", welcome)
	}
	w.send(`{"channel":"control","type":"subscribe","payload":{"channels":["output","events"]}}`)

	// 3. A message.
	accepted := w.request("POST", "/api/v1/sessions/"+id+"/messages", `{"content":"Scrape new releases."}`, 202)

	// 4. The run starts.
	var held []wireFrame
	_, started := w.until("events", "run.started", &held)
	if started.text("message_id") != accepted["id"] || started.text("run_id") != accepted["run_id"] {
		t.Errorf("run.started: %v, accepted %v", started.Payload, accepted)
	}
	if _, state := w.until("events", "session.state", &held); state.text("state") != "running" {
		t.Errorf("session.state: %v", state.Payload)
	}

	// 5. The agent writes and calls another agent.
	_, start := w.until("output", "message.start", &held)
	message := start.text("message_id")
	deltas, call := w.until("output", "message.tool_call", &held)
	if start.text("role") != "primary" || said(deltas) != "I'll dispatch the scraper..." ||
		call.text("name") != "agent-scraper" {
		t.Errorf("%v, %q, %v", start.Payload, said(deltas), call.Payload)
	}
	_, began := w.until("output", "subagent.start", &held)
	if began.text("name") != "scraper" || began.text("tool_call_id") != call.text("id") {
		t.Errorf("subagent.start: %v", began.Payload)
	}
	w.until("output", "subagent.tool_result", &held)

	// 5a to 5d. The terminal of the process that it started.
	processes := w.request("GET", "/api/v1/sessions/"+id+"/processes", "", 200)["processes"].([]any)
	if len(processes) != 1 {
		t.Fatalf("there run %v", processes)
	}
	process := processes[0].(map[string]any)["id"].(string)
	w.send(`{"channel":"control","type":"subscribe","payload":{"channels":["pty:` + process + `"]}}`)
	w.shown(&held, "page\r\n")
	w.send(`{"channel":"control","type":"pty.resize",` +
		`"payload":{"invocation_id":"` + process + `","cols":120,"rows":40}}`)
	if err := conn.WriteMessage(websocket.BinaryMessage, []byte("\x01hello\r")); err != nil {
		t.Fatal(err)
	}
	w.shown(&held, "page\r\n40 120\r\ngot hello\r\n")
	gate.Open()

	// 5. The agent's end, and the end of the message.
	output, end := w.until("output", "subagent.end", &held)
	text := ""
	for _, f := range output {
		text += f.text("text")
	}
	if text != "Found 3 releases." ||
		end.text("invocation_id") != began.text("invocation_id") || end.text("exit") != "0" {
		t.Errorf("%q, %v", text, end.Payload)
	}
	if _, result := w.until("output", "message.tool_result", &held); result.text("message_id") != message {
		t.Errorf("message.tool_result: %v", result.Payload)
	}
	deltas, over := w.until("output", "message.end", &held)
	if said(deltas) != "Found 3 releases." || over.text("message_id") != message || over.text("stop_reason") != "stop" {
		t.Errorf("%q, %v", said(deltas), over.Payload)
	}

	// 6. The end of the run.
	_, ended := w.until("events", "run.ended", &held)
	if ended.text("outcome") != "completed" || ended.text("run_id") != started.text("run_id") {
		t.Errorf("run.ended: %v", ended.Payload)
	}
	if _, state := w.until("events", "session.state", &held); state.text("state") != "idle" {
		t.Errorf("session.state: %v", state.Payload)
	}
}

// said returns the text of deltas.
func said(frames []wireFrame) (text string) {
	for _, f := range frames {
		if f.Type == "message.delta" {
			text += f.text("delta")
		}
	}
	return text
}

// shown reads until the terminal has shown exactly this text since it was opened.
func (w *wire) shown(held *[]wireFrame, want string) {
	w.t.Helper()
	for {
		got := ""
		for _, f := range *held {
			if len(f.data) > 0 && f.data[0] == 0x01 {
				got += string(f.data[1:])
			}
		}
		if got == want {
			return
		}
		if !strings.HasPrefix(want, got) {
			w.t.Fatalf("the terminal shows %q, want %q", got, want)
		}
		*held = append(*held, w.next())
	}
}
