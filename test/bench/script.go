package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The number of steps of each kind in the script. The first step of each kind fills caches and is not counted.
const scriptReads, scriptWrites, scriptChildren = 11, 9, 6

type params = map[string]any

// scriptCall is a call of a tool by a model.
type scriptCall struct {
	tool  string
	input params
}

// scriptStep is an answer of the model to the root agent: a call, and the list to which its time is added, unless nil.
type scriptStep struct {
	call scriptCall
	took *[]time.Duration
	// broken is true if the written file does not compile; nil for other steps.
	broken *bool
	child  string // the marker of the child that the call starts, if any
}

// scriptTimes are the times between the end of an answer and the next request.
type scriptTimes struct {
	reads, writes, children []time.Duration
	// right is the number of requests after a write that correctly show whether the file has an error.
	right int
}

// script is a model that answers the conversation with rootMessage by the steps of a list, the conversations of
// children with text, and requests without tools, such as for a title, with text too.
type script struct {
	server *http.Server
	url    string

	mu      sync.Mutex // guards the fields below
	steps   []scriptStep
	times   *scriptTimes
	ended   []time.Time // the last byte of each answer to the root
	said    int         // the number of answers to the root
	started map[string]bool
}

func newScript() (*script, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &script{url: "http://" + l.Addr().String()}
	s.server = &http.Server{Handler: s}
	go func() { _ = s.server.Serve(l) }()
	return s, nil
}

func (s *script) close() { _ = s.server.Close() }

// played sets the steps for the tools of a harness, runs it, and adds its times to the results.
func (s *script) played(results map[string]*scriptTimes, name, dir string, tools harnessTools, run func() error) error {
	if results[name] == nil {
		results[name] = &scriptTimes{}
	}
	s.mu.Lock()
	s.times, s.said, s.ended, s.started = results[name], 0, nil, map[string]bool{}
	s.steps = scriptSteps(dir, tools, s.times)
	s.mu.Unlock()
	if err := run(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.said <= len(s.steps):
		return fmt.Errorf("it ended after %d of %d answers", s.said, len(s.steps)+1)
	case len(s.started) != scriptChildren:
		return fmt.Errorf("%d of %d children asked the model", len(s.started), scriptChildren)
	}
	return nil
}

func scriptSteps(dir string, tools harnessTools, t *scriptTimes) (steps []scriptStep) {
	for _, c := range tools.warm {
		steps = append(steps, scriptStep{call: c})
	}
	counted := func(i int, took *[]time.Duration) *[]time.Duration {
		if i == 0 {
			return nil
		}
		return took
	}
	for i := range scriptReads {
		steps = append(steps, scriptStep{
			call: tools.read(dir, fmt.Sprintf("part%d.txt", i), ""), took: counted(i, &t.reads),
		})
	}
	// some harnesses write only files that they have read
	steps = append(steps, scriptStep{call: tools.read(dir, "main.go", "")})
	for i := range scriptWrites {
		broken := i%2 == 1
		step := scriptStep{call: tools.write(dir, "main.go", scriptMain(i, broken)), took: counted(i, &t.writes)}
		if i > 0 {
			step.broken = &broken
		}
		steps = append(steps, step)
	}
	for i := range scriptChildren {
		marker := fmt.Sprintf("SCRIPT-CHILD-%d.", i)
		steps = append(steps, scriptStep{
			call: tools.delegate("Follow " + marker), child: marker, took: counted(i, &t.children),
		})
	}
	return steps
}

// scriptMain returns a version of main.go, with an undefined name if broken is true.
func scriptMain(version int, broken bool) string {
	name := "version"
	if broken {
		name = "missing"
	}
	return fmt.Sprintf("package main\n\nconst version = %d\n\nfunc main() { println(%s) }\n", version, name)
}

// writeScriptProject writes the project of the script in its state before a run.
func writeScriptProject(dir string) error {
	files := map[string]string{"go.mod": "module example.com/m\n\ngo 1.24\n", "main.go": scriptMain(-1, false)}
	for i := range scriptReads {
		files[fmt.Sprintf("part%d.txt", i)] = "one\ntwo\nthree\n"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	var body struct {
		Tools    []json.RawMessage `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Method != http.MethodPost || json.Unmarshal(data, &body) != nil || !strings.HasSuffix(r.URL.Path, "/messages") {
		http.NotFound(w, r)
		return
	}
	var users, last []byte
	for _, m := range body.Messages {
		if m.Role != "assistant" {
			last = m.Content
			users = append(users, userText(m.Content)...)
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, "message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",`+
		`"model":"bench","content":[],"stop_reason":null,"stop_sequence":null,`+
		`"usage":{"input_tokens":10,"output_tokens":1}}}`)
	answer, root := s.next(now, len(body.Tools) > 0, users, last)
	if root && answer.tool == "" {
		s.awaitChildren(r.Context())
	}
	if answer.tool != "" {
		input, _ := json.Marshal(answer.input) // plain values can be encoded as JSON
		call(w, plan{tool: answer.tool, input: string(input)}, s.count())
	} else {
		text(w, plan{})
	}
	_ = http.NewResponseController(w).Flush()
	if root {
		s.mu.Lock()
		s.ended = append(s.ended, time.Now())
		s.mu.Unlock()
	}
}

// awaitChildren returns when every child has sent a request, or at the end of the context. A harness may start its
// children while the parent continues, and end them with it.
func (s *script) awaitChildren(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		all := len(s.started) == scriptChildren
		s.mu.Unlock()
		if all {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said
}

// next returns the answer to a request, a call without a tool for text, and whether it is for the root agent.
func (s *script) next(now time.Time, tools bool, users, last []byte) (scriptCall, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, step := range s.steps {
		if step.child == "" || !bytes.Contains(users, []byte(step.child)) {
			continue
		}
		if !s.started[step.child] {
			s.started[step.child] = true
			if step.took != nil {
				*step.took = append(*step.took, now.Sub(s.ended[i]))
			}
		}
		return scriptCall{}, false
	}
	if !tools || !bytes.Contains(users, []byte("SCRIPT-ROOT")) {
		return scriptCall{}, false
	}
	if i := s.said - 1; i >= 0 && i < len(s.steps) {
		step := s.steps[i]
		if step.took != nil && step.child == "" {
			*step.took = append(*step.took, now.Sub(s.ended[i]))
		}
		if step.broken != nil && bytes.Contains(last, []byte("undefined")) == *step.broken {
			s.times.right++
		}
	}
	s.said++
	if s.said > len(s.steps) {
		return scriptCall{}, true
	}
	return s.steps[s.said-1].call, true
}

// userText returns the text of a message that a user or a harness has written, without the results of tools.
func userText(content json.RawMessage) []byte {
	var plain string
	if json.Unmarshal(content, &plain) == nil {
		return []byte(plain)
	}
	var blocks []struct{ Type, Text string }
	if json.Unmarshal(content, &blocks) != nil {
		return nil
	}
	var all []byte
	for _, b := range blocks {
		if b.Type == "text" {
			all = append(all, b.Text...)
		}
	}
	return all
}
