package socket

import "testing"

// output and control have their own limits, and every other channel has the limit of events.
func TestLaneBounds(t *testing.T) {
	t.Parallel()
	l := Limits{Output: 1, Events: 2, Control: 3}
	for lane := range lanes {
		want := l.Events
		switch names[lane] {
		case "control":
			want = l.Control
		case "output":
			want = l.Output
		}
		if got := l.lane(lane); got != want {
			t.Errorf("%s: got a bound of %d, want %d", names[lane], got, want)
		}
	}
}
