package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/transcript"
)

// A change with a long text in any field waits until no other such change is being stored; a short change does not
// wait.
func TestLargeChangesTakeTurns(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", largeChange)
	turn := func(b llm.Block) record.Change {
		return record.Change{Steps: []record.StepHalf{{Turn: &transcript.Turn{Turn: contract.Turn{Blocks: []llm.Block{b}}}}}}
	}
	s := NewSessions(nil)
	leave, err := s.enter(t.Context(), turn(llm.Block{Text: &llm.Text{Text: long}}))
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]record.Change{
		"text":         turn(llm.Block{Text: &llm.Text{Text: long}}),
		"thinking":     turn(llm.Block{Thinking: &llm.Thinking{Text: long}}),
		"opaque":       turn(llm.Block{Thinking: &llm.Thinking{Opaque: []byte(long)}}),
		"call":         turn(llm.Block{Call: &llm.ToolCall{Input: long}}),
		"result":       turn(llm.Block{Result: &llm.ToolResult{Content: long}}),
		"results":      {Steps: []record.StepHalf{{Results: []llm.ToolResult{{Content: long}}}}},
		"message":      {Messages: []record.Message{{Content: long}}},
		"blocks":       {Messages: []record.Message{{Blocks: []llm.Block{{Text: &llm.Text{Text: long}}}}}},
		"many of some": {Messages: []record.Message{{Content: long[1:]}, {Content: "x"}}},
	} {
		if _, err := s.enter(gone, c); !errors.Is(err, fault.Cancelled) {
			t.Errorf("%s: a second large change, whose caller has left, got %v, want cancelled", name, err)
		}
	}
	if _, err := s.enter(gone, record.Change{Messages: []record.Message{{Content: long[1:]}}}); err != nil {
		t.Errorf("a short change waits: %v", err)
	}
	leave()
	if _, err := s.enter(t.Context(), turn(llm.Block{Text: &llm.Text{Text: long}})); err != nil {
		t.Errorf("after the first was stored: %v", err)
	}
}
