package bench

import (
	"testing"
	"time"
)

// The ratio is that within the rounds, so a drift of the machine does not change it.
func TestRatiosWithinRounds(t *testing.T) {
	var took [2][]time.Duration
	for i := range 40 {
		theirs := time.Duration(i+1) * time.Second
		took[0], took[1] = append(took[0], theirs*time.Duration(80+i%10)/100), append(took[1], theirs)
	}
	figures := peer{title: "peer", path: "peer"}.against("x", took[:], time.Second, 2*time.Second)
	f := figures[0]
	if f.Ratio() != 0.85 || f.Low != 0.83 || f.High != 0.86 || !f.Met() {
		t.Errorf("the ratio is %v, between %v and %v", f.Ratio(), f.Low, f.High)
	}
	if f := figures[1]; f.Ratio() != 0.5 {
		t.Errorf("the ratio of the CPU time is %v", f.Ratio())
	}
}
