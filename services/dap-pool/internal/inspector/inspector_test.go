package inspector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"kaged.dev/services/dap-pool/internal/dap"
	"kaged.dev/services/dap-pool/internal/inspector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runtime is a fake inspector. It answers a request with the line in answers, or with an empty result if there is none.
type runtime struct {
	t       *testing.T
	answers map[string]string // the answers by method; %d is the id of the request

	mu   sync.Mutex // guards ws
	ws   *websocket.Conn
	seen []string
}

func (r *runtime) say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.ws.WriteMessage(websocket.TextMessage, []byte(text)) // it fails if the debugger has left
}

func (r *runtime) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	upgrader := websocket.Upgrader{}
	ws, err := upgrader.Upgrade(w, req, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	r.mu.Lock()
	r.ws = ws
	r.mu.Unlock()
	for {
		_, content, err := ws.ReadMessage()
		if err != nil {
			return
		}
		var m struct {
			ID     int    `json:"id"`
			Method string `json:"method"`
		}
		if json.Unmarshal(content, &m) != nil {
			r.t.Errorf("the bridge sends %q", content)
			return
		}
		r.mu.Lock()
		r.seen = append(r.seen, m.Method)
		r.mu.Unlock()
		text, ok := r.answers[m.Method]
		switch {
		case text == "close":
			return
		case ok:
			r.say(fmt.Sprintf(text, m.ID))
		default:
			r.say(fmt.Sprintf(`{"id":%d,"result":{}}`, m.ID))
		}
	}
}

// stopped is the event of a program that is stopped in one frame.
const stopped = `{"method":"Debugger.paused","params":{"reason":"other","callFrames":[{"callFrameId":"f",` +
	`"functionName":"main","location":{"scriptId":"1","lineNumber":2,"columnNumber":0},` +
	`"scopeChain":[{"type":"local","object":{"type":"object","objectId":"o"}}],"this":{"type":"undefined"}}]}}`

// debug connects a debugger to a fake runtime and starts; events receives the names of its events.
func debug(t *testing.T, r *runtime) (client *dap.Client, events chan string) {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	adapter, err := inspector.Open(t.Context(), conn, "/x", inspector.Options{
		Dialect: inspector.Node, Root: t.TempDir(), MessageBytes: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	events = make(chan string, 1000)
	note := func(name string, _ json.RawMessage) { events <- name }
	client = dap.New(adapter, dap.Options{MessageBytes: 8 << 20, Event: note})
	t.Cleanup(client.Close)
	ask(t, client, "initialize", nil)
	ask(t, client, "attach", nil)
	ask(t, client, "configurationDone", nil)
	await(t, events, "initialized")
	return client, events
}

// ask sends a request that must succeed.
func ask(t *testing.T, client *dap.Client, command string, arguments any) json.RawMessage {
	t.Helper()
	var body json.RawMessage
	if err := client.Call(t.Context(), command, arguments, &body); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return body
}

// await waits for an event.
func await(t *testing.T, events chan string, name string) {
	t.Helper()
	for event := range events {
		if event == name {
			return
		}
	}
}

// An answer above the size limit makes its request fail and leaves the session as it is, wherever the runtime writes
// the number of the request.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3<<20)
	for _, answer := range []string{
		`{"id":%d,"result":{"result":[{"name":"` + long + `"}]}}`,
		`{"result":{"result":[{"name":"` + long + `"}]},"id":%d}`,
	} {
		r := &runtime{t: t, answers: map[string]string{"Runtime.getProperties": answer}}
		client, events := debug(t, r)
		r.say(stopped)
		await(t, events, "stopped")
		ask(t, client, "scopes", map[string]int{"frameId": 0})
		err := client.Call(t.Context(), "variables", map[string]int{"variablesReference": 1}, nil)
		if err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("a long answer: %v", err)
		}
		if frames := ask(t, client, "stackTrace", map[string]int{"threadId": 1}); !strings.Contains(string(frames), "main") {
			t.Errorf("then the frames are %s", frames)
		}
	}
}

// The debugger survives all messages of a runtime that do not follow the protocol.
func TestNonsense(t *testing.T) {
	t.Parallel()
	r := &runtime{t: t, answers: map[string]string{
		"Debugger.evaluateOnCallFrame": `{"id":%d,"result":["strange"]}`,
		"Debugger.setBreakpointByUrl":  `{"id":%d,"error":{"code":-1,"message":"no breakpoints today"}}`,
	}}
	client, events := debug(t, r)
	for _, text := range []string{
		"no JSON", "[]", `{"id":99999,"result":{}}`, `{"method":"Debugger.paused","params":[]}`,
		`{"method":"Debugger.scriptParsed","params":{"scriptId":"1","url":"file:///%zz","sourceMapURL":"data:,%"}}`,
		`{"method":"Debugger.scriptParsed","params":{"scriptId":"1","url":"file:///a.js","sourceMapURL":"../../etc/passwd"}}`,
		`{"method":"Debugger.breakpointResolved","params":{"breakpointId":"none","location":{"lineNumber":-5}}}`,
		`{"method":"Unheard.of"}`, stopped,
	} {
		r.say(text)
	}
	await(t, events, "stopped")
	err := client.Call(t.Context(), "evaluate", map[string]any{"expression": "1", "frameId": 0}, nil)
	if err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a strange answer: %v", err)
	}
	points := ask(t, client, "setBreakpoints", map[string]any{
		"source": map[string]string{"path": "/a.js"}, "breakpoints": []any{map[string]int{"line": 1}},
	})
	if !strings.Contains(string(points), "no breakpoints today") {
		t.Errorf("a breakpoint that is refused: %s", points)
	}
	for command, arguments := range map[string]any{
		"variables": map[string]int{"variablesReference": 7}, "scopes": map[string]int{"frameId": 7},
		"evaluate": map[string]any{"frameId": -1}, "fly": nil, "stackTrace": "no object",
	} {
		if err := client.Call(t.Context(), command, arguments, nil); err == nil {
			t.Errorf("%s works", command)
		}
	}
}

// If a runtime leaves during a request, the session ends and the waiting request fails.
func TestRuntimeLeaves(t *testing.T) {
	t.Parallel()
	r := &runtime{t: t, answers: map[string]string{"Debugger.evaluateOnCallFrame": "close"}}
	client, events := debug(t, r)
	r.say(stopped)
	await(t, events, "stopped")
	if err := client.Call(t.Context(), "evaluate", map[string]any{"expression": "1", "frameId": 0}, nil); err == nil {
		t.Error("a request is answered that the runtime left open")
	}
	await(t, events, "terminated")
}

// A server without an inspector is refused, and the connection is closed.
func TestNoInspector(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	go func() {
		_, _ = far.Read(make([]byte, 4096))
		_, _ = io.WriteString(far, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.Copy(io.Discard, far)
	}()
	if _, err := inspector.Open(t.Context(), near, "/", inspector.Options{Dialect: inspector.Bun}); err == nil {
		t.Error("it is opened")
	}
	if _, err := near.Write([]byte("x")); err == nil {
		t.Error("the connection is open")
	}
	silent, other := net.Pipe()
	defer other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = other.Read(make([]byte, 4096))
		cancel()
	}()
	if _, err := inspector.Open(ctx, silent, "/", inspector.Options{Dialect: inspector.Node}); err == nil {
		t.Error("a silent one is opened")
	}
}
