package box_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// Hundreds of started and refused commands, with pipes and terminals, leak no descriptor here or in the init and no
// process in the cage. The same holds for opened and closed cages.
func TestNothingLeaks(t *testing.T) {
	dir := project(t)
	all := boxes(t, func(o *box.Options) { o.SpareIdle = 0 }) // spares open and close descriptors on their own
	open(t, all, rw(dir)).Close()                             // warms up what is kept for the next cage
	before := openFiles(t)
	x := open(t, all, rw(dir))
	run(t, x, dir, "true")
	// The limit of 40 files turns a leak in the init into a failure.
	err := unix.Prlimit(box.InitOf(x), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 40, Max: 40}, nil)
	if err != nil && os.Getenv("KAGED_TEST_WITHOUT_USERNS") == "" {
		t.Fatal(err) // without user namespaces the init is another user's, and root may lack CAP_SYS_RESOURCE
	}
	for i := range 200 {
		run(t, x, dir, "sleep 1000 & true", func(s *core.Spec) {
			if i%2 == 0 {
				s.Terminal = &core.Size{Cols: 80, Rows: 24}
			}
		})
		if _, err := x.Spawn(t.Context(), core.Spec{Argv: []string{"no-such-program"}, Dir: dir}); err == nil {
			t.Fatal("a program that is not there was started")
		}
	}
	if _, processes := x.Usage(); processes != 0 {
		t.Errorf("%d processes remain", processes)
	}
	x.Close()
	for range 20 {
		open(t, all, rw(dir)).Close()
	}
	// The last close has no event to wait for.
	for end := time.Now().Add(time.Minute); openFiles(t) > before && time.Now().Before(end); {
		runtime.Gosched()
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
