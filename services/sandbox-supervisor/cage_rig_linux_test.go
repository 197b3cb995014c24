package sandboxsupervisor_test

import (
	"bufio"
	"bytes"
	"context"
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

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
)

// grantsWork is a policy that grants the folder work of a project.
func grantsWork() *commonv1.CagePolicy {
	return &commonv1.CagePolicy{
		Fs:      []*commonv1.CageMount{{Mode: "rw", Path: "project:/work"}},
		Seccomp: "default",
		State:   "ephemeral",
	}
}

// projectFiles is the project of these tests: a folder work with a repository without hooks and configuration, so that
// stubs of all kinds exist during a cage.
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

// inCage runs a command in its own cage.
func inCage(root string, policy *commonv1.CagePolicy) func(*sandboxsupervisorv1.ExecStart) {
	return func(s *sandboxsupervisorv1.ExecStart) {
		s.Cage, s.ProjectRoot, s.Cwd = policy, root, filepath.Join(root, "work")
	}
}

// heldCage is a cage held by a test.
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
		CageId: c.id, Owner: &sandboxsupervisorv1.Owner{SessionId: "session", ProjectId: "project"}, AgentPath: "primary",
		Policy: policy, ProjectRoot: root,
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

// in runs a command in a held cage.
func (c *heldCage) in(s *sandboxsupervisorv1.ExecStart) {
	inCage(c.root, c.policy)(s)
	s.CageId = c.id
}

// ended reads the events of a held cage to the last, which has the reason for the end.
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

// helperCages is a supervisor in its own process. It holds as many cages as its first argument says, in the project of
// KAGED_TEST_PROJECT, all made at once. Each runs a command and a detached command, which both ignore signals. It
// reports each cage and works until it is killed. With a second argument it releases each cage as soon as it exists.
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
				// With cgroups, if available.
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

// holder is a supervisor in its own process that holds cages.
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

// until waits until the supervisor has printed a word the given number of times.
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

// descendants returns every descendant of a process.
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

// nothingLeft fails the test if a killed supervisor left traces on the host, after the next supervisor of its data
// directory has started and stopped.
func (h *holder) nothingLeft(t *testing.T, processes []int) {
	t.Helper()
	for _, pid := range processes {
		gone(t, pid)
	}
	// A process that was being forked when the supervisor died has all its files, its socket and its locks included, until
	// it notices that its parent is gone.
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

// clean fails the test if the host has traces of the supervisor.
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

// below lists everything in a folder except a project's own files.
func below(dir string) (found []string) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != dir && !slices.Contains(projectFiles, strings.TrimPrefix(path, dir+"/")) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// noStubs returns an error for each path in a project that a cage created.
func noStubs(root string) (found []error) {
	for _, path := range below(root) {
		found = append(found, fmt.Errorf("%s is there", path))
	}
	return found
}

// waitFor polls for conditions without an event.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waiting for %s", what)
		}
	}
}
