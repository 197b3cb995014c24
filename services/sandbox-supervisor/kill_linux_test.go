package sandboxsupervisor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
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

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	sandboxsupervisor "kaged.dev/services/sandbox-supervisor"
	"kaged.dev/services/sandbox-supervisor/shim"
)

func init() { helpers["supervisor"] = helperSupervisor }

// helperSupervisor is a supervisor in its own process: it starts the shell commands of its arguments, the last one
// detached, copies their output to standard output, and works until it is killed.
func helperSupervisor() {
	fatal := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	h, err := host.New(host.Options{
		DataDir: ownDir(os.Getenv("KAGED_TEST_DATA")), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Version: "0",
	}, sandboxsupervisor.Module)
	fatal(err)
	started := func() {
		client := sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor"))
		start := func(command string) *sandboxsupervisorv1.ExecStart {
			return &sandboxsupervisorv1.ExecStart{
				Owner: &sandboxsupervisorv1.Owner{SessionId: "s"}, Argv: []string{"/bin/sh", "-c", command}, Cwd: "/",
				Env: map[string]string{
					"PATH": os.Getenv("PATH"),
					"DIR":  os.Getenv("DIR"),
				},
				Terminal: &sandboxsupervisorv1.Terminal{},
			}
		}
		last := len(os.Args) - 1
		for _, command := range os.Args[1:last] {
			stream, err := client.Exec(context.Background())
			fatal(err)
			fatal(
				stream.Send(
					&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start(command)}},
				),
			)
			go func() {
				for {
					event, err := stream.Recv()
					fatal(err)
					os.Stdout.Write(event.GetOutput().GetData())
				}
			}()
		}
		res, err := client.StartProcess(
			context.Background(),
			&sandboxsupervisorv1.StartProcessRequest{ProcessId: ident.New(), Start: start(os.Args[last])},
		)
		fatal(err)
		stream, err := client.AttachProcess(
			context.Background(),
			&sandboxsupervisorv1.AttachProcessRequest{ProcessId: res.GetProcess().GetExecId(), Follow: true},
		)
		fatal(err)
		go func() {
			for {
				event, err := stream.Recv()
				fatal(err)
				os.Stdout.Write(event.GetOutput().GetData())
			}
		}()
	}
	fatal(h.Run(context.Background(), started))
}

// victim is a supervisor in its own process.
type victim struct {
	cmd  *exec.Cmd
	data string
	out  *bufio.Scanner
	shim int
	pids []int // processes of its commands and their daemons
}

// startVictim starts a victim that runs two stubborn commands, one with a daemon, and returns when they run.
func startVictim(t *testing.T, cgroups string) *victim {
	t.Helper()
	v := &victim{data: t.TempDir()}
	v.cmd = exec.Command(
		"/proc/self/exe",
		`trap "" TERM HUP; `+daemon+`echo $PPID shim; echo $$ pid; while :; do sleep 1000; done`,
		stubborn,
	)
	v.cmd.Env = append(os.Environ(), "KAGED_TEST_HELPER=supervisor", "KAGED_TEST_DATA="+v.data, "DIR="+t.TempDir(),
		"KAGED_SERVICES_SANDBOX_SUPERVISOR_CGROUPS="+cgroups)
	v.cmd.Stderr = os.Stderr
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.cmd.Process.Kill(); v.cmd.Wait() })
	v.out = bufio.NewScanner(out)
	for len(v.pids) < 4 || v.shim == 0 {
		if !v.out.Scan() {
			t.Fatal("the supervisor ended before its commands were up")
		}
		line := strings.TrimSpace(v.out.Text())
		v.pids = append(v.pids, pidsIn(line)...)
		if pid, ok := strings.CutSuffix(line, " shim"); ok {
			v.shim, _ = strconv.Atoi(pid)
		}
	}
	return v
}

// kill kills the supervisor with SIGKILL, and returns when it has ended.
func (v *victim) kill(t *testing.T) {
	t.Helper()
	if err := v.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = v.cmd.Wait()
}

// freeze stops a process and returns once /proc shows each of its threads stopped.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.Gosched() {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(tasks) == 0 {
			t.Fatalf("process %d has no threads: %v", pid, err)
		}
		if !slices.ContainsFunc(tasks, func(task string) bool {
			stat, err := os.ReadFile(task)
			return err == nil && !strings.Contains(string(stat), ") T ")
		}) {
			return
		}
	}
	t.Fatalf("process %d does not stand still", pid)
}

// cgroups returns the cgroups of a data directory's supervisor.
func cgroups(t *testing.T, data string) (found []string) {
	t.Helper()
	node := strings.ToLower(strings.TrimSpace(read(t, filepath.Join(data, "node"))))
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "kaged-"+node) {
			found = append(found, path)
			return fs.SkipDir
		}
		return nil // removed by another test in the meantime
	})
	return found
}

// restart runs the service once on a data directory.
func restart(t *testing.T, data string) {
	t.Helper()
	opts := testkit.Options(t)
	opts.DataDir = ownDir(data)
	h, err := host.New(opts, sandboxsupervisor.Module)
	if err != nil {
		t.Fatal(err)
	}
	r := testkit.Start(t, h)
	// Its first command comes after the search for remaining processes.
	begin(t, sandboxsupervisorv1.NewSandboxServiceClient(h.Dial("sandbox-supervisor")), shell(t, "true")).wait()
	testkit.Stop(t, r)
}

// When the supervisor is killed, all its processes end, the shim last, even a stopped one; its cgroups are removed too,
// without another start.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"auto", "off"} {
		for _, stopped := range []bool{false, true} {
			t.Run(fmt.Sprintf("cgroups=%s stopped=%v", way, stopped), func(t *testing.T) {
				t.Parallel()
				v := startVictim(t, way)
				if stopped {
					freeze(t, v.shim)
				}
				v.kill(t)
				for _, pid := range append(v.pids, v.shim) {
					gone(t, pid)
				}
				if left := cgroups(t, v.data); len(left) > 0 {
					t.Errorf("cgroups are left: %v", left)
				}
				restart(t, v.data)
			})
		}
	}
}

// When the supervisor and its shim are killed at once, the next start kills the remaining processes.
func TestKilledTogether(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"auto", "off"} {
		t.Run("cgroups="+way, func(t *testing.T) {
			t.Parallel()
			v := startVictim(t, way)
			// The stopped supervisor cannot notice the shim's end.
			freeze(t, v.cmd.Process.Pid)
			if err := unix.Kill(v.shim, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			gone(t, v.shim)
			v.kill(t)
			for _, pid := range v.pids {
				if stillThere(pid) == nil {
					t.Errorf("process %d was gone too early to prove anything", pid)
				}
			}
			restart(t, v.data)
			for _, pid := range v.pids {
				gone(t, pid)
			}
			if left := cgroups(t, v.data); len(left) > 0 {
				t.Errorf("cgroups are left: %v", left)
			}
		})
	}
}

// When the shim is killed, the remaining processes are killed, its commands are reported as lost,
// and the next command runs.
func TestKilledShim(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		client := serve(t, set)
		for round := range 3 {
			a := begin(t, client, daemonStart(t, "echo $PPID shim; sleep 1000"))
			b := begin(t, client, shell(t, stubborn, pipes))
			c := detach(t, client, shell(t, stubborn))
			a.until("shim")
			b.until("pid")
			c.until("pid")
			pids := append(pidsIn(a.stdout.String()), pidsIn(b.stdout.String())...)
			shim := shimIn(t, a.stdout.String())
			if err := unix.Kill(shim, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for _, r := range []*running{a, b} {
				if exit := r.wait(); exit.GetReason() != lost || exit.GetExitCode() != 137 || exit.GetSignal() != "SIGKILL" {
					t.Errorf("round %d: the end is %v", round, exit)
				}
			}
			if exit := c.wait(); exit.GetReason() != lost || exit.GetExitCode() != 137 {
				t.Errorf("round %d: the end of the detached one is %v", round, exit)
			}
			pids = append(pids, pidsIn(c.output)...)
			if err := stillThere(append(pids, shim, int(a.started.GetPid()), int(b.started.GetPid()))...); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
		list, err := client.ListProcesses(t.Context(), &sandboxsupervisorv1.ListProcessesRequest{})
		if err != nil || len(list.GetProcesses()) > 0 {
			t.Errorf("afterwards run %v, %v", list, err)
		}
	})
}

func shimIn(t *testing.T, output string) int {
	t.Helper()
	for line := range strings.Lines(output) {
		if pid, ok := strings.CutSuffix(strings.TrimSpace(line), " shim"); ok {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no shim in %q", output)
	return 0
}

// A hanging shim is replaced, after a command that does not start and after one that does not end.
func TestHangingShim(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		set["START_TIMEOUT"], set["KILL_TIMEOUT"], set["CANCEL_GRACE"] = "3s", "1s", "10ms"
		client := serve(t, set)
		first := begin(t, client, shell(t, "echo $PPID shim; "+stubborn))
		first.until("pid")
		freeze(t, shimIn(t, first.stdout.String()))
		refused(t, client, shell(t, "true"), fault.ShellSpawnFailed, "went away")
		if exit := first.wait(); exit.GetReason() != lost {
			t.Errorf("the end is %v", exit)
		}
		second := begin(t, client, shell(t, "echo $PPID shim; "+stubborn, session("second")))
		second.until("pid")
		freeze(t, shimIn(t, second.stdout.String()))
		if res, err := client.EndOwner(t.Context(), &sandboxsupervisorv1.EndOwnerRequest{SessionId: "second"}); err != nil ||
			res.GetKilled() != 1 {
			t.Errorf("EndOwner says %v, %v", res, err)
		}
		if exit := second.wait(); exit.GetReason() != lost {
			t.Errorf("the end is %v", exit)
		}
		for _, r := range []*running{first, second} {
			for _, pid := range pidsIn(r.stdout.String()) {
				gone(t, pid)
			}
		}
	})
}

// Signals that end other processes do not end the shim.
func TestShimTakesNoSignals(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	r := begin(
		t,
		client,
		shell(t, "for s in HUP INT QUIT TERM PIPE ALRM USR1 USR2 TSTP; do kill -$s $PPID; done; echo alive", pipes),
	)
	if exit := r.wait(); exit.GetReason() != 0 || r.stdout.String() != "alive\n" {
		t.Errorf("output is %q, the end %v", r.stdout.String(), exit)
	}
}

// The shim is the small embedded program under its plain name, and maps a few megabytes instead of this whole program.
func TestShimIsSmall(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	r := begin(t, client, shell(t, `tr '\0' ' ' </proc/$PPID/cmdline; grep VmRSS: /proc/$PPID/status`, pipes))
	r.wait()
	got := strings.Fields(r.stdout.String())
	if len(got) != 4 || got[0] != shim.Name || got[1] != "VmRSS:" {
		t.Fatalf("command line and memory are %q, want %s alone and one row", got, shim.Name)
	}
	if kb, err := strconv.Atoi(got[2]); err != nil || kb > 16<<10 {
		t.Errorf("the shim takes %s kB of memory, want at most 16 MiB", got[2])
	}
}

// The shim shares no state with the service: it has its own session and name, no environment, and no file of the
// service.
func TestShimIsApart(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	r := begin(
		t,
		client,
		shell(
			t,
			`cat /proc/$PPID/comm; tr '\0' '\n' </proc/$PPID/environ 2>/dev/null | grep -v ^GO; cut -d' ' -f6 `+
				`/proc/$PPID/stat; echo $PPID; readlink /proc/$PPID/cwd || echo /`,
			pipes,
		),
	)
	r.wait()
	got := strings.Fields(r.stdout.String())
	if len(got) != 4 || got[0] != "kaged-shim" || got[1] != got[2] || got[3] != "/" {
		t.Errorf("name, environment, session, id and folder are %q", got)
	}
	if os.Getuid() == 0 {
		files, err := os.ReadDir("/proc/" + got[2] + "/fd")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, f := range files {
			target, _ := os.Readlink("/proc/" + got[2] + "/fd/" + f.Name())
			// The Go runtime keeps files with the limits of its cgroup open.
			if strings.HasPrefix(target, "/") && target != "/dev/null" && !strings.Contains(target, "/cpu.") {
				t.Errorf("the shim has %s open", target)
			}
		}
	}
}

// A service started with ignored signals, as by nohup, does not pass them on.
func TestIgnoredSignalsAreNotHandedOn(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(
		"/bin/sh",
		"-c",
		`trap "" HUP INT QUIT TERM PIPE USR1 TSTP CHLD; exec "$@"`,
		"sh",
		exe,
		"exec grep ^SigIgn /proc/self/status",
	)
	cmd.Env = append(os.Environ(), "KAGED_TEST_HELPER=supervisor", "KAGED_TEST_DATA="+t.TempDir(),
		// the cgroups of a killed supervisor may still exist during this test
		"KAGED_SERVICES_SANDBOX_SUPERVISOR_CGROUPS=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if got := strings.Fields(line); err != nil || len(got) != 2 || strings.Trim(got[1], "0") != "" {
		t.Errorf("a command ignores %q, %v", line, err)
	}
}
