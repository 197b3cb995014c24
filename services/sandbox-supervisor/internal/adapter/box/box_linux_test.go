package box_test

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every test of this package passes for an unprivileged user too. The test is moot if it already runs unprivileged.
func TestUnprivileged(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv("KAGED_TEST_WITHOUT_USERNS") != "" {
		return
	}
	const user = 54321
	dir, err := os.MkdirTemp("", "kaged-box-") // t.TempDir would lie below a folder that only root can enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, user, user); err != nil {
		t.Fatal(err)
	}
	again(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "TMPDIR="+dir, "HOME="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	})
}

// Every test of this package passes for root without user namespaces too.
func TestWithoutUserNamespaces(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv("KAGED_TEST_WITHOUT_USERNS") != "" {
		return
	}
	again(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "KAGED_TEST_WITHOUT_USERNS=1") })
}

// again runs every test of this package in a process changed by change.
func again(t *testing.T, change func(*exec.Cmd)) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^Test", "-test.v")
	cmd.Env, cmd.Dir = os.Environ(), "/"
	change(cmd)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestProject") {
		t.Errorf("%v\n%s", err, out)
	}
}

// testLog fails the test at any log line of an init: it only logs panics.
type testLog struct{ t testing.TB }

func (l testLog) Write(data []byte) (int, error) {
	l.t.Error(string(data))
	return len(data), nil
}

// boxes returns Boxes for one test.
func boxes(t testing.TB, change ...func(*box.Options)) *box.Boxes {
	opts := box.Options{
		Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Name: ident.New(), UID: 59999,
		System: []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"}, TmpBytes: 64 << 20,
		StartTimeout: time.Minute, KillTimeout: time.Minute, DrainWait: time.Second,
		SpareIdle: time.Minute,
	}
	for _, c := range change {
		c(&opts)
	}
	b := box.New(opts)
	t.Cleanup(b.Close)
	if os.Getenv("KAGED_TEST_WITHOUT_USERNS") != "" && !b.WithoutUserns() {
		t.Fatal("this process cannot make boxes without user namespaces")
	}
	return b
}

// project returns a folder without links in its path, as a grant requires.
func project(t testing.TB) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func rw(p string) cage.Grant { return cage.Grant{Path: p, Writable: true, Dir: true} }

// ro grants reading a folder, and makes the folder if make is set.
func ro(p string, make bool) cage.Grant {
	if make {
		_ = os.MkdirAll(p, 0o755)
	}
	return cage.Grant{Path: p, Dir: true}
}

// open opens a cage and closes it at the test's end.
func open(t testing.TB, b *box.Boxes, grants ...cage.Grant) core.Box {
	t.Helper()
	opened, err := b.Open(t.Context(),
		core.BoxSpec{ID: ident.New(), View: &cage.View{Grants: grants}}, func(contract.Attempt) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

// run runs a shell command in a cage and returns its output and its end.
func run(t testing.TB, b core.Box, dir, command string, change ...func(*core.Spec)) (string, core.End) {
	t.Helper()
	spec := core.Spec{Argv: []string{"/bin/sh", "-c", command}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}, Merge: true}
	for _, c := range change {
		c(&spec)
	}
	p, err := b.Spawn(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var mu sync.Mutex
	p.Copy(func(_ core.Stream, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		out.Write(data)
	})
	<-p.Exited()
	return out.String(), p.End()
}

// A command runs in its project at the host's path as the cage's user, and its files belong to the project's owner on
// the host.
func TestProject(t *testing.T) {
	t.Parallel()
	dir := project(t)
	write(t, dir+"/private", "hello", 0o600)
	b := open(t, boxes(t), rw(dir))
	out, end := run(t, b, dir,
		"pwd; cat private; id -un; mkdir -p new/er; echo x >new/er/file; echo $HOME $USER $TMPDIR; rm private")
	if want := dir + "\nhelloagent\n/home/agent agent /tmp\n"; out != want || end.Code != 0 {
		t.Errorf("it wrote %q, want %q; the end is %v", out, want, end)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir+"/new/er/file", &st); err != nil || int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
		t.Errorf("the file is %d:%d's, %v", st.Uid, st.Gid, err)
	}
}

// A cage sees its grants and a read-only system only. Its own folders begin empty and last until its end.
func TestNothingElse(t *testing.T) {
	t.Parallel()
	dir, other := project(t), project(t)
	write(t, other+"/secret", "secret", 0o644)
	b := open(t, boxes(t), rw(dir), ro(other+"/sub", true))
	out, _ := run(t, b, dir, "cat "+other+"/secret; ls /root /home /var /run /tmp/* -d; "+
		"touch /usr/x /x /etc/x; ls -A /home/agent /dev/shm /var/tmp")
	for _, line := range []string{"No such file", "Read-only file system"} {
		if !strings.Contains(out, line) {
			t.Errorf("it wrote %q, without %q", out, line)
		}
	}
	if strings.Contains(out, "secret\n") {
		t.Errorf("it wrote %q", out)
	}
	run(t, b, dir, "echo kept >/tmp/a; echo home >~/b; echo shm >/dev/shm/c")
	if out, _ := run(t, b, dir, "cat /tmp/a ~/b /dev/shm/c"); out != "kept\nhome\nshm\n" {
		t.Errorf("it wrote %q", out)
	}
}

// A command has no capabilities and cannot gain any, is filtered by seccomp, and sees only its own processes and its
// own loopback.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := project(t)
	b := open(t, boxes(t), rw(dir))
	out, _ := run(t, b, dir,
		`grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status; `+
			`for p in /proc/[0-9]*; do grep -q '^PPid:.0$' $p/status && echo stranger; done; `+
			`grep -c : /proc/net/dev; hostname; ulimit -c; ls /proc/self/fd | wc -l`)
	zero := "0000000000000000"
	want := "Groups:\nCapInh:" + zero + "\nCapPrm:" + zero + "\nCapEff:" + zero + "\nCapBnd:" + zero + "\nCapAmb:" + zero +
		"\nNoNewPrivs:1\nSeccomp:2\n1\ncage\n0\n4\n"
	if got := strings.NewReplacer("\t", "", " ", "").Replace(out); got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

// Every thread of a cage init is without capabilities, too, and filtered by seccomp.
func TestInitIsLocked(t *testing.T) {
	t.Parallel()
	dir := project(t)
	b := open(t, boxes(t), rw(dir))
	run(t, b, dir, "true")
	files, err := filepath.Glob("/proc/" + strconv.Itoa(box.InitOf(b)) + "/task/*/status")
	if err != nil || len(files) < 3 {
		t.Fatalf("the init has the threads %v, %v", files, err)
	}
	for _, file := range files {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // a thread may end
		}
		zero := "\t0000000000000000\n"
		for _, line := range []string{
			"CapInh:" + zero, "CapPrm:" + zero, "CapEff:" + zero,
			"CapAmb:" + zero, "NoNewPrivs:\t1\n", "Seccomp:\t2\n",
		} {
			if !strings.Contains(string(status), line) {
				t.Errorf("%s is without %q:\n%s", file, line, status)
			}
		}
	}
}

// A terminal belongs to the cage's own /dev/pts: ttyname(3) finds it.
func TestTerminal(t *testing.T) {
	t.Parallel()
	dir := project(t)
	b := open(t, boxes(t), rw(dir))
	out, _ := run(t, b, dir, "tty; stty size; test -t 0 && echo terminal",
		func(s *core.Spec) { s.Terminal = &core.Size{Cols: 100, Rows: 30} })
	if out != "/dev/pts/0\r\n30 100\r\nterminal\r\n" {
		t.Errorf("it wrote %q", out)
	}
}

// A command's process id is that of the host.
func TestPID(t *testing.T) {
	t.Parallel()
	dir := project(t)
	b := open(t, boxes(t), rw(dir))
	p, err := b.Spawn(t.Context(), core.Spec{Argv: []string{"/bin/sleep", "1000"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	go p.Copy(func(core.Stream, []byte) {})
	if name, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/comm"); err != nil || string(name) != "sleep\n" {
		t.Errorf("process %d is %q, %v", p.PID(), name, err)
	}
	if _, processes := b.Usage(); processes != 1 {
		t.Errorf("%d processes are there", processes)
	}
	p.Kill()
	<-p.Exited()
	if end := p.End(); end.Signal != syscall.SIGKILL || end.Lost {
		t.Errorf("the end is %v", end)
	}
}

// Background processes of a command end with it; a running command ends with its cage.
func TestEnds(t *testing.T) {
	t.Parallel()
	dir := project(t)
	b := open(t, boxes(t), rw(dir))
	run(t, b, dir, "setsid sleep 1000 & setsid sleep 1000 & exit 3")
	if _, processes := b.Usage(); processes != 0 {
		t.Errorf("%d processes remain", processes)
	}
	p, err := b.Spawn(t.Context(), core.Spec{Argv: []string{"/bin/sleep", "1000"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	go p.Copy(func(core.Stream, []byte) {})
	b.Close()
	<-p.Exited()
	if end := p.End(); !end.Lost || b.Why() != contract.ReasonNone {
		t.Errorf("the end is %v, the box's reason %v", end, b.Why())
	}
	_, err = b.Spawn(t.Context(), core.Spec{Argv: []string{"/bin/true"}, Dir: dir})
	if !errors.Is(err, fault.CageUnavailable) {
		t.Errorf("a command of a closed box: %v", err)
	}
}

func write(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
