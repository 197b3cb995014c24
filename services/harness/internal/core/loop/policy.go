package loop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/redact"
)

// The rules of a policy, by their names in errors and records.
const (
	ruleTokens = "token_hard_limit"
	ruleGates  = "content_gates"
)

// gateMarker replaces a text that a content gate removes.
var gateMarker = redact.Marker("content-gate")

// policyProcessor applies an agent's policy to its requests. It runs after the record of the request: the record
// shows the request before the gates, and agent.policy_modified reports a change by a gate.
type policyProcessor struct {
	run      *invocation
	policy   *dsl.Policy
	patterns []pattern
	gates    rewriter
	told     int // number of changed texts in the last record of the gates
}

// pattern is a text that a gate removes, and its replacement.
type pattern struct{ text, with string }

func newPolicyProcessor(v *invocation, policy *dsl.Policy) *policyProcessor {
	p := &policyProcessor{run: v, policy: policy}
	for _, g := range policy.ContentGates {
		with := gateMarker
		if g.Action == dsl.GateStrip {
			with = ""
		}
		for _, text := range spellings(g.Pattern) {
			p.patterns = append(p.patterns, pattern{text, with})
		}
	}
	p.gates.text = p.gated
	return p
}

// ProcessInput does nothing: ProcessInputStep checks every request.
func (p *policyProcessor) ProcessInput(context.Context, *Call) error { return nil }

// ProcessInputStep applies the content gates, then the token limit. It fails with policy_violation.
func (p *policyProcessor) ProcessInputStep(_ context.Context, call *Call) error {
	if len(p.patterns) > 0 {
		if err := p.gate(call); err != nil {
			return err
		}
	}
	limit := p.policy.TokenHardLimit
	if limit <= 0 {
		return nil
	}
	if n := p.run.estimate(requestSize(&call.Request)); n > limit {
		return violation(ruleTokens, "Token budget exceeded: %d > %d", n, limit).With("limit", limit).With("estimated", n)
	}
	return nil
}

// ProcessOutputChunk does nothing: a policy covers requests only.
func (p *policyProcessor) ProcessOutputChunk(context.Context, contract.Delta) error { return nil }

func violation(rule, format string, args ...any) *fault.Error {
	f := fault.New(fault.PolicyViolation, format, args...)
	f.Msg = "Policy violation: " + f.Msg + ". Check your project config."
	return f.With("rule", rule)
}

// gate removes the gated texts from a request.
func (p *policyProcessor) gate(call *Call) error {
	req := &call.Request
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			if b.Thinking != nil && len(b.Thinking.Opaque) > 0 && p.holds(b.Thinking.Text) {
				return violation(ruleGates, "The model's own thinking holds a text that it must not see, and cannot be changed")
			}
		}
	}
	changed := 0
	messages := p.gates.messages(req.Messages)
	for i := range messages {
		if !messages[i].Same(req.Messages[i]) {
			changed++
		}
	}
	system := make([]string, len(req.System))
	for i, text := range req.System {
		if system[i] = p.gated(text); system[i] != text {
			changed++
		}
	}
	note := p.gated(req.Note)
	if note != req.Note {
		changed++
	}
	req.Messages, req.System, req.Note = messages, system, note
	if changed > 0 {
		call.Hash = chain("", requestItems(call))
	}
	if changed == p.told {
		return nil
	}
	p.told = changed
	return p.record(call, changed)
}

// record emits the number of changed texts and the hash of the request's items as sent.
func (p *policyProcessor) record(call *Call, changed int) error {
	v := p.run
	payload := map[string]any{
		"run_id": v.start.RunID, "session_id": v.start.SessionID, "step": call.Step, "rule": ruleGates, "texts": changed,
		"hash": call.Hash,
	}
	if v.id != "" {
		payload["invocation_id"] = v.id
	}
	return v.emit(contract.NewRecord(contract.PolicyModified, v.agent.Path, payload))
}

// gated returns a text without the gated texts.
func (p *policyProcessor) gated(text string) string {
	for _, k := range p.patterns {
		// Removing a text can join its parts to the same text again.
		for again := true; again; again = k.with == "" && strings.Contains(text, k.text) {
			text = strings.ReplaceAll(text, k.text, k.with)
		}
	}
	return text
}

func (p *policyProcessor) holds(text string) bool {
	return slices.ContainsFunc(p.patterns, func(k pattern) bool { return strings.Contains(text, k.text) })
}

// spellings returns a text, and its JSON forms with and without HTML escapes if they differ from it.
func spellings(text string) []string {
	html, err := json.Marshal(text)
	if err != nil {
		panic(err) // any string has a JSON form
	}
	list := []string{text}
	for _, escaped := range [][]byte{canonical(text), html} {
		if s := string(escaped[1 : len(escaped)-1]); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}
