package ident_test

import (
	"sync"
	"testing"

	"kaged.dev/pkg/ident"
)

// Ids of one process increase and never repeat, also across goroutines.
func TestIdsIncrease(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			last := ""
			for range 2000 {
				id := ident.New()
				if id <= last {
					t.Errorf("%s came after %s", id, last)
				}
				last = id
				mu.Lock()
				if seen[id] {
					t.Errorf("%s came twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// Only the canonical spelling is an id.
func TestValid(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		ident.New():                   true,
		"":                            false,
		"01hx0000000000000000000000":  false,
		"01HX000000000000000000000":   false,
		"01HX00000000000000000000000": false,
		"91HX0000000000000000000000":  false,
		"01HX00000000000000000000IL":  false,
	} {
		if ident.Valid(s) != want {
			t.Errorf("Valid(%q) = %v", s, !want)
		}
	}
}

// A context returns the caller stored in it, and the zero caller without one.
func TestCaller(t *testing.T) {
	t.Parallel()
	if c := ident.CallerFrom(t.Context()); c != (ident.Caller{}) {
		t.Errorf("caller of a bare context = %+v", c)
	}
	want := ident.Caller{UserID: "ada", RequestID: ident.New(), AuthMode: "loopback"}
	if got := ident.CallerFrom(ident.WithCaller(t.Context(), want)); got != want {
		t.Errorf("caller = %+v, want %+v", got, want)
	}
}
