package llm_test

import (
	"sync"
	"testing"

	"kaged.dev/pkg/llm"
)

// Memories of a process stay within its bound together; a value that is taken or dropped makes room, and two requests
// never share one.
func TestMemories(t *testing.T) {
	t.Parallel()
	all := llm.NewMemories(10)
	a, b := all.New(), all.New()
	a.Keep("a", 6)
	b.Keep("b", 6)
	if got := b.Take(); got != nil {
		t.Errorf("past the bound %v is kept", got)
	}
	if got := a.Take(); got != "a" || a.Take() != nil {
		t.Errorf("taken %v, and it is still there", got)
	}
	b.Keep("b", 6)
	b.Keep("B", 10)
	b.Drop()
	if b.Keep("late", 1); b.Take() != nil {
		t.Error("a dropped memory keeps a value")
	}
	var taken sync.Map
	a.Keep("a", 10)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if v := a.Take(); v != nil {
				taken.Store(i, v)
			}
		})
	}
	group.Wait()
	n := 0
	taken.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d requests have the value", n)
	}
	var none *llm.Memory
	none.Keep("x", 1)
	if none.Drop(); none.Take() != nil {
		t.Error("a nil memory keeps a value")
	}
}
