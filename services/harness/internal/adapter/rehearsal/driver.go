// Package rehearsal plays a script in place of a model, for tests, demonstrations and bug reports.
// docs/reference/rehearsal.md describes the script's format.
//
// The driver has no state between calls. The step of a call is one more than the number of model turns in its
// conversation, superseded turns included; each agent has its own steps. So equal conversations get equal answers in
// any process. A rehearsal uses only the tokens that its script states, and is free.
package rehearsal

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/retry"
)

// Name is the driver's name in configurations.
const Name = "rehearsal"

// maxShown is the most characters of a conversation in an error.
const maxShown = 300

// Driver plays one script. It is safe for concurrent use.
type Driver struct {
	target llm.Target
	script *Script
	err    error
}

// New returns a driver for the target's script. If the script is invalid, each call fails.
func New(target llm.Target) *Driver {
	target.Driver = Name
	script, err := Parse(target.Script)
	return &Driver{target: target, script: script, err: err}
}

// Stream plays the step of the request; see llm.Driver. Besides the codes there it yields script_mismatch if the
// script has no step for the request or the step expects other text, and provider_not_configured if the script is
// invalid.
func (d *Driver) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if d.err != nil {
			yield(llm.Event{}, d.err)
			return
		}
		s, err := d.script.of(req.Agent).find(req)
		if err != nil {
			yield(llm.Event{}, err)
			return
		}
		if req.Hold != nil {
			if err := req.Hold(ctx, llm.Body{}); err != nil {
				yield(llm.Event{}, err)
				return
			}
		}
		d.play(ctx, s, yield)
	}
}

// of returns the part of an agent; agents without one of their own share the common part.
func (s *Script) of(agent string) part {
	if p, ok := s.agents[agent]; ok {
		return p
	}
	return s.part
}

// find returns the step for a request.
func (s part) find(req llm.Request) (*step, error) {
	turns := req.Superseded
	for _, m := range req.Messages {
		if m.Role == llm.RoleAssistant {
			turns++
		}
	}
	number := turns + 1
	var st *step
	switch {
	case turns < len(s.steps):
		st = &s.steps[turns]
	case s.loop:
		st = &s.steps[turns%len(s.steps)]
	case s.rest != nil:
		st = s.rest
	default:
		return nil,
			fault.New(fault.ScriptMismatch, "The rehearsal script has no step %d: it ends after step %d, and the "+
				"conversation goes on with %s.",
				number, len(s.steps), shown(news(req))).With("step", number)
	}
	if got := news(req); len(st.Expect) > 0 {
		for _, p := range st.Expect {
			if !p.in(got) {
				return nil,
					fault.New(fault.ScriptMismatch, "Step %d of the rehearsal script expects %q, and the conversation goes on "+
						"with %s.",
						number, p.text, shown(got)).With("step", number).With("expected", p.text)
			}
		}
	}
	return st, nil
}

// news is the text of the conversation after the model's last turn: tool results and messages.
func news(req llm.Request) string {
	var parts []string
	for i := len(req.Messages) - 1; i >= 0 && req.Messages[i].Role != llm.RoleAssistant; i-- {
		var of []string
		for _, b := range req.Messages[i].Blocks {
			switch {
			case b.Text != nil:
				of = append(of, b.Text.Text)
			case b.Result != nil:
				of = append(of, b.Result.Content)
			}
		}
		parts = append(of, parts...)
	}
	return strings.Join(parts, "\n")
}

func shown(s string) string {
	s = clip.MarkedRunes(s, maxShown, "...")
	return fmt.Sprintf("%q", s)
}

// play yields the events of a step.
func (d *Driver) play(ctx context.Context, s *step, yield func(llm.Event, error) bool) {
	if ctx.Err() != nil {
		yield(llm.Event{}, ctx.Err())
		return
	}
	silent := s.Think == "" && s.Say == "" && len(s.Tool) == 0
	if s.Fail != nil && silent {
		yield(llm.Event{}, d.failure(s.Fail))
		return
	}
	if !yield(llm.Event{Accepted: &llm.Accepted{}}, nil) {
		return
	}
	thinking := func(text string) llm.Event { return llm.Event{ThinkingDelta: text} }
	saying := func(text string) llm.Event { return llm.Event{TextDelta: text} }
	pace := time.Duration(s.Delay)
	if !stream(ctx, s.Think, pace, thinking, yield) || !stream(ctx, s.Say, pace, saying, yield) {
		return
	}
	if s.Fail != nil {
		broken := fault.New(fault.ProviderBadResponse, "Provider %s broke off its answer: %s", d.target.Provider,
			s.Fail.Message)
		yield(llm.Event{}, broken.With("provider", d.target.Provider))
		return
	}
	yield(llm.Event{Done: s.done()}, nil)
}

// stream yields a text word by word. It returns false after the reader has stopped or the context has ended.
func stream(
	ctx context.Context, text string, pace time.Duration, event func(string) llm.Event, yield func(llm.Event, error) bool,
) bool {
	for _, word := range words(text) {
		if pace > 0 {
			retry.Wait(ctx, pace)
		}
		if ctx.Err() != nil {
			yield(llm.Event{}, ctx.Err())
			return false
		}
		if !yield(event(word), nil) {
			return false
		}
	}
	return true
}

// words cuts a text before its spaces and line feeds.
func words(text string) []string {
	var out []string
	for text != "" {
		n := strings.IndexAny(text[1:], " \n") + 1
		if n == 0 {
			n = len(text)
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

// done returns the complete answer of a step.
func (s *step) done() *llm.Done {
	d := &llm.Done{Stop: llm.StopEnd, Usage: llm.Usage(s.Usage)}
	if s.Stop != "" {
		d.Stop = llm.StopReason(s.Stop)
	}
	if s.Think != "" {
		d.Blocks = append(d.Blocks, llm.Block{Thinking: &llm.Thinking{Text: s.Think, Driver: Name}})
	}
	if s.Say != "" {
		d.Blocks = append(d.Blocks, llm.Block{Text: &llm.Text{Text: s.Say}})
	}
	for _, c := range s.Tool {
		d.Stop = llm.StopToolUse
		d.Blocks = append(d.Blocks, llm.Block{
			Call: &llm.ToolCall{ID: wire.NewCallID(), Name: c.Name, Input: wire.CallInput(string(c.Input))},
		})
	}
	return d
}

// failure returns the error of a provider's refusal.
func (d *Driver) failure(f *failure) error {
	return wire.Refused(d.target, f.Status, f.Message, time.Duration(f.RetryAfter))
}
