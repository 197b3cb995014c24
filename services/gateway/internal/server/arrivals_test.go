package server

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// At the limit a new body replaces the oldest body of the operator with the most bodies, so no operator loses a
// body to one with more bodies.
func TestArrivalsAreSharedByOperator(t *testing.T) {
	t.Parallel()
	a := newArrivals(4)
	var gone []string
	enter := func(operator string, n int) *arrival {
		return a.enter(operator, func() { gone = append(gone, fmt.Sprint(operator, n)) })
	}
	for i := range 3 {
		enter("mallory", i)
	}
	ada := enter("ada", 0)
	for i := range 5 {
		enter("mallory", 3+i)
	}
	enter("grace", 0)
	if want := []string{
		"mallory0", "mallory1", "mallory2", "mallory3", "mallory4", "mallory5",
	}; !slices.Equal(gone, want) {
		t.Errorf("got %v given up, want %v", gone, want)
	}
	if a.leave(ada) {
		t.Error("got ada's only body given up, want it kept")
	}
}

// The count equals the length of the lists and stays within the limit. A body is ended only for an operator with at
// most as many bodies as its own operator.
func TestArrivalsStayWithinTheirLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := newArrivals(rapid.IntRange(1, 5).Draw(t, "limit"))
		var held []*arrival
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "leaves") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				a.leave(held[i])
				held = slices.Delete(held, i, i+1)
				continue
			}
			operator := rapid.SampledFrom([]string{"ada", "grace", "mallory"}).Draw(t, "operator")
			before := map[string]int{}
			for o, list := range a.pending {
				before[o] = len(list)
			}
			in := a.enter(operator, func() {})
			for _, other := range held {
				if other.given && before[other.operator] < before[operator] {
					t.Fatalf("a body of %s, with %d, was ended for one of %s, with %d", other.operator, before[other.operator],
						operator, before[operator])
				}
			}
			held = slices.DeleteFunc(append(held, in), func(x *arrival) bool { return x.given })
			n := 0
			for o, list := range a.pending {
				if n += len(list); len(list) == 0 {
					t.Fatalf("got an empty list of %s", o)
				}
			}
			if n != a.n || n > a.limit || n != len(held) {
				t.Fatalf("got %d bodies counted, %d listed and %d held, limit %d", a.n, n, len(held), a.limit)
			}
		}
	})
}
