package bench

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// model is a provider with Anthropic's format that does as little work as possible, and records the times of requests
// and answers.
type model struct {
	server *http.Server
	url    string

	mu      sync.Mutex // guards the fields below
	plan    plan
	arrived []time.Time // the times of the requests since the plan was set
	ended   []time.Time // the times of each answer's last byte
	bodies  []int       // the sizes of the requests in bytes
	tokens  int         // the counted input tokens of the last request
}

// plan determines a model's answers.
type plan struct {
	// tool and input: the answer has this call in the given number of rounds, and then text. ROUND in the input is
	// replaced by the number of the round, because kaged ends an agent that repeats the same call.
	tool, input string
	rounds      int
	// width is the number of calls per turn, one if it is 0. CALL in the input is replaced by the number of the call.
	width int
	// takes is the delay of an answer. Unless hold is nil, an answer waits for it first.
	takes time.Duration
	hold  chan struct{}
	// below is the plan for the agents below the root, which have belowPrompt as their system prompt.
	below *plan
	// deltas of text with interval between them; each has the time of its write, in nanoseconds
	deltas   int
	padding  int // bytes after the time in each
	interval time.Duration
	// count returns the input tokens of a request; nil for 10.
	count func(body []byte) int
}

func newModel() (*model, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &model{url: "http://" + l.Addr().String()}
	m.server = &http.Server{Handler: http.HandlerFunc(m.serve)}
	go func() { _ = m.server.Serve(l) }()
	return m, nil
}

func (m *model) close() { _ = m.server.Close() }

func (m *model) set(p plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan, m.arrived, m.ended, m.bodies = p, nil, nil, nil
}

// sizes returns the sizes in bytes of the requests since the plan was set.
func (m *model) sizes() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]int(nil), m.bodies...)
}

// counted returns the input tokens of the last request.
func (m *model) counted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tokens
}

func (m *model) times() (arrived, ended []time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]time.Time(nil), m.arrived...), append([]time.Time(nil), m.ended...)
}

// bodies are reused between requests.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	// A new buffer for each body would make this process collect garbage during kaged's steps, on the same processors.
	buf := bodies.Get().(*bytes.Buffer)
	defer bodies.Put(buf)
	buf.Reset()
	if _, err := buf.ReadFrom(r.Body); err != nil {
		return
	}
	body := buf.Bytes()
	m.mu.Lock()
	p := m.plan
	if p.below != nil && bytes.Contains(body, []byte(belowPrompt)) {
		p = *p.below
	}
	m.arrived, m.bodies = append(m.arrived, now), append(m.bodies, len(body))
	m.mu.Unlock()
	tokens := 10
	if p.count != nil {
		tokens = p.count(body)
	}
	m.mu.Lock()
	m.tokens = tokens
	m.mu.Unlock()
	// Decoding the conversation would cost more than kaged's step, at the same time and on the same processors.
	said := bytes.Count(body, []byte(`"role":"assistant"`))
	if p.hold != nil {
		<-p.hold
	}
	time.Sleep(p.takes)
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, "message_start", fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_1","type":"message",`+
		`"role":"assistant",`+
		`"model":"bench","content":[],"stop_reason":null,"stop_sequence":null,`+
		`"usage":{"input_tokens":%d,"output_tokens":1}}}`, tokens))
	if p.tool != "" && said%(p.rounds+1) < p.rounds {
		call(w, p, said)
	} else {
		text(w, p)
	}
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	m.mu.Lock()
	m.ended = append(m.ended, time.Now())
	m.mu.Unlock()
}

func event(w io.Writer, name, data string) { fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data) }

func call(w io.Writer, p plan, n int) {
	name := strings.ReplaceAll(p.tool, ".", "__")
	for i := range max(p.width, 1) {
		input := strings.NewReplacer("ROUND", strconv.Itoa(n+1), "CALL", strconv.Itoa(i)).Replace(p.input)
		event(w, "content_block_start", fmt.Sprintf(
			`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use",`+
				`"id":"toolu_%d_%d","name":%q,"input":{}}}`, i, n, i, name))
		event(w, "content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,`+
			`"delta":{"type":"input_json_delta","partial_json":%q}}`, i, input))
		event(w, "content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	finish(w, "tool_use")
}

func text(w http.ResponseWriter, p plan) {
	event(w, "content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	flusher, _ := w.(http.Flusher)
	next := time.Now()
	padding := strings.Repeat("x", p.padding)
	for range max(p.deltas, 1) {
		event(w, "content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+
			strconv.FormatInt(time.Now().UnixNano(), 10)+" "+padding+`"}}`)
		if p.interval > 0 {
			flusher.Flush()
			next = next.Add(p.interval)
			time.Sleep(time.Until(next))
		}
	}
	event(w, "content_block_stop", `{"type":"content_block_stop","index":0}`)
	finish(w, "end_turn")
}

func finish(w io.Writer, reason string) {
	event(
		w, "message_delta",
		fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":10}}`,
			reason),
	)
	event(w, "message_stop", `{"type":"message_stop"}`)
}
