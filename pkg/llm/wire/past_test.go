package wire_test

import (
	"slices"
	"testing"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// A request resumes behind the messages that it has in common with the one before, unless their encoding may differ.
func TestResume(t *testing.T) {
	t.Parallel()
	said := func(role llm.Role, s string) llm.Message {
		return llm.Message{Role: role, Blocks: []llm.Block{{Text: &llm.Text{Text: s}}}}
	}
	encode := func(dst []byte, p wire.Piece) []byte { return append(dst, p.Text...) }
	req := llm.Request{
		Messages: []llm.Message{said(llm.RoleUser, "a"), said(llm.RoleAssistant, "b"), said(llm.RoleUser, "c")},
		Memory:   llm.NewMemories(1 << 20).New(),
	}
	grow := func(first llm.Role, a, b string) {
		second := llm.RoleUser
		if first == second {
			second = llm.RoleAssistant
		}
		req.Messages = append(req.Messages, said(first, a), said(second, b))
	}
	// write writes all but the last message to the part that is kept.
	write := func(key string) (resumed int, body string) {
		w := wire.NewWriter(req, req.Messages, "form", encode)
		last := len(w.Messages) - 1
		resumed, _ = w.Resume(last, key)
		for i, m := range w.Messages[resumed:] {
			if resumed+i == last {
				w.Settle()
			}
			w.Add(wire.Piece{Text: m.Blocks[0].Text.Text})
			w.Ended(resumed+i+1, "")
		}
		return resumed, string(w.Body([]byte(".")).Bytes())
	}
	for _, step := range []struct {
		change func()
		key    string
		want   int
		body   string
	}{
		{func() {}, "", 0, "abc."},
		{func() { grow(llm.RoleAssistant, "d", "e") }, "", 2, "abcde."},
		{func() {}, "", 4, "abcde."},
		{func() {}, "other", 0, "abcde."},
		{func() { req.Tools = []llm.Tool{{Name: "file.read"}} }, "other", 0, "abcde."},
		{func() {
			req.Messages = slices.Clone(req.Messages)
			req.Messages[2] = said(llm.RoleUser, "C")
		}, "other", 2, "abCde."},
		{func() { req.Messages = slices.Clip(req.Messages[:1]) }, "other", 0, "a."},
		{func() { grow(llm.RoleUser, "x", "y") }, "other", 0, "ay."},
	} {
		step.change()
		if got, body := write(step.key); got != step.want || body != step.body {
			t.Errorf("resumed after %d messages with %q, want %d with %q", got, body, step.want, step.body)
		}
	}
}
