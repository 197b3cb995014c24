package spelling

import "testing"

// A distance counts additions, removals and replacements, in either direction.
func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"modle", "model", 2},
		{"model", "models", 1},
		{"kitten", "sitting", 3},
		{"same", "same", 0},
	} {
		if got, back := Distance(c.a, c.b), Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("between %q and %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}
