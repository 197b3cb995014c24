package sandboxsupervisor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/testkit"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// detached is a process of StartProcess as seen by its caller.
type detached struct {
	t      testing.TB
	client sandboxsupervisorv1.SandboxServiceClient
	id     string
	output string // all output read so far, from the first byte
}

// detach starts a process with a call that has returned.
func detach(
	t testing.TB,
	client sandboxsupervisorv1.SandboxServiceClient,
	start *sandboxsupervisorv1.ExecStart,
) *detached {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := &detached{t: t, client: client, id: ident.New()}
	res, err := client.StartProcess(ctx, &sandboxsupervisorv1.StartProcessRequest{ProcessId: d.id, Start: start})
	if err != nil {
		t.Fatalf("starting %q: %v", start.GetArgv(), err)
	}
	if p := res.GetProcess(); p.GetExecId() != d.id || !p.GetDetached() || p.GetPid() <= 0 || p.GetStartedAt() <= 0 {
		t.Errorf("the process is %v", p)
	}
	return d
}

// attach reads output from an offset until enough returns true, or to the end for nil. It returns the pieces, and the
// state at the end if it was reached.
func (d *detached) attach(
	from int64,
	follow bool,
	enough func(all string) bool,
) (pieces []*sandboxsupervisorv1.ProcessOutput, p *sandboxsupervisorv1.Process) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	stream, err := d.client.AttachProcess(
		ctx,
		&sandboxsupervisorv1.AttachProcessRequest{ProcessId: d.id, Offset: from, Follow: follow},
	)
	if err != nil {
		d.t.Fatal(err)
	}
	all := ""
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return pieces, p
		}
		if err != nil {
			d.t.Fatalf("attached: %v", err)
		}
		if p != nil {
			d.t.Errorf("after the state came %v", event)
		}
		if out := event.GetOutput(); out != nil {
			pieces = append(pieces, out)
			all += string(out.GetData())
			if enough != nil && enough(all) {
				return pieces, nil
			}
		}
		p = event.GetProcess()
	}
}

// text joins pieces, which must be contiguous from an offset on.
func (d *detached) text(pieces []*sandboxsupervisorv1.ProcessOutput, from int64) string {
	d.t.Helper()
	var b strings.Builder
	for _, p := range pieces {
		if want := from + int64(b.Len()); p.GetOffset() != want {
			d.t.Errorf("a piece begins at %d, want %d", p.GetOffset(), want)
		}
		b.Write(p.GetData())
	}
	return b.String()
}

// until waits until the output contains text.
func (d *detached) until(text string) {
	d.t.Helper()
	pieces, p := d.attach(0, true, func(all string) bool { return strings.Contains(all, text) })
	d.output = d.text(pieces, 0)
	if p != nil {
		d.t.Fatalf("waiting for %q: the process ended with %v after %q", text, p, d.output)
	}
}

// wait waits for the end.
func (d *detached) wait() *sandboxsupervisorv1.ExecExited {
	d.t.Helper()
	pieces, p := d.attach(0, true, nil)
	d.output = d.text(pieces, 0)
	if p.GetExited() == nil {
		d.t.Fatalf("after all its output the process is %v", p)
	}
	return p.GetExited()
}

func (d *detached) control(req *sandboxsupervisorv1.ControlProcessRequest) error {
	req.ProcessId = d.id
	_, err := d.client.ControlProcess(d.t.Context(), req)
	return err
}

func stdin(text string) *sandboxsupervisorv1.ControlProcessRequest {
	return &sandboxsupervisorv1.ControlProcessRequest{
		Control: &sandboxsupervisorv1.ControlProcessRequest_Stdin{Stdin: []byte(text)},
	}
}

func endOfInput() *sandboxsupervisorv1.ControlProcessRequest {
	return &sandboxsupervisorv1.ControlProcessRequest{Control: &sandboxsupervisorv1.ControlProcessRequest_CloseStdin{}}
}

func signalled(name string) *sandboxsupervisorv1.ControlProcessRequest {
	return &sandboxsupervisorv1.ControlProcessRequest{Control: &sandboxsupervisorv1.ControlProcessRequest_Signal{
		Signal: &sandboxsupervisorv1.Signal{Name: name},
	}}
}

// A signal reaches a command of Exec and a detached one from their own session, and from no other.
func TestSignalOfASession(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	d := detach(t, client, shell(t, `echo up; exec sleep 1000`, pipes, merged))
	d.until("up\n")
	other := signalled("SIGTERM")
	other.SessionId = "other"
	if err := d.control(other); !errors.Is(err, fault.ProcessNotFound) {
		t.Errorf("for another session: got %v, want process_not_found", err)
	}
	own := signalled("SIGTERM")
	own.SessionId = "session"
	if err := d.control(own); err != nil {
		t.Fatal(err)
	}
	if exit := d.wait(); exit.GetSignal() != "SIGTERM" {
		t.Errorf("the end is %v, want one by SIGTERM", exit)
	}
}

// A detached process outlives the call that started it, takes input, and can be read by several readers, from any byte,
// while it runs and after its end (T-T20-EXEC-06, T-T20-PROC-03, -05).
func TestDetached(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	d := detach(t, client, shell(t, `echo up; cat; echo err >&2; exit 3`, pipes, merged))
	d.until("up\n")
	if err := d.control(stdin("one\n")); err != nil {
		t.Fatal(err)
	}
	d.until("one\n")
	list, err := client.ListProcesses(t.Context(), &sandboxsupervisorv1.ListProcessesRequest{SessionId: "session"})
	if err != nil || len(list.GetProcesses()) != 1 || !list.GetProcesses()[0].GetDetached() ||
		list.GetProcesses()[0].GetExited() != nil {
		t.Errorf("what runs is %v, %v", list, err)
	}
	if pieces, p := d.attach(3, false, nil); d.text(pieces, 3) != "one\n" || p.GetExited() != nil ||
		p.GetOutputEnd() != 7 ||
		p.GetOutputStart() != 0 {
		t.Errorf("from byte 3 on it wrote %v and is %v", pieces, p)
	}
	if pieces, p := d.attach(1000, false, nil); len(pieces) > 0 || p == nil {
		t.Errorf("from beyond the end on it wrote %v", pieces)
	}
	if err := d.control(endOfInput()); err != nil {
		t.Fatal(err)
	}
	if exit := d.wait(); exit.GetExitCode() != 3 || exit.GetReason() != 0 || d.output != "up\none\nerr\n" {
		t.Errorf("the end is %v after %q", exit, d.output)
	}
	for _, req := range []*sandboxsupervisorv1.ControlProcessRequest{stdin("x"), endOfInput(), signalled("SIGTERM")} {
		if err := d.control(req); !errors.Is(err, fault.ProcessEnded) {
			t.Errorf("after its end %v: %v", req, err)
		}
	}
	for _, ended := range []bool{false, true} {
		list, err = client.ListProcesses(t.Context(), &sandboxsupervisorv1.ListProcessesRequest{Ended: ended})
		if err != nil || (len(list.GetProcesses()) == 1) != ended ||
			ended && list.GetProcesses()[0].GetExited().GetExitCode() != 3 {
			t.Errorf("ended %v: the list is %v, %v", ended, list, err)
		}
	}
	if res, err := client.EndProcess(t.Context(), &sandboxsupervisorv1.EndProcessRequest{ProcessId: d.id}); err != nil ||
		res.GetProcess().GetExited().GetExitCode() != 3 {
		t.Errorf("ending what has ended says %v, %v", res, err)
	}
}

func merged(s *sandboxsupervisorv1.ExecStart) { s.MergeStderr = true }

// With one pipe for both, standard output and standard error keep their order.
func TestMergedKeepsTheOrder(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	command := `for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done`
	want := ""
	for i := 1; i < 10; i++ {
		want += fmt.Sprintf("out%d\nerr%d\n", i, i)
	}
	d := detach(t, client, shell(t, command, pipes, merged))
	if d.wait(); d.output != want {
		t.Errorf("detached it wrote %q", d.output)
	}
	r := begin(t, client, shell(t, command, pipes, merged))
	if r.wait(); r.stdout.String() != want || r.stderr.Len() > 0 {
		t.Errorf("on a stream it wrote %q and %q", r.stdout.String(), r.stderr.String())
	}
}

// A signal reaches the process group, and its effect is reported as by shells (T-T20-PROC-04). A terminal is a real
// one.
func TestDetachedSignalsAndTerminals(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	d := detach(
		t,
		client,
		shell(t, `test -t 0 && test -t 1 && echo terminal; trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done`),
	)
	d.until("up")
	if err := d.control(&sandboxsupervisorv1.ControlProcessRequest{
		Control: &sandboxsupervisorv1.ControlProcessRequest_Resize{
			Resize: &sandboxsupervisorv1.Resize{Terminal: &sandboxsupervisorv1.Terminal{Cols: 100, Rows: 40}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	d.until("40 100")
	if err := d.control(signalled("SIGNONE")); !errors.Is(err, fault.InvalidParams) {
		t.Errorf("a signal nobody knows: %v", err)
	}
	if err := d.control(&sandboxsupervisorv1.ControlProcessRequest{}); !errors.Is(err, fault.BadRequest) {
		t.Errorf("nothing to control: %v", err)
	}
	if err := d.control(signalled("SIGTERM")); err != nil {
		t.Fatal(err)
	}
	if exit := d.wait(); exit.GetExitCode() != 143 || exit.GetSignal() != "SIGTERM" || exit.GetReason() != 0 ||
		!strings.HasPrefix(d.output, "terminal\r\n") {
		t.Errorf("the end is %v after %q", exit, d.output)
	}
}

// Only the end of long output is kept, and the process never waits for a reader.
func TestDetachedOutputIsBounded(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"KEPT_OUTPUT_BYTES": "1000"})
	d := detach(t, client, shell(t, `i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done`, pipes))
	var p *sandboxsupervisorv1.Process
	for p.GetExited() == nil {
		_, p = d.attach(0, true, nil)
	}
	pieces, _ := d.attach(0, false, nil)
	if p.GetOutputEnd()-p.GetOutputStart() != 1000 || pieces[0].GetOffset() != p.GetOutputStart() {
		t.Errorf("kept is %v, the first piece begins at %d", p, pieces[0].GetOffset())
	}
	if got := d.text(pieces, p.GetOutputStart()); len(got) != 1000 || !strings.HasSuffix(got, "line 4998\nline 4999\n") {
		t.Errorf("what is kept is %q", got)
	}
}

// Reading the present output ends, even if the process prints faster than the reader reads.
func TestAttachToEndlessOutput(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	d := detach(t, client, shell(t, "yes", pipes))
	for range 20 {
		pieces, p := d.attach(0, false, nil)
		got := 0
		for _, piece := range pieces {
			got += len(piece.GetData())
		}
		if p == nil || p.GetExited() != nil || got > 256<<10 {
			t.Errorf("read were %d bytes of %v", got, p)
		}
	}
}

// Unread input above the limit is refused completely, and so is input after the end of input.
func TestDetachedInputIsBounded(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"STDIN_BYTES": "100000"})
	d := detach(t, client, shell(t, "echo up; read x; wc -c; exit 0", pipes, merged))
	d.until("up")
	if err := d.control(stdin(strings.Repeat("x", 100001))); !errors.Is(err, fault.InvalidParams) {
		t.Errorf("more than is ever taken: %v", err)
	}
	taken := 0
	for {
		err := d.control(stdin(strings.Repeat("x", 50_000)))
		if errors.Is(err, fault.RateLimited) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if taken += 50_000; taken > 10<<20 {
			t.Fatal("input is taken without end")
		}
		// The shell reads x byte by byte to the end of a line that never comes.
	}
	if err := d.control(endOfInput()); err != nil {
		t.Fatal(err)
	}
	if err := d.control(stdin("y")); !errors.Is(err, fault.InvalidParams) && !errors.Is(err, fault.ProcessEnded) {
		t.Errorf("input after its end: %v", err)
	}
	if _, err := client.EndProcess(t.Context(), &sandboxsupervisorv1.EndProcessRequest{ProcessId: d.id}); err != nil {
		t.Error(err)
	}
}

// A second start of a process is a no-op; another session's id and malformed ids are refused.
func TestDetachedStartsOnce(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"SESSION_PROCESSES": "2"})
	start := shell(t, "echo started; cat", pipes)
	d := detach(t, client, start)
	d.until("started")
	res, err := client.StartProcess(t.Context(), &sandboxsupervisorv1.StartProcessRequest{ProcessId: d.id, Start: start})
	if err != nil || res.GetProcess().GetExecId() != d.id {
		t.Errorf("asked again it says %v, %v", res, err)
	}
	other := shell(t, "true", session("other"))
	for id, want := range map[string]fault.Code{d.id: fault.Conflict, "": fault.InvalidParams, "p1": fault.InvalidParams} {
		if _, err := client.StartProcess(t.Context(), &sandboxsupervisorv1.StartProcessRequest{
			ProcessId: id,
			Start:     other,
		}); !errors.Is(
			err,
			want,
		) {
			t.Errorf("%q: %v, want %s", id, err, want)
		}
	}
	missing := shell(t, "", pipes)
	missing.Argv = []string{"no-such-program"}
	if _, err := client.StartProcess(t.Context(), &sandboxsupervisorv1.StartProcessRequest{
		ProcessId: ident.New(),
		Start:     missing,
	}); !errors.Is(
		err,
		fault.ShellSpawnFailed,
	) {
		t.Errorf("a program that is not there: %v", err)
	}
	if _, err := client.StartProcess(
		t.Context(), &sandboxsupervisorv1.StartProcessRequest{ProcessId: ident.New()},
	); !errors.Is(
		err,
		fault.InvalidParams,
	) {
		t.Errorf("no command: %v", err)
	}
	second := detach(t, client, start)
	if _, err := client.StartProcess(t.Context(), &sandboxsupervisorv1.StartProcessRequest{
		ProcessId: ident.New(),
		Start:     start,
	}); !errors.Is(
		err,
		fault.RateLimited,
	) {
		t.Errorf("one too many: %v", err)
	}
	detach(t, client, other) // another session has its own limit
	if _, err := client.EndProcess(t.Context(), &sandboxsupervisorv1.EndProcessRequest{ProcessId: second.id}); err != nil {
		t.Fatal(err)
	}
	detach(t, client, start)
	for _, id := range []string{ident.New(), "", "p1"} {
		if _, err := client.EndProcess(t.Context(), &sandboxsupervisorv1.EndProcessRequest{ProcessId: id}); !errors.Is(
			err,
			fault.ProcessNotFound,
		) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A detached process ends at its time limit, on request, and with its session; its state has the reason, and all its
// descendants end with it.
func TestDetachedEnds(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, set settings) {
		set["KILL_GRACE"], set["CANCEL_GRACE"] = "100ms", "100ms"
		client := serve(t, set)
		for name, c := range map[string]struct {
			change func(*sandboxsupervisorv1.ExecStart)
			end    func(d *detached)
			reason sandboxsupervisorv1.KillReason
		}{
			"time": {timeout(300), func(*detached) {}, timedOut},
			"told": {timeout(0), func(d *detached) {
				res, err := client.EndProcess(t.Context(), &sandboxsupervisorv1.EndProcessRequest{ProcessId: d.id})
				if err != nil || res.GetProcess().GetExited() == nil {
					t.Errorf("EndProcess says %v, %v", res, err)
				}
			}, cancelled},
			"session": {session("ends"), func(d *detached) {
				res, err := client.EndOwner(t.Context(), &sandboxsupervisorv1.EndOwnerRequest{SessionId: "ends"})
				if err != nil || res.GetKilled() != 1 {
					t.Errorf("EndOwner says %v, %v", res, err)
				}
				if _, p := d.attach(0, false, nil); p.GetExited() == nil {
					t.Errorf("after its session's end the process is %v", p)
				}
			}, ownerEnded},
		} {
			d := detach(t, client, daemonStart(t, stubborn, c.change))
			// A daemon, a child and the main process, which all ignore signals.
			pieces, _ := d.attach(0, true, func(all string) bool { return len(pidsIn(all)) == 3 })
			if got := d.text(pieces, 0); len(pidsIn(got)) != 3 {
				t.Fatalf("%s: it ended after %q", name, got)
			}
			c.end(d)
			if exit := d.wait(); exit.GetReason() != c.reason || exit.GetExitCode() != 137 {
				t.Errorf("%s: the end is %v", name, exit)
			}
			if err := stillThere(pidsIn(d.output)...); err != nil || len(pidsIn(d.output)) != 3 {
				t.Errorf("%s: %v after %q", name, err, d.output)
			}
		}
	})
}

// The last ended processes of each session are remembered.
func TestEndedAreForgotten(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"ENDED_PROCESSES": "3"})
	other := detach(t, client, shell(t, "exit 7", pipes, session("other")))
	other.wait()
	var ids []string
	for i := range 6 {
		d := detach(t, client, shell(t, fmt.Sprint("exit ", i), pipes))
		d.wait()
		ids = append(ids, d.id)
	}
	list, err := client.ListProcesses(
		t.Context(),
		&sandboxsupervisorv1.ListProcessesRequest{SessionId: "session", Ended: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list.GetProcesses() {
		got = append(got, p.GetExecId())
	}
	if !slices.Equal(got, ids[3:]) {
		t.Errorf("remembered are %v of %v", got, ids)
	}
	if exit := other.wait(); exit.GetExitCode() != 7 {
		t.Errorf("the other session's: %v", exit)
	}
}

// A service that stops ends its detached processes and tells their followers.
func TestStopEndsDetached(t *testing.T) {
	t.Parallel()
	client, service := serveHost(t, settings{"CANCEL_GRACE": "50ms"})
	d := detach(t, client, shell(t, stubborn))
	d.until("pid")
	stream, err := client.AttachProcess(
		t.Context(),
		&sandboxsupervisorv1.AttachProcessRequest{ProcessId: d.id, Follow: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		testkit.Stop(t, service)
	}()
	for {
		event, err := stream.Recv()
		if err != nil {
			t.Fatalf("attached: %v", err)
		}
		if p := event.GetProcess(); p != nil {
			if p.GetExited().GetReason() != lost {
				t.Errorf("the end is %v", p)
			}
			break
		}
	}
	<-stopped
	if err := stillThere(pidsIn(d.output)...); err != nil {
		t.Error(err)
	}
}
