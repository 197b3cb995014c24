package loop

import (
	"encoding/json"
	"testing"

	"kaged.dev/pkg/compile"
	"kaged.dev/pkg/llm"
)

// family is a bench for agents with children. Each agent has its own model.
type family struct {
	*bench
	models map[string]*model
}

func newFamily(t *testing.T, answers ...play) *family {
	b := newBench(t, answers...)
	f := &family{bench: b, models: map[string]*model{"": b.model}}
	b.deps.Models = openers{f}
	return f
}

// openers returns an agent's model by the agent's key.
type openers struct{ *family }

func (o openers) Open(t llm.Target) (llm.Driver, error) {
	if t.Provider == "fake" {
		return o.model, nil
	}
	return o.models[t.Provider], nil
}

// child adds an agent below another.
func (f *family) child(parent *compile.Agent, key string, answers ...play) *compile.Agent {
	a := &compile.Agent{
		Key: key, Path: parent.Path + ".subagents." + key, Model: key, PromptPath: key + ".md",
		Description: "It is " + key + ".", Tools: []string{"file.read", "file.write"},
	}
	parent.Children = append(parent.Children, a)
	f.models[key] = &model{t: f.t, answers: answers}
	f.start.Prompts[a.PromptPath] = "You are " + key + "."
	f.start.Routes[key] = routeTo(key + ":m")
	return a
}

// asks returns a call of a child.
func asks(id, key, prompt string) llm.ToolCall {
	input, err := json.Marshal(map[string]string{"prompt": prompt})
	if err != nil {
		panic(err)
	}
	return call(id, "agent-"+key, string(input))
}

// answers returns the results in the root's last request, by call id.
func (f *family) answers() map[string]answered {
	out := map[string]answered{}
	for _, r := range results(f.model.requests[len(f.model.requests)-1]) {
		var a answered
		if err := json.Unmarshal([]byte(r.Content), &a); err != nil {
			f.t.Fatalf("%s: %v", r.Content, err)
		}
		a.failed = r.IsError
		out[r.CallID] = a
	}
	return out
}

type answered struct {
	InvocationID string `json:"invocation_id"`
	Outcome      string
	Text         string
	Steps        int
	Tokens       int64
	CostUSD      *float64 `json:"cost_usd"`
	FilesChanged []string `json:"files_changed"`
	Error        struct{ Code, Message string }
	failed       bool
}

// told returns the names of one invocation's events, as [sink.story] does for all.
func (s *sink) told(id string) []string {
	s.mu.Lock()
	one := &sink{}
	for i, e := range s.events {
		if s.whose[i] == id {
			one.events = append(one.events, e)
		}
	}
	s.mu.Unlock()
	return one.story()
}
