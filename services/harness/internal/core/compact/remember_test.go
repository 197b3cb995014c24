package compact

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// A remembered estimate equals a new one, with more texts than rows and from several goroutines at once.
func TestRememberedEstimates(t *testing.T) {
	t.Parallel()
	e := newEstimates()
	text := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("word ", i%7)) }
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 2 * estimateRows {
				if got, want := e.tokens(text(i)), count(text(i)); got != want {
					t.Errorf("%q has %d tokens, want %d", text(i), got, want)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestTokensOfLongTexts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(t, "text"), rapid.IntRange(1, 200).Draw(t, "times"))
		for range 2 {
			if got, want := Tokens(text), count(text); got != want {
				t.Fatalf("%q has %d tokens, want %d", text, got, want)
			}
		}
	})
}
