package projects

import (
	"strings"
	"sync"
	"testing"
)

// A cache keeps the most recently added values and drops the others.
func TestCache(t *testing.T) {
	c := newCache[int, string](3)
	for i := range 5 {
		c.put(i, strings.Repeat("x", i))
	}
	c.put(4, "again")
	for key, want := range map[int]bool{0: false, 1: false, 2: true, 3: true, 4: true} {
		if _, ok := c.get(key); ok != want {
			t.Errorf("%d is kept: %v", key, ok)
		}
	}
	if v, _ := c.get(4); v != "again" || len(c.values) != 3 {
		t.Errorf("4 is %q of %d", v, len(c.values))
	}
}

// Simultaneous use of a cache is safe.
func TestCacheAtOnce(t *testing.T) {
	c := newCache[int, int](8)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				c.put(j, i)
				c.get(j)
			}
		})
	}
	wg.Wait()
	if len(c.values) != 8 {
		t.Errorf("%d values", len(c.values))
	}
}

// The prompts' texts together stay within their limit, and the last one added is in the cache.
func TestPromptCache(t *testing.T) {
	const limit = 32 << 20
	c := newPromptCache(limit)
	text := strings.Repeat("x", 1<<20)
	for i := range 100 {
		key := promptKey{path: strings.Repeat("p", i)}
		c.put(key, prompt{text, "h"})
		c.put(key, prompt{text, "h2"})
		if p, ok := c.get(key); !ok || p.sha256 != "h2" {
			t.Fatalf("%d was forgotten at once", i)
		}
		if c.size > limit || c.size != len(c.prompts)*len(text) {
			t.Fatalf("%d bytes in %d prompts", c.size, len(c.prompts))
		}
	}
}
