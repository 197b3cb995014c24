package optional_test

import (
	"testing"

	"kaged.dev/pkg/optional"
)

// A zero value has no pointer.
func TestNonZero(t *testing.T) {
	t.Parallel()
	if got := optional.NonZero(""); got != nil {
		t.Errorf("got %q, want nil", *got)
	}
	if got := optional.NonZero(int32(2)); got == nil || *got != 2 {
		t.Errorf("got %v, want a pointer to 2", got)
	}
}
