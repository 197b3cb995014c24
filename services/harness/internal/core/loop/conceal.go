package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/redact"
)

// past caches the changed forms of a conversation's messages. A conversation grows at its end, so each message is
// changed once; a shortened conversation is changed again from the first difference.
type past struct {
	seen, out []llm.Message
	empty     int // number of messages of out without blocks
}

func (p *past) changed(in []llm.Message, change func(llm.Message) llm.Message) []llm.Message {
	same := llm.Common(in, p.seen)
	if same < len(p.out) {
		for _, m := range p.out[same:] {
			p.count(m, -1)
		}
		// Earlier requests share the memory of p.out, so what follows is written elsewhere.
		p.out = slices.Clip(p.out[:same])
	}
	for _, m := range in[same:] {
		changed := change(m)
		p.count(changed, 1)
		p.out = append(p.out, changed)
	}
	p.seen = in
	return slices.Clip(p.out)
}

// count adds n to the number of messages without blocks if m is one.
func (p *past) count(m llm.Message, n int) {
	if len(m.Blocks) == 0 {
		p.empty += n
	}
}

// rewriter changes the texts of a conversation.
type rewriter struct {
	past
	// text returns the changed form of a text.
	text func(string) string
}

// messages returns messages with their texts changed. It keeps thinking that a provider has signed, because the
// signature covers the text; only the same provider reads it.
func (r *rewriter) messages(in []llm.Message) []llm.Message { return r.changed(in, r.message) }

func (r *rewriter) message(m llm.Message) llm.Message {
	var blocks []llm.Block // nil until a block differs
	for i, b := range m.Blocks {
		changed, differs := r.block(b)
		if !differs {
			continue
		}
		if blocks == nil {
			blocks = slices.Clone(m.Blocks)
		}
		blocks[i] = changed
	}
	if blocks != nil {
		m.Blocks = blocks
	}
	return m
}

func (r *rewriter) block(b llm.Block) (llm.Block, bool) {
	switch {
	case b.Text != nil:
		if text := r.text(b.Text.Text); text != b.Text.Text {
			return llm.Block{Text: &llm.Text{Text: text}}, true
		}
	case b.Thinking != nil && len(b.Thinking.Opaque) == 0:
		if text := r.text(b.Thinking.Text); text != b.Thinking.Text {
			thinking := *b.Thinking
			thinking.Text = text
			return llm.Block{Thinking: &thinking}, true
		}
	case b.Call != nil:
		if input := r.input(b.Call.Input); input != b.Call.Input {
			call := *b.Call
			call.Input = input
			return llm.Block{Call: &call}, true
		}
	case b.Result != nil:
		if content := r.text(b.Result.Content); content != b.Result.Content {
			result := *b.Result
			result.Content = content
			return llm.Block{Result: &result}, true
		}
	}
	return b, false
}

// input returns the input of a call with its texts changed. Valid JSON stays valid JSON.
func (r *rewriter) input(s string) string {
	changed := r.text(s)
	if changed == s || !json.Valid([]byte(s)) {
		return changed
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(s)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return changed
	}
	return string(canonical(r.value(v)))
}

func (r *rewriter) value(v any) any {
	switch v := v.(type) {
	case string:
		return r.text(v)
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
	case map[string]any:
		for _, key := range slices.Collect(maps.Keys(v)) {
			value := r.value(v[key])
			delete(v, key)
			v[r.text(key)] = value
		}
	}
	return v
}

// concealer replaces secrets in requests before they are recorded and sent.
type concealer struct {
	run *invocation
	// forms enables the masking of texts that look like secrets, besides the credentials of the run.
	forms       bool
	credentials []string
	past        rewriter
}

// ProcessInput is [concealer.ProcessInputStep], because the record of the whole request follows it.
func (c *concealer) ProcessInput(ctx context.Context, call *Call) error {
	return c.ProcessInputStep(ctx, call)
}

// ProcessInputStep replaces the secrets in a request by markers.
func (c *concealer) ProcessInputStep(_ context.Context, call *Call) error {
	if now := c.run.credentials(); c.past.text == nil || !slices.Equal(now, c.credentials) {
		c.credentials = now
		c.past = rewriter{text: c.conceals(redact.Values(now))}
	}
	req := &call.Request
	system := make([]string, len(req.System))
	for i, text := range req.System {
		system[i] = c.past.text(text)
	}
	req.System, req.Messages, req.Note = system, c.past.messages(req.Messages), c.past.text(req.Note)
	return nil
}

// ProcessOutputChunk does nothing: an operator may see the agent's secrets.
func (c *concealer) ProcessOutputChunk(context.Context, contract.Delta) error { return nil }

func (c *concealer) conceals(values func(string) string) func(string) string {
	if !c.forms {
		return values
	}
	return func(text string) string { return redact.Secrets(values(text)) }
}

// credentials returns the API keys and header values of the run's models, sorted.
func (t *Tree) credentials() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, route := range t.routes {
		for _, t := range route.Targets {
			list = append(list, t.APIKey)
			list = slices.AppendSeq(list, maps.Values(t.Headers))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
