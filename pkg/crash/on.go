//go:build faults

package crash

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Variable is the environment variable that names the point.
const Variable = "KAGED_CRASH_AT"

// TrapVariable is the environment variable that names the trap's file.
const TrapVariable = "KAGED_CRASH_TRAP"

// plan is read once, since the environment of a process does not change.
var plan = mustParse(os.Getenv(Variable))

type trap struct {
	point Point
	left  atomic.Int64 // number of remaining times until the kill
}

// At kills the process if p is the selected point, the Nth time it is reached, and springs the trap of p.
func At(p Point) {
	spring(p)
	if plan == nil || plan.point != p || plan.left.Add(-1) != 0 {
		return
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is pending; block until it arrives
}

func mustParse(text string) *trap {
	t, err := parse(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Variable, err)
		os.Exit(2)
	}
	return t
}

func parse(text string) (*trap, error) {
	if text == "" {
		return nil, nil
	}
	name, count, counted := strings.Cut(text, ":")
	times := 1
	if counted {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number of times", count)
		}
		times = n
	}
	if !slices.Contains(points, Point(name)) {
		return nil, fmt.Errorf("%q is not a point; the points are %v", name, points)
	}
	t := &trap{point: Point(name)}
	t.left.Store(int64(times))
	return t, nil
}
