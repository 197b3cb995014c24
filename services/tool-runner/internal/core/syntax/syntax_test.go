package syntax

import (
	"testing"
)

func TestSelf(t *testing.T) {
	if err := SelfTest(t.Context(), Languages()); err != nil {
		t.Fatal(err)
	}
}
