package bench

import (
	"testing"
	"time"
)

// The bounds are those of the sign test: for 40 values the 14th and the 27th.
func TestMedianBounds(t *testing.T) {
	for n, want := range map[int][2]int{6: {0, 5}, 9: {1, 7}, 20: {5, 14}, 40: {13, 26}, 100: {39, 60}} {
		if low, high := medianBounds(n); low != want[0] || high != want[1] {
			t.Errorf("the bounds of %d values are %d and %d, not %v", n, low, high, want)
		}
	}
}

func TestExcess(t *testing.T) {
	var took, floor []time.Duration
	for i := range 40 { // a drift that is greater than the excess
		floor = append(floor, time.Duration(i)*time.Second)
		took = append(took, floor[i]+time.Duration(i%10)*time.Millisecond)
	}
	f := excess("x", "none", took, floor, 10)
	if f.Value != 5 || f.Low != 3 || f.High != 6 {
		t.Errorf("the excess is %v, between %v and %v", f.Value, f.Low, f.High)
	}
}

// Each of three kinds is as often before each other kind as after it, and as often the first.
func TestShuffled(t *testing.T) {
	const rounds = 12
	var order []int
	kinds := make([]func() (time.Duration, error), 3)
	for i := range kinds {
		kinds[i] = func() (time.Duration, error) {
			order = append(order, i)
			return time.Duration(len(order)), nil
		}
	}
	took, err := shuffled(rounds, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range kinds {
		if len(took[i]) != rounds {
			t.Errorf("kind %d has %d values", i, len(took[i]))
		}
		first := 0
		for round := range rounds {
			if order[3+3*round] == i {
				first++
			}
		}
		if first != rounds/3 {
			t.Errorf("kind %d is first in %d of %d rounds", i, first, rounds)
		}
		for j := range i {
			before := 0
			for round := range rounds {
				if took[j][round] < took[i][round] {
					before++
				}
			}
			if before != rounds/2 {
				t.Errorf("kind %d is before kind %d in %d of %d rounds", j, i, before, rounds)
			}
		}
	}
}
