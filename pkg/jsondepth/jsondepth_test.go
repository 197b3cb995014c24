package jsondepth_test

import (
	"strings"
	"testing"

	"kaged.dev/pkg/jsondepth"
)

// Only brackets outside strings count, and an escaped quote ends no string.
func TestOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		``: 0, `1`: 0, `[]`: 1, `{"a":[{}]}`: 3, `"[[["`: 0, `["\"[["]`: 1, `[[],[]]`: 2, `]]][`: 0,
		strings.Repeat(`{"a":`, 101) + `1` + strings.Repeat(`}`, 101): 101,
	} {
		if got := jsondepth.Of(in); got != want {
			t.Errorf("Of(%.40s) = %d, want %d", in, got, want)
		}
	}
}
