package sandboxsupervisor_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
)

func init() { helpers["cages"] = helperCages }

// grantsWork is a policy that grants the folder work of a project.
func grantsWork() *commonv1.CagePolicy {
	return &commonv1.CagePolicy{
		Fs:      []*commonv1.CageMount{{Mode: "rw", Path: "project:/work"}},
		Seccomp: "default",
		State:   "ephemeral",
	}
}

// projectFiles is the project of these tests: a folder work with a repository without hooks and configuration, so
// that stubs of all kinds stand in it during a cage.
var projectFiles = []string{
	"work",
	"work/repository",
	"work/repository/.git",
	"work/repository/.git/HEAD",
	"work/repository/.git/objects",
	"work/repository/.git/refs",
}

// project makes a project.
func project(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range projectFiles {
		path := filepath.Join(dir, name)
		if filepath.Base(name) == "HEAD" {
			err = os.WriteFile(path, []byte("ref: refs/heads/main\n"), 0o644)
		} else {
			err = os.Mkdir(path, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// inCage makes a command one of a cage of its own.
func inCage(root string, policy *commonv1.CagePolicy) func(*sandboxsupervisorv1.ExecStart) {
	return func(s *sandboxsupervisorv1.ExecStart) {
		s.Cage, s.ProjectRoot, s.Cwd = policy, root, filepath.Join(root, "work")
	}
}

// heldCage is a cage that a test holds.
type heldCage struct {
	id      string
	root    string
	policy  *commonv1.CagePolicy
	release context.CancelFunc
	stream  sandboxsupervisorv1.SandboxService_HoldCageClient
}

func hold(
	client sandboxsupervisorv1.SandboxServiceClient,
	root string,
	policy *commonv1.CagePolicy,
) (*heldCage, error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &heldCage{id: ident.New(), root: root, policy: policy, release: cancel}
	var err error
	c.stream, err = client.HoldCage(ctx, &sandboxsupervisorv1.HoldCageRequest{
		CageId: c.id, Owner: &sandboxsupervisorv1.Owner{SessionId: "session", ProjectId: "project"}, AgentPath: "primary", Policy: policy, ProjectRoot: root,
	})
	var event *sandboxsupervisorv1.HoldCageEvent
	if err == nil {
		event, err = c.stream.Recv()
	}
	if err == nil && event.GetOpened() == nil {
		err = fmt.Errorf("the first event is %v", event)
	}
	if err != nil {
		cancel()
	}
	return c, err
}

func mustHold(
	t testing.TB,
	client sandboxsupervisorv1.SandboxServiceClient,
	root string,
	policy *commonv1.CagePolicy,
) *heldCage {
	t.Helper()
	c, err := hold(client, root, policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.release)
	return c
}

// in makes a command one of a held cage.
func (c *heldCage) in(s *sandboxsupervisorv1.ExecStart) {
	inCage(c.root, c.policy)(s)
	s.CageId = c.id
}

// ended reads the events of a held cage to the last, which says why it ended.
func (c *heldCage) ended(t testing.TB) sandboxsupervisorv1.KillReason {
	t.Helper()
	for {
		event, err := c.stream.Recv()
		if err != nil {
			t.Fatalf("waiting for the cage's end: %v", err)
		}
		if event.GetEnded() != nil {
			return event.GetEnded().GetReason()
		}
	}
}

// helperCages is a supervisor of its own process that holds as many cages as its argument says, in the project of
// KAGED_TEST_PROJECT, all made at once. In each run a command and a detached one, both deaf; it says so and works until
// it is killed. With a second argument it releases each cage instead as soon as it is there.
func helperCages() {
	h, err := host.New(host.Options{
		DataDir: ownDir(os.Getenv("KAGED_TEST_DATA")), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "0",
	}, sandboxsupervisor.Module)
	must(err)
	count, err := strconv.Atoi(os.Args[1])
	must(err)
	root := os.Getenv("KAGED_TEST_PROJECT")
	must(h.Run(context.Background(), func() {
		client := sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor"))
		for range count {
			go func() {
				policy := grantsWork()
				// Cgroups, where they can be had.
				policy.Limits = &commonv1.CageLimits{MemoryBytes: 256 << 20, Pids: 200, DiskBytes: 1 << 30}
				c, err := hold(client, root, policy)
				must(err)
				fmt.Println("opened")
				if len(os.Args) > 2 {
					c.release()
					return
				}
				start := &sandboxsupervisorv1.ExecStart{
					Owner: &sandboxsupervisorv1.Owner{
						SessionId: "session",
					},
					Argv: []string{"/bin/sh", "-c", stubborn}, Env: map[string]string{"PATH": "/usr/bin:/bin"},
				}
				c.in(start)
				_, err = client.StartProcess(
					context.Background(),
					&sandboxsupervisorv1.StartProcessRequest{ProcessId: ident.New(), Start: start},
				)
				must(err)
				_, err = caged(client, start, func(text []byte) {
					if bytes.HasSuffix(text, []byte(" pid")) {
						fmt.Println("running")
					}
				})
				must(err)
			}()
		}
	}))
}

// holder is a supervisor in a process of its own that holds cages.
type holder struct {
	cmd           *exec.Cmd
	out           *bufio.Scanner
	data, project string
}

func startHolder(t *testing.T, cages int, crashAt string, args ...string) *holder {
	t.Helper()
	h := &holder{data: t.TempDir(), project: project(t)}
	h.cmd = exec.Command("/proc/self/exe", append([]string{strconv.Itoa(cages)}, args...)...)
	h.cmd.Env = append(
		os.Environ(),
		"KAGED_TEST_HELPER=cages",
		"KAGED_TEST_DATA="+h.data,
		"KAGED_TEST_PROJECT="+h.project,
		"KAGED_CRASH_AT="+crashAt,
	)
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.cmd.Process.Kill(); h.cmd.Wait() })
	h.out = bufio.NewScanner(out)
	return h
}

// until waits until it has said a word so many times.
func (h *holder) until(t *testing.T, word string, times int) {
	t.Helper()
	for times > 0 {
		if !h.out.Scan() {
			t.Fatalf("the supervisor ended before it said %s", word)
		}
		if h.out.Text() == word {
			times--
		}
	}
}

// descendants returns every process below one.
func descendants(t testing.TB, pid int) (found []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[1])
		children[parent] = append(children[parent], child)
	}
	for next := children[pid]; len(next) > 0; next = next[1:] {
		found = append(found, next[0])
		next = append(next, children[next[0]]...)
	}
	return found
}

// nothingLeft fails the test if a killed supervisor left traces on the host, once the next one of its data
// directory has started and stopped.
func (h *holder) nothingLeft(t *testing.T, processes []int) {
	t.Helper()
	for _, pid := range processes {
		gone(t, pid)
	}
	// A process that was being forked as the supervisor died has all its files, its socket and its locks among them,
	// until it sees that it is alone.
	waitFor(t, "the supervisor's files to be let go of", func() bool {
		c, err := net.Dial("unix", host.SocketPath(h.data, "sandbox-supervisor"))
		if err == nil {
			c.Close()
		}
		return err != nil &&
			!opened(h.data+"/", "/kaged-"+strings.ToLower(strings.TrimSpace(read(t, filepath.Join(h.data, "node")))))
	})
	restart(t, h.data)
	h.clean(t)
}

// clean fails the test if the host has a trace of the supervisor.
func (h *holder) clean(t *testing.T) {
	t.Helper()
	if left := cgroups(t, h.data); len(left) > 0 {
		t.Errorf("cgroups are left: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(h.project)) || bytes.Contains(mounts, []byte(h.data)) {
		t.Errorf("mounts are left: %v: %s", err, mounts)
	}
	for _, dir := range []string{h.project, filepath.Join(h.data, "cages")} {
		if left := below(dir); len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
	}
}

// opened reports whether any process has an open file whose path contains one of the parts.
func opened(parts ...string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	return slices.ContainsFunc(files, func(file string) bool {
		to, err := os.Readlink(file)
		return err == nil && slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(to, part) })
	})
}

// below lists everything in a folder but a project's own files.
func below(dir string) (found []string) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != dir && !slices.Contains(projectFiles, strings.TrimPrefix(path, dir+"/")) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// When the supervisor is killed, every cage is gone at once, and the host has no trace of them: no process, mount,
// cgroup, stub or file. This needs no further start, and no running launcher, inits or shim: they may be stopped.
func TestKilledSupervisorOfCages(t *testing.T) {
	t.Parallel()
	for _, stopped := range [][]string{nil, {"kaged-cages"}, {"kaged-cage"}, {"kaged-cages", "kaged-cage", "kaged-shim"}} {
		t.Run(fmt.Sprint("stopped=", stopped), func(t *testing.T) {
			t.Parallel()
			h := startHolder(t, 2, "")
			h.until(t, "running", 4)
			if len(below(h.project)) == 0 {
				t.Error("there are no stubs")
			}
			processes := descendants(t, h.cmd.Process.Pid)
			if len(processes) < 2*5 {
				t.Errorf("only %v run", processes)
			}
			for _, pid := range processes {
				comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				if err == nil && slices.Contains(stopped, strings.TrimSpace(string(comm))) {
					freeze(t, pid)
				}
			}
			if err := h.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = h.cmd.Wait()
			for _, pid := range processes {
				gone(t, pid)
			}
			h.clean(t)
			h.nothingLeft(t, nil)
		})
	}
}

// A stub stands as long as a process is in the cage it protects, whichever process was killed: the next supervisor
// removes it once the cage is gone.
func TestStubsOutlastTheSupervisor(t *testing.T) {
	t.Parallel()
	h := startHolder(t, 1, "")
	h.until(t, "running", 2)
	stubs := below(h.project)
	processes := descendants(t, h.cmd.Process.Pid)
	init := 0
	for _, name := range []string{"kaged-cage", "kaged-cages"} {
		for _, pid := range processes {
			if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil ||
				strings.TrimSpace(string(comm)) != name {
				continue
			}
			if name == "kaged-cages" { // which would make an end of the init
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				gone(t, pid)
			} else if len(descendants(t, pid)) > 0 { // it is no spare
				freeze(t, pid)
				init = pid
			}
		}
	}
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
	restart(t, h.data)
	if now := below(h.project); len(stubs) == 0 || !slices.Equal(now, stubs) {
		t.Errorf("while the cage is there the stubs are %v, they were %v", now, stubs)
	}
	if err := unix.Kill(init, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	h.nothingLeft(t, processes)
}

// The same if it is killed while it makes twenty cages at once, wherever each of them is.
func TestKilledWhileMakingCages(t *testing.T) {
	t.Parallel()
	for _, opened := range []int{1, 7, 15} {
		t.Run(fmt.Sprint(opened), func(t *testing.T) {
			t.Parallel()
			h := startHolder(t, 20, "")
			h.until(t, "opened", opened)
			// Stopped, it starts no more that is not seen.
			freeze(t, h.cmd.Process.Pid)
			processes := descendants(t, h.cmd.Process.Pid)
			if err := h.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = h.cmd.Wait()
			h.nothingLeft(t, processes)
		})
	}
}

// initOf returns the first process of the cage that a process is in.
func initOf(t testing.TB, pid int) int {
	t.Helper()
	space := func(pid int) string {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	inside := space(pid)
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		parent, _ := strconv.Atoi(strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[1])
		if parent == 0 || space(parent) != inside {
			return pid
		}
		pid = parent
	}
}

// When the first process of a cage is killed, all its processes are gone, each command is reported as lost, the
// holders are told, and other cages go on.
func TestKilledInit(t *testing.T) {
	t.Parallel()
	client, root := serve(t, nil), project(t)
	c, other := mustHold(t, client, root, grantsWork()), mustHold(t, client, root, grantsWork())
	spared := begin(t, client, shell(t, "echo up; read x; echo still", pipes, other.in))
	spared.until("up")
	var commands []*running
	for _, kind := range []func(*sandboxsupervisorv1.ExecStart){pipes, timeout(60_000)} {
		r := begin(t, client, shell(t, stubborn, kind, c.in))
		r.until("pid")
		commands = append(commands, r)
	}
	detached := shell(t, stubborn, c.in)
	started, err := client.StartProcess(
		t.Context(),
		&sandboxsupervisorv1.StartProcessRequest{ProcessId: ident.New(), Start: detached},
	)
	if err != nil {
		t.Fatal(err)
	}
	first := initOf(t, int(commands[0].started.GetPid()))
	processes := descendants(t, first)
	if len(processes) < 5 {
		t.Errorf("only %v run in the cage", processes)
	}
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, r := range commands {
		if exit := r.wait(); exit.GetReason() != lost {
			t.Errorf("a command ended with %v", exit)
		}
	}
	if reason := c.ended(t); reason != lost {
		t.Errorf("the cage ended with %v", reason)
	}
	for _, pid := range append(processes, int(started.GetProcess().GetPid())) {
		gone(t, pid)
	}
	refusal := shell(t, "true", c.in)
	if _, err := tryBegin(t, client, refusal); err == nil {
		t.Error("a command was started in a cage that is gone")
	}
	spared.write("\n")
	spared.wait()
	if !strings.Contains(spared.stdout.String(), "still") {
		t.Errorf("another cage's command wrote %q", spared.stdout.String())
	}
	if err := errors.Join(noStubs(root)...); err == nil {
		return
	}
	other.release()
	waitFor(t, "the stubs to go", func() bool { return len(noStubs(root)) == 0 })
}

// noStubs returns an error for everything in a project that its cages put there.
func noStubs(root string) (found []error) {
	for _, path := range below(root) {
		found = append(found, fmt.Errorf("%s is there", path))
	}
	return found
}

// waitFor polls for conditions that raise no event.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waiting for %s", what)
		}
	}
}

// Hundreds of commands in one cage, and many cages in a row, leak no open file, process, cgroup or stub.
func TestCagesLeakNothing(t *testing.T) {
	opts := testkit.Options(t)
	settings := settings{"CAGE_SPARE": "0s"} // which would come and go
	opts.Getenv = func(name string) string {
		return settings[strings.TrimPrefix(name, "KAGED_SERVICES_SANDBOX_SUPERVISOR_")]
	}
	h, err := host.New(opts, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	running := testkit.Start(t, h)
	defer testkit.Stop(t, running)
	client, root := sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor")), project(t)
	one := func(start *sandboxsupervisorv1.ExecStart) {
		if exit, err := caged(client, start, func([]byte) {}); err != nil || exit.GetExitCode() != 0 {
			t.Fatalf("%v, %v", exit, err)
		}
	}
	alone := shell(t, "true", pipes, inCage(root, grantsWork()))
	one(shell(t, "true", pipes)) // the shim is there
	one(alone)                   // and makes the next cage's spare
	settled := func() [3]int {
		return [3]int{openFiles(t), len(descendants(t, os.Getpid())), len(cgroups(t, opts.DataDir.String()))}
	}
	before, now := settled(), [3]int{}
	defer func() {
		if t.Failed() {
			t.Errorf("files, processes and cgroups are %v, were %v; in the project stand %v", now, before, noStubs(root))
		}
	}()
	c := mustHold(t, client, root, grantsWork())
	for i := range 300 {
		start := shell(t, "(setsid sleep 1000 &) ; true", pipes, c.in)
		if i%10 == 0 {
			start.Terminal = &sandboxsupervisorv1.Terminal{}
		}
		start.Cwd = filepath.Join(root, "work")
		one(start)
	}
	c.release()
	for range 20 {
		one(alone)
	}
	waitFor(t, "what was used to be given back", func() bool {
		now = settled()
		return now[0] <= before[0] && now[1] <= before[1] && now[2] <= before[2] && len(noStubs(root)) == 0
	})
}

// A command that writes endlessly to a caller that does not read blocks, uses no further memory, and goes on
// when the caller reads again.
func TestOutputFloodFromACage(t *testing.T) {
	client, root := serve(t, nil), project(t)
	start := shell(t, "", pipes, inCage(root, grantsWork()))
	start.Argv = []string{"head", "-c", strconv.Itoa(1 << 30), "/dev/zero"}
	r := begin(t, client, start)
	written := func() (n int64) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", r.started.GetPid()))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Sscanf(string(text[bytes.Index(text, []byte("wchar: ")):]), "wchar: %d", &n)
		return n
	}
	// It is blocked once several looks in a row find no further output.
	last, same := int64(-1), 0
	waitFor(t, "the command to stand still", func() bool {
		n := written()
		if n != last {
			last, same = n, 0
		}
		same++
		return same > 2000
	})
	if last > 64<<20 {
		t.Errorf("it wrote %d bytes that nobody has read", last)
	}
	for total := int64(0); total < last+(32<<20); { // the blocked command goes on
		event, err := r.stream.Recv()
		if err != nil || event.GetExited() != nil {
			t.Fatalf("after %d bytes: %v, %v", total, event, err)
		}
		total += int64(len(event.GetOutput().GetData()))
	}
	r.cancel()
	gone(t, int(r.started.GetPid()))
}
