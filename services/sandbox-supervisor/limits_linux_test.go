package sandboxsupervisor_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

const (
	timedOut   = sandboxsupervisorv1.KillReason_KILL_REASON_TIMEOUT
	cancelled  = sandboxsupervisorv1.KillReason_KILL_REASON_CANCELLED
	ownerEnded = sandboxsupervisorv1.KillReason_KILL_REASON_OWNER_ENDED
	lost       = sandboxsupervisorv1.KillReason_KILL_REASON_LOST
)

// stubborn is a process tree that ignores all signals except SIGKILL, in the same process group and outside of it.
const stubborn = `trap "" TERM HUP INT; (setsid sh -c 'echo $$ pid; while :; do sleep 1000; done') & echo $$ pid; ` +
	`while :; do sleep 1000; done`

// A command that exceeded its time limit is asked to end, killed after the grace with all its descendants, and reported
// as timed out (T-SHELL-07, T-SHELL-08, T-SHELL-17).
func TestTimeoutOfAStubbornTree(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		set["KILL_GRACE"] = "300ms"
		client := serve(t, set)
		r := begin(t, client, shell(t, stubborn, timeout(300)))
		exit := r.wait()
		if exit.GetReason() != timedOut || exit.GetExitCode() != 137 || exit.GetSignal() != "SIGKILL" {
			t.Errorf("the end is %v", exit)
		}
		if ms := exit.GetDurationMs(); ms < 600 || ms > 5000 {
			t.Errorf("it took %d ms, want the time limit and the grace", ms)
		}
		for _, pid := range pidsIn(r.stdout.String()) {
			gone(t, pid)
		}
	})
}

// The default grace is the specification's five seconds (T-SHELL-07).
func TestDefaultGrace(t *testing.T) {
	t.Parallel()
	r := begin(t, serve(t, nil), shell(t, stubborn, timeout(1000)))
	if exit := r.wait(); exit.GetDurationMs() < 5900 || exit.GetDurationMs() > 8000 || exit.GetReason() != timedOut {
		t.Errorf("the end is %v, want it 6 s after the start", exit)
	}
}

// A command that ends when asked is not killed, nor are its descendants, even after their shell's end: every process
// has the grace to clean up. A stopped command is continued for it. (On a terminal the shell's end also hangs up, as
// usual.)
func TestGraceIsForAll(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		set["KILL_GRACE"] = "30s"
		client := serve(t, set)
		const child = `(trap 'sleep 0.2; echo cleaned up; exit' TERM; echo up; while :; do sleep 0.01; done) & `
		for _, rest := range []string{"wait", "setsid true; kill -STOP $$; wait"} {
			r := begin(t, client, shell(t, child+rest, timeout(500), pipes))
			exit := r.wait()
			if !strings.Contains(r.stdout.String(), "cleaned up") || exit.GetReason() != timedOut ||
				exit.GetSignal() != "SIGTERM" {
				t.Errorf("output is %q, the end %v", r.stdout.String(), exit)
			}
		}
	})
}

// A background process does not outlive the call (T-SHELL-20).
func TestBackgroundOnTimeout(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	var pids []int
	for limit := int64(300); len(pids) == 0; limit *= 2 { // a busy machine starts the shell later than that
		r := begin(t, client, shell(t, "sleep 300 & echo $! pid; wait", timeout(limit)))
		if exit := r.wait(); exit.GetReason() != timedOut || exit.GetExitCode() != 143 {
			t.Fatalf("the end is %v", exit)
		}
		pids = pidsIn(r.stdout.String())
	}
	gone(t, pids[0])
}

// The end of a caller ends its command: SIGTERM first, then SIGKILL (H-CANCEL-01, H-CANCEL-02).
func TestCancel(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		set["CANCEL_GRACE"] = "3s"
		client := serve(t, set)
		dir := t.TempDir()
		polite := begin(
			t,
			client,
			shell(t, `trap 'echo term >"$DIR/told"; exit' TERM; echo up; while :; do sleep 0.01; done`, env("DIR", dir)),
		)
		polite.until("up")
		r := begin(t, client, shell(t, stubborn))
		r.until("pid")
		for len(pidsIn(r.stdout.String())) < 2 {
			if _, err := r.next(); err != nil {
				t.Fatal(err)
			}
		}
		r.cancel()
		polite.cancel()
		for _, pid := range append(pidsIn(r.stdout.String()), int(polite.started.GetPid())) {
			gone(t, pid)
		}
		if got := read(t, dir+"/told"); got != "term\n" {
			t.Errorf("the polite one was told %q", got)
		}
		if _, err := r.next(); !errors.Is(err, fault.Cancelled) {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// A cancelled caller does not wait for the grace of a timeout.
func TestCancelDuringGrace(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"KILL_GRACE": "1h", "CANCEL_GRACE": "10ms"})
	r := begin(t, client, shell(t, `trap 'echo told' TERM; echo up; while :; do sleep 0.01; done`, timeout(200)))
	r.until("told")
	r.cancel()
	gone(t, int(r.started.GetPid()))
}

// The end of a session ends exactly its own commands, and is reported when they have ended.
func TestEndOwner(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		set["CANCEL_GRACE"] = "50ms"
		client := serve(t, set)
		other := begin(t, client, shell(t, "echo up; sleep 1000", session("other")))
		other.until("up")
		var ending []*running
		for range 3 {
			r := begin(t, client, shell(t, stubborn, session("ending")))
			r.until("pid")
			ending = append(ending, r)
		}
		res, err := client.EndOwner(t.Context(), &sandboxsupervisorv1.EndOwnerRequest{SessionId: "ending"})
		if err != nil || res.GetKilled() != 3 {
			t.Fatalf("EndOwner says %v, %v", res, err)
		}
		list, err := client.ListProcesses(t.Context(), &sandboxsupervisorv1.ListProcessesRequest{})
		if err != nil || len(list.GetProcesses()) != 1 || list.GetProcesses()[0].GetExecId() != other.started.GetExecId() {
			t.Errorf("afterwards run %v, %v", list, err)
		}
		for _, r := range ending {
			if exit := r.wait(); exit.GetReason() != ownerEnded {
				t.Errorf("the end is %v", exit)
			}
			for _, pid := range pidsIn(r.stdout.String()) {
				gone(t, pid)
			}
		}
		if res, err := client.EndOwner(t.Context(), &sandboxsupervisorv1.EndOwnerRequest{SessionId: "nobody"}); err != nil ||
			res.GetKilled() != 0 {
			t.Errorf("ending a session without commands: %v, %v", res, err)
		}
	})
}

// Running processes are listed oldest first, with the usage of their whole trees.
func TestListProcesses(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		client := serve(t, set)
		const busy = `(setsid sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo ready; sleep 1000') & wait`
		first := begin(t, client, shell(t, busy, session("a")))
		second := begin(t, client, shell(t, "exec sleep 1000 # "+strings.Repeat("long ", 100), session("b")))
		first.until("ready")
		all, err := client.ListProcesses(t.Context(), &sandboxsupervisorv1.ListProcessesRequest{})
		if err != nil || len(all.GetProcesses()) != 2 {
			t.Fatalf("all are %v, %v", all, err)
		}
		p := all.GetProcesses()[0]
		if p.GetExecId() != first.started.GetExecId() || p.GetPid() != first.started.GetPid() ||
			p.GetOwner().GetSessionId() != "a" ||
			p.GetStartedAt() != first.started.GetStartedAt() ||
			p.GetCommand() != "/bin/sh -c "+busy {
			t.Errorf("the first is %v", p)
		}
		if p.GetMemoryBytes() < 500<<10 || p.GetMemoryBytes() > 1<<30 || p.GetCpuMs() < 10 || p.GetCpuMs() > 60_000 {
			t.Errorf("it uses %d bytes and %d ms", p.GetMemoryBytes(), p.GetCpuMs())
		}
		if got := []rune(all.GetProcesses()[1].GetCommand()); len(got) != 200 || got[199] != '…' {
			t.Errorf("a long command is shown as %q", string(got))
		}
		one, err := client.ListProcesses(t.Context(), &sandboxsupervisorv1.ListProcessesRequest{SessionId: "b"})
		if err != nil || len(one.GetProcesses()) != 1 || one.GetProcesses()[0].GetPid() != second.started.GetPid() {
			t.Errorf("of session b are %v, %v", one, err)
		}
	})
}

// No more commands run at once than allowed; a further one is refused with the advice to try again.
func TestMaxCommands(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"MAX_COMMANDS": "2"})
	a, b := begin(t, client, shell(t, "cat", pipes)), begin(t, client, shell(t, "cat", pipes))
	refused(t, client, shell(t, "true"), fault.RateLimited, "2 commands run already")
	a.closeStdin()
	a.wait()
	begin(t, client, shell(t, "true")).wait()
	b.closeStdin()
	b.wait()
}

// A stopping service ends its commands, informs their callers, and accepts no more.
func TestStopWhileBusy(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		set["CANCEL_GRACE"] = "50ms"
		client, service := serveHost(t, set)
		var all []*running
		for range 4 {
			r := begin(t, client, shell(t, stubborn))
			r.until("pid")
			all = append(all, r)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); testkit.Stop(t, service) }()
		for _, r := range all {
			if exit := r.wait(); exit.GetReason() != lost || exit.GetExitCode() != 137 {
				t.Errorf("the end is %v", exit)
			}
			for _, pid := range pidsIn(r.stdout.String()) {
				gone(t, pid)
			}
		}
		<-ended
	})
}

// All output arrives complete and exact, through a terminal and through pipes.
func TestAllOutputArrives(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	const command = `i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; done; echo last`
	var want strings.Builder
	for i := range 20000 {
		want.WriteString(strconv.Itoa(i+1) + "\n")
	}
	want.WriteString("last\n")
	for _, kind := range []func(*sandboxsupervisorv1.ExecStart){pipes, timeout(0)} {
		for range 5 {
			r := begin(t, client, shell(t, command, kind))
			r.wait()
			if got := strings.ReplaceAll(r.stdout.String(), "\r\n", "\n"); got != want.String() {
				t.Errorf("%d bytes of %d arrived", len(got), want.Len())
			}
		}
	}
}

// Long output costs no memory: the command waits for its reader, and blocks if the reader does not read.
func TestOutputIsBounded(t *testing.T) {
	client := serve(t, nil)
	for _, kind := range []func(*sandboxsupervisorv1.ExecStart){pipes, timeout(0)} {
		stuck := begin(t, client, shell(t, "yes", kind))
		r := begin(t, client, shell(t, "head -c 67108864 /dev/zero", kind))
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		total, peak := 0, uint64(0)
		for i := 0; ; i++ {
			event, err := r.stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if event.GetExited() != nil {
				break
			}
			total += len(event.GetOutput().GetData())
			if i%200 == 0 {
				runtime.GC() // garbage depends on the collector's timing and would hide the size in use
				runtime.ReadMemStats(&now)
				peak = max(peak, now.HeapAlloc)
			}
		}
		if total != 64<<20 {
			t.Errorf("%d bytes arrived", total)
		}
		if grown := int64(peak) - int64(before.HeapAlloc); grown > 24<<20 {
			t.Errorf("the heap grew by %d MB", grown>>20)
		}
		stuck.cancel()
		gone(t, int(stuck.started.GetPid()))
	}
}

// A timeout ends a command whose caller does not read; the caller still gets the output in transit and the reason.
func TestTimeoutOfAnUnreadCommand(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"KILL_GRACE": "50ms"})
	r := begin(t, client, shell(t, "yes", timeout(200)))
	gone(t, int(r.started.GetPid()))
	if exit := r.wait(); exit.GetReason() != timedOut {
		t.Errorf("the end is %v", exit)
	}
}

// Many commands at once keep their output, their end and their descendants apart.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		client := serve(t, set)
		done := make(chan error, 40)
		for i := range cap(done) {
			start := shell(t, `(setsid sleep 1000 & echo $! pid); echo mine $N; exit $N`, env("N", strconv.Itoa(i)))
			go func() {
				done <- func() error {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					stream, err := client.Exec(ctx)
					if err != nil {
						return err
					}
					if err := stream.Send(&sandboxsupervisorv1.ExecRequest{
						Request: &sandboxsupervisorv1.ExecRequest_Start{Start: start},
					}); err != nil {
						return err
					}
					var out strings.Builder
					for {
						event, err := stream.Recv()
						if err != nil {
							return err
						}
						out.Write(event.GetOutput().GetData())
						if exit := event.GetExited(); exit != nil {
							if int(exit.GetExitCode()) != i || !strings.Contains(out.String(), "mine "+strconv.Itoa(i)+"\r\n") {
								return errors.New("command " + strconv.Itoa(i) + ": " + exit.String() + " after " + out.String())
							}
							break
						}
					}
					return stillThere(pidsIn(out.String())...)
				}()
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
