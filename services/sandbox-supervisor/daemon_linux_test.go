package sandboxsupervisor_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/testkit"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// daemon is a shell command that leaves a process behind as daemons do: two forks, a new session, an empty environment,
// no open file of the command, and all signals ignored. It writes the process's id and continues when the process is
// running.
const daemon = `( (setsid env -i /bin/sh -c 'trap "" TERM HUP INT QUIT PIPE; cd /; echo $$ pid; exec >/dev/null 2>&1 </dev/null; echo up >"'"$DIR"'/up"; while :; do sleep 1000; done' &) & )
while ! [ -e "$DIR/up" ]; do sleep 0.005; done; rm "$DIR/up"; `

// daemonStart starts a command that leaves a daemon and continues with rest.
func daemonStart(
	t testing.TB,
	rest string,
	change ...func(*sandboxsupervisorv1.ExecStart),
) *sandboxsupervisorv1.ExecStart {
	return shell(t, daemon+rest, append(change, env("DIR", t.TempDir()))...)
}

// Descendants of a command have ended when its end is reported: background children, and daemons that tried everything
// to escape (T-SHELL-17, T-SHELL-20).
func TestNothingOutlivesItsCommand(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		client := serve(t, set)
		for _, kind := range []func(*sandboxsupervisorv1.ExecStart){pipes, timeout(0)} {
			for name, start := range map[string]*sandboxsupervisorv1.ExecStart{
				"background": shell(t, "sleep 1000 & echo $! pid; nohup sleep 1000 >/dev/null 2>&1 & echo $! pid; exit 3", kind),
				"daemon":     daemonStart(t, "exit 3", kind),
				"holds file": shell(t, "(trap '' HUP; setsid sleep 1000) & echo $! pid; exit 3", kind),
				"tree": shell(t, "(sh -c '(sh -c \"sleep 1000 & echo \\$\\$ pid; wait\" & wait) & sleep 1000' &) ; sleep "+
					"0.05; exit 3", kind),
			} {
				r := begin(t, client, start)
				if exit := r.wait(); exit.GetExitCode() != 3 || exit.GetReason() != 0 {
					t.Errorf("%s: the end is %v", name, exit)
				}
				if err := stillThere(pidsIn(r.stdout.String())...); err != nil || len(pidsIn(r.stdout.String())) == 0 {
					t.Errorf("%s: %v after %q", name, err, r.stdout.String())
				}
			}
		}
	})
}

// The end of one command does not touch the descendants of another that still runs.
func TestEndsDoNotMix(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		client := serve(t, set)
		long := begin(t, client, daemonStart(t, "read x; echo still", pipes))
		long.until("pid")
		for range 5 {
			short := begin(t, client, daemonStart(t, ""))
			short.wait()
			if err := stillThere(pidsIn(short.stdout.String())...); err != nil {
				t.Error(err)
			}
		}
		theirs := pidsIn(long.stdout.String())
		if err := stillThere(theirs...); err == nil {
			t.Error("a running command's daemon is gone")
		}
		long.write("\n")
		long.wait()
		if err := stillThere(theirs...); err != nil {
			t.Error(err)
		}
	})
}

// A process that removed even its mark is killed with its command if it can belong to no other, and otherwise when no
// command runs.
func TestWithoutMarks(t *testing.T) {
	t.Parallel()
	const unmark = `prlimit --pid $$ --locks=unlimited; `
	client := serve(t, settings{"CGROUPS": "off"})
	r := begin(t, client, daemonStart(t, ""))
	r.wait()
	alone := daemonStart(t, "")
	alone.Argv[2] = unmark + alone.Argv[2]
	r = begin(t, client, alone)
	r.wait()
	if err := stillThere(pidsIn(r.stdout.String())...); err != nil {
		t.Error(err)
	}
	other := begin(t, client, shell(t, "cat", pipes))
	r = begin(t, client, alone)
	r.wait()
	other.closeStdin()
	other.wait()
	if err := stillThere(pidsIn(r.stdout.String())...); err != nil {
		t.Error(err)
	}
	// In the command's session it is recognised without a mark, even if another command runs.
	other = begin(t, client, shell(t, "cat", pipes))
	r = begin(t, client, shell(t, unmark+"(sleep 1000 & echo $! pid)"))
	r.wait()
	if err := stillThere(pidsIn(r.stdout.String())...); err != nil {
		t.Error(err)
	}
	other.closeStdin()
	other.wait()
}

// Endless forks are killed: loops that start daemons, and processes that keep changing their id. (They end with the
// test's folder if this fails.)
func TestForkBombs(t *testing.T) {
	t.Parallel()
	for name, bomb := range map[string]string{
		"spawning": `i=0; while [ $i -lt 6 ]; do i=$((i+1)); (setsid sh -c 'while [ -e "$DIR/go" ]; do (setsid sleep 0.05 ` +
			`&); done' &); done; `,
		"hopping": `i=0; while [ $i -lt 6 ]; do i=$((i+1)); (setsid "$DIR/hop" &); done; `,
		"growing": `grow() { [ $1 -eq 0 ] && exec sleep 1000; (grow $(($1-1))) & (grow $(($1-1))) & wait; }; (grow 7) & `,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, func(t *testing.T, set settings) {
				set["KILL_GRACE"] = "10ms"
				client := serve(t, set)
				dir := t.TempDir()
				for file, text := range map[string]string{
					"go": "", "hop": "#!/bin/sh\n[ -e \"$DIR/go\" ] || exit\nsetsid \"$DIR/hop\" &\n",
				} {
					testkit.WriteProgram(t, filepath.Join(dir, file), []byte(text))
				}
				defer os.Remove(filepath.Join(dir, "go"))
				for _, rest := range []string{"sleep 0.1", "sleep 1000"} {
					r := begin(t, client, shell(t, bomb+rest, env("DIR", dir), timeout(400), pipes))
					exit := r.wait()
					if exit.GetDurationMs() > 8000 {
						t.Errorf("the end took %v", exit)
					}
					if left := withVariable(t, "DIR="+dir); len(left) > 0 {
						t.Errorf("after %v are left %v", exit, left)
					}
				}
			})
		})
	}
}

// withVariable returns the living processes with an environment variable.
func withVariable(t *testing.T, variable string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && strings.Contains("\x00"+string(data), "\x00"+variable+"\x00") {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			found = append(found, file+" "+string(cmdline))
		}
	}
	return found
}

// Hundreds of started, refused and cancelled commands leak no open file in the service or its shim.
func TestNothingLeaks(t *testing.T) {
	client := serve(t, nil)
	probe := begin(t, client, shell(t, "echo $PPID shim"))
	probe.wait()
	shimPID, err := strconv.Atoi(strings.Fields(probe.stdout.String())[0])
	if err != nil {
		t.Fatal(err)
	}
	// The limit turns a leak in the shim into a failure.
	if err := unix.Prlimit(shimPID, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 40, Max: 40}, nil); err != nil {
		t.Fatal(err)
	}
	before := openFiles(t)
	for i := range 100 {
		begin(t, client, shell(t, "true")).wait()
		begin(t, client, shell(t, "sleep 1000 & echo x >&2", pipes)).wait()
		start := shell(t, "")
		start.Argv = []string{"no-such-program"}
		if _, err := tryBegin(t, client, start); err == nil {
			t.Fatal("a program that is not there was started")
		}
		if i%10 == 0 {
			r := begin(t, client, shell(t, "sleep 1000"))
			r.cancel()
			gone(t, int(r.started.GetPid()))
		}
	}
	if exit := begin(t, client, shell(t, "true")).wait(); exit.GetExitCode() != 0 {
		t.Errorf("after all the end is %v", exit)
	}
	// The end of the last stream and the closing of the last terminal have no event.
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
