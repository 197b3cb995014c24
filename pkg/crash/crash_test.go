package crash_test

import (
	"regexp"
	"testing"

	"kaged.dev/pkg/crash"
)

// Points have distinct names that need no quotes in a shell, and reaching a point has no effect unless it was selected.
func TestPoints(t *testing.T) {
	form := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[crash.Point]bool{}
	for _, p := range crash.Points() {
		if seen[p] || !form.MatchString(string(p)) {
			t.Errorf("%q is listed twice or is not of the form %s", p, form)
		}
		seen[p] = true
		crash.At(p)
	}
}
