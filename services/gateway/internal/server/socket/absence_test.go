package socket

import (
	"errors"
	"testing"
	"time"
)

// The grace begins with the first failed check, however long ago the last good one was, and again after a good one.
func TestAbsence(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	var a Absence
	for i, c := range []struct {
		second int
		err    error
		over   bool
	}{
		{0, nil, false},
		{100, gone, false},
		{109, gone, false},
		{110, gone, true},
		{111, gone, true},
		{112, nil, false},
		{113, gone, false},
		{122, gone, false},
		{123, gone, true},
	} {
		now := time.Unix(int64(1_000+c.second), 0)
		if got := a.Check(now, c.err, 10*time.Second); got != c.over {
			t.Errorf("check %d: over is %v, want %v", i, got, c.over)
		}
	}
}
