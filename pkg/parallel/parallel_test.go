package parallel_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"kaged.dev/pkg/parallel"
)

// Each calls the function once for each index, with any number of goroutines.
func TestEach(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 7, 8, 1000} {
		given := make([]atomic.Int32, n)
		parallel.Each(n, 4, func(i int) { given[i].Add(1) })
		for i := range given {
			if times := given[i].Load(); times != 1 {
				t.Errorf("index %d of %d was given %d times", i, n, times)
			}
		}
	}
}

// A panic of the work reaches the caller after all work has ended, with the stack of the work.
func TestPanics(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(){
		"one of many": func() {
			var ended atomic.Int32
			defer func() {
				if n := ended.Load(); n == 0 {
					t.Error("no other work was done")
				}
			}()
			parallel.Each(1000, 4, func(i int) {
				if i == 500 {
					broken()
				}
				ended.Add(1)
			})
		},
		"one": func() { parallel.Go(broken)() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				failure, _ := recover().(error)
				if failure == nil || !strings.Contains(failure.Error(), "a defect") ||
					!strings.Contains(failure.Error(), "broken") {
					t.Errorf("the caller recovers %v", failure)
				}
			}()
			work()
		})
	}
}

func broken() { panic("a defect") }
