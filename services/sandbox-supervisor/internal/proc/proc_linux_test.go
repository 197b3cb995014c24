package proc

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// marked starts a command with a mark, which it inherits from this process; therefore these tests are not parallel.
func marked(t *testing.T, mark uint64, argv ...string) *exec.Cmd {
	t.Helper()
	if err := SetMark(mark); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	if setErr := SetMark(Mark("nobody", 0)); setErr != nil {
		t.Fatal(setErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	fmt.Fscan(out, new(string)) // the command prints a word when it is ready
	return cmd
}

// A mark is kept by daemons: across a new session, an empty environment, and a new program.
func TestMarksAreInherited(t *testing.T) {
	mark := Mark("a node", 7)
	marked(t, mark, "/bin/sh", "-c", "setsid env -i /bin/sh -c '(echo up; exec sleep 1000) & sleep 1000' & wait")
	pids, err := Marked(func(m uint64) bool { return m == mark })
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) < 3 {
		t.Errorf("%d processes carry the mark, want the shell and its descendants", len(pids))
	}
	for _, pid := range pids {
		if !Signal(pid, unix.SIGKILL, func(pid int) bool { return MarkOf(pid) == mark }) {
			t.Errorf("process %d got no signal", pid)
		}
	}
	if Signal(pids[0], unix.SIGKILL, func(int) bool { return false }) {
		t.Error("a process that is not meant got a signal")
	}
}

// A child is found by its parent, with its parent, memory and state.
func TestChildren(t *testing.T) {
	cmd := marked(t, Mark("a node", 8), "/bin/sh", "-c", "echo up; exec sleep 1000")
	for name, children := range map[string]func() ([]int, error){"files": Children, "scan": childrenByParent} {
		if pids, err := children(); err != nil || !slices.Contains(pids, cmd.Process.Pid) {
			t.Errorf("by %s: %v does not hold %d, %v", name, pids, cmd.Process.Pid, err)
		}
	}
	stat, err := Read(cmd.Process.Pid)
	if err != nil || stat.Parent != os.Getpid() || stat.Resident <= 0 || stat.Zombie {
		t.Errorf("stat is %+v, %v", stat, err)
	}
	cmd.Process.Kill()
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if alive := Alive([]int{cmd.Process.Pid, os.Getpid()}); !slices.Equal(alive, []int{os.Getpid()}) {
		t.Errorf("alive are %v, want this process only", alive)
	}
}

// Marks of one node are a family, those of two nodes are not, and no mark equals an ordinary limit.
func TestFamilies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, n, m := rapid.String().Draw(t, "node"), rapid.Uint32().Draw(t, "n"), rapid.Uint32().Draw(t, "m")
		a, b := Mark(node, n), Mark(node, m)
		if !Family(a, b) || (a == b) != (n == m) {
			t.Errorf("marks %x and %x of one node", a, b)
		}
		if Family(a, unix.RLIM_INFINITY) || Family(a, uint64(n)) {
			t.Errorf("mark %x looks like an ordinary limit", a)
		}
	})
	if Family(Mark("a", 1), Mark("b", 1)) {
		t.Error("two nodes share marks")
	}
}

// Another user's limits are read from their file.
func TestMarkInFile(t *testing.T) {
	data, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	if got := markIn(data); got != MarkOf(os.Getpid()) {
		t.Errorf("the file says %x, the kernel %x", got, MarkOf(os.Getpid()))
	}
}

// The stat of a process with a hostile name is parsed like any other, and garbage is an error.
func FuzzParseStat(f *testing.F) {
	f.Add("7 (a) R) 1) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9 10 11 18446744073709551615 1 1 0")
	f.Add("7 (x")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		stat, err := parseStat([]byte(text))
		if err != nil && stat != (Stat{}) {
			t.Error("a stat beside an error")
		}
	})
}

// The fields are those of proc(5).
func TestParseStat(t *testing.T) {
	stat, err := parseStat(
		[]byte("7 (a) R) 1) Z 2 3 4 0 -1 4194560 1 2 3 4 500 600 700 800 20 0 1 0 9 10 11 18446744073709551615 1 1 0"),
	)
	if err != nil || !stat.Zombie || stat.Parent != 2 || stat.Group != 3 || stat.Session != 4 ||
		stat.CPU.Seconds() != 11 || stat.WaitedCPU.Seconds() != 15 || stat.Resident != 11*int64(os.Getpagesize()) {
		t.Errorf("stat is %+v, %v", stat, err)
	}
}
