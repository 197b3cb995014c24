package core

import (
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a process that ends on the test's command; polite ones end when they are asked to.
type fake struct {
	polite bool
	end    End
	exited chan struct{}
	once   sync.Once // only the first end counts

	mu   sync.Mutex // guards the fields below
	told []string
	at   []time.Duration // time since the start of each entry of told
	from time.Time
	in   strings.Builder
	stop chan struct{} // blocks Write until closed; nil for no block
}

func newFake(polite bool) *fake {
	return &fake{polite: polite, exited: make(chan struct{}), from: time.Now(), end: End{Signal: syscall.SIGKILL}}
}

func (f *fake) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told, f.at = append(f.told, what), append(f.at, time.Since(f.from))
}

func (f *fake) exit(end End) {
	f.once.Do(func() {
		f.end = end
		close(f.exited)
	})
}

func (f *fake) PID() int                { return 7 }
func (f *fake) Exited() <-chan struct{} { return f.exited }
func (f *fake) End() End                { return f.end }
func (f *fake) Usage() Usage            { return Usage{Memory: 1} }
func (f *fake) Signal(s syscall.Signal) { f.note(s.String()) }
func (f *fake) Resize(Size) bool        { return true }
func (f *fake) Hidden() bool            { return false }
func (f *fake) CloseInput()             { f.note("eof") }
func (f *fake) Share() string           { return "" }
func (f *fake) Unshare()                {}
func (f *fake) Close()                  { f.note("close") }

func (f *fake) Copy(sink func(Stream, []byte)) {
	sink(Stdout, []byte("a"))
	sink(Stdout, []byte("b"))
	<-f.exited
}

func (f *fake) Write(data []byte) error {
	if f.stop != nil {
		<-f.stop
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.in.Write(data)
	return nil
}

func (f *fake) Terminate() {
	f.note("terminate")
	if f.polite {
		f.exit(End{Signal: syscall.SIGTERM})
	}
}

func (f *fake) Kill() {
	f.note("kill")
	f.exit(End{Signal: syscall.SIGKILL})
}

// spawner starts the next of its processes, if hold is set once it is closed.
type spawner struct {
	processes []*fake
	err       error
	hold      chan struct{}
}

func (s *spawner) Spawn(context.Context, Spec) (Process, error) {
	if s.hold != nil {
		<-s.hold
	}
	if s.err != nil {
		return nil, s.err
	}
	p := s.processes[0]
	s.processes = s.processes[1:]
	return p, nil
}

func (s *spawner) Connect(context.Context, int) (io.ReadWriteCloser, error) {
	return nil, BadPort(1, "nothing listens")
}

var limits = Limits{
	KillGrace: 5 * time.Second, CancelGrace: time.Second, MaxCommands: 10, MaxCages: 3, MaxBytes: 1 << 20,
	MaxStrings: 1000, InputBytes: 10,
	KeptOutput: 10, MaxDetached: 5, EndedPerOwner: 100, EndedBytes: 3*endedCost + 100, EndedFor: time.Hour,
}

func command(change ...func(*Command)) Command {
	c := Command{Owner: contract.Owner{SessionID: "s"}, Argv: []string{"true"}, Dir: "/"}
	for _, f := range change {
		f(&c)
	}
	return c
}

func start(t *testing.T, ctx context.Context, p *fake, change ...func(*Command)) (*Supervisor, *Exec) {
	t.Helper()
	s := New(&spawner{processes: []*fake{p}}, Cages{}, limits)
	e, err := s.Start(ctx, command(change...))
	if err != nil {
		t.Fatal(err)
	}
	return s, e
}

func expect(t *testing.T, p *fake, told []string, at ...time.Duration) {
	t.Helper()
	if !slices.Equal(p.told, told) || !slices.Equal(p.at, at) {
		t.Errorf("the process was told %v at %v, want %v at %v", p.told, p.at, told, at)
	}
}

// A command that ends by itself gets no signal.
func TestEndsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(false)
		s, e := start(t, t.Context(), p)
		time.Sleep(time.Hour)
		p.exit(End{Code: 3})
		if exit := e.Wait(); !reflect.DeepEqual(exit, contract.Exit{Code: 3, Duration: time.Hour}) {
			t.Errorf("the end is %+v", exit)
		}
		s.Close()
		expect(t, p, nil)
	})
}

// After its time limit a command is asked to end, and killed after the grace (T-SHELL-07).
func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(false)
		s, e := start(t, t.Context(), p, func(c *Command) { c.Timeout = time.Minute })
		want := contract.Exit{Code: 137, Signal: "SIGKILL", Reason: contract.ReasonTimeout, Duration: 65 * time.Second}
		if exit := e.Wait(); !reflect.DeepEqual(exit, want) {
			t.Errorf("the end is %+v", exit)
		}
		s.Close()
		expect(t, p, []string{"terminate", "kill"}, 60*time.Second, 65*time.Second)
	})
}

// A command that ends when it is asked is not killed.
func TestPoliteTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(true)
		s, e := start(t, t.Context(), p, func(c *Command) { c.Timeout = time.Minute })
		want := contract.Exit{Code: 143, Signal: "SIGTERM", Reason: contract.ReasonTimeout, Duration: time.Minute}
		if exit := e.Wait(); !reflect.DeepEqual(exit, want) {
			t.Errorf("the end is %+v", exit)
		}
		s.Close()
		expect(t, p, []string{"terminate"}, time.Minute)
	})
}

// A cancelled command has the shorter grace, even past its timeout.
func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newFake(false)
		s, e := start(t, ctx, p)
		time.Sleep(time.Minute)
		cancel()
		if exit := e.Wait(); exit.Reason != contract.ReasonCancelled || exit.Duration != 61*time.Second {
			t.Errorf("the end is %+v", exit)
		}
		s.Close()
		expect(t, p, []string{"terminate", "kill"}, 60*time.Second, 61*time.Second)

		ctx, cancel = context.WithCancel(t.Context())
		p = newFake(false)
		s, e = start(t, ctx, p, func(c *Command) { c.Timeout = time.Minute })
		time.Sleep(62 * time.Second)
		cancel()
		if exit := e.Wait(); exit.Reason != contract.ReasonTimeout || exit.Duration != 63*time.Second {
			t.Errorf("the end is %+v", exit)
		}
		s.Close()
	})
}

// A lost command is reported as lost, even if it was being ended for another reason.
func TestLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(false)
		s, e := start(t, t.Context(), p, func(c *Command) { c.Timeout = time.Minute })
		time.Sleep(61 * time.Second)
		p.exit(End{Signal: syscall.SIGKILL, Lost: true})
		if exit := e.Wait(); exit.Reason != contract.ReasonLost || exit.Code != 137 {
			t.Errorf("the end is %+v", exit)
		}
		s.Close()
	})
}

// The end of an owner reaches a command that is still starting, and EndOwner waits for it; a caller that does not wait
// gets the number of commands.
func TestEndOwnerWhileStarting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(false)
		sp := &spawner{processes: []*fake{p}, hold: make(chan struct{})}
		s := New(sp, Cages{}, limits)
		started := make(chan *Exec)
		go func() {
			e, err := s.Start(t.Context(), command())
			if err != nil {
				t.Error(err)
			}
			started <- e
		}()
		synctest.Wait()
		if list := s.List(Whose{}, true); len(list) > 0 {
			t.Errorf("a command that has not started is listed: %v", list)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n, err := s.EndOwner(ctx, Whose{Session: "s"}); n != 1 || !errors.Is(err, fault.DeadlineExceeded) {
			t.Errorf("EndOwner says %d, %v", n, err)
		}
		close(sp.hold)
		e := <-started
		if n, err := s.EndOwner(t.Context(), Whose{Session: "s"}); n != 1 || err != nil {
			t.Errorf("EndOwner says %d, %v", n, err)
		}
		if exit := e.Wait(); exit.Reason != contract.ReasonOwnerEnded {
			t.Errorf("the end is %+v", exit)
		}
		s.Close()
	})
}

// A failed start leaves no command, and a closed supervisor starts none.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	s := New(&spawner{err: BadProgram("x", "no")}, Cages{}, limits)
	if _, err := s.Start(t.Context(), command()); !errors.Is(err, fault.ShellSpawnFailed) {
		t.Errorf("Start says %v", err)
	}
	s.Close()
	if _, err := s.Start(t.Context(), command()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("Start after Close says %v", err)
	}
}

// A failed sink is not called again, and the command's output is still read to its end.
func TestFailingSink(t *testing.T) {
	t.Parallel()
	p := newFake(false)
	s, e := start(t, t.Context(), p)
	calls := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Copy(func(Stream, []byte) error { calls++; return errors.New("gone") })
	}()
	p.exit(End{})
	<-done
	if calls != 1 {
		t.Errorf("the sink was called %d times", calls)
	}
	s.Close()
}

// Input is buffered up to its limit, arrives in order, and never blocks writers to an ended command.
func TestInput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(false)
		p.stop = make(chan struct{})
		s, e := start(t, t.Context(), p)
		written := make(chan struct{})
		go func() {
			defer close(written)
			e.Write([]byte("0123456789"))
			e.Write([]byte("abcdefghij")) // the feeder holds the first ten bytes
			e.Write([]byte("more"))
			e.CloseInput()
			e.Write([]byte("dropped"))
		}()
		synctest.Wait()
		select {
		case <-written:
			t.Error("more input was taken than is kept")
		default:
		}
		close(p.stop)
		<-written
		synctest.Wait()
		if got := p.in.String(); got != "0123456789abcdefghijmore" || !slices.Equal(p.told, []string{"eof"}) {
			t.Errorf("input is %q, then %v", got, p.told)
		}
		p.exit(End{})
		s.Close()
		e.Write([]byte("too late"))

		p = newFake(false)
		p.stop = make(chan struct{})
		s, e = start(t, t.Context(), p)
		written = make(chan struct{})
		go func() {
			defer close(written)
			e.Write(make([]byte, 100))
		}()
		synctest.Wait()
		p.exit(End{})
		<-written
		close(p.stop)
		s.Close()
	})
}

// Only known signals have names.
func TestSignalNames(t *testing.T) {
	t.Parallel()
	p := newFake(false)
	s, e := start(t, t.Context(), p)
	for name, sig := range signals {
		if err := e.Signal(name); err != nil || signalName(sig) != name {
			t.Errorf("%s: %v, back %s", name, err, signalName(sig))
		}
	}
	for _, name := range []string{"", "INT", "sigint", "SIGINT ", "2", "SIG2", "SIGNOTHING"} {
		if err := e.Signal(name); !errors.Is(err, fault.InvalidParams) {
			t.Errorf("%q: %v", name, err)
		}
	}
	p.exit(End{})
	s.Close()
}

// Any command is either refused as invalid_params or passed on unchanged, within the limits.
func TestCheckProperties(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"", "/", "a\x00b", "A=B", "\xff", strings.Repeat("x", maxString+1)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		c := Command{
			Owner: contract.Owner{SessionID: text.Draw(t, "session")}, Argv: rapid.SliceOfN(text, 0, 5).Draw(t, "argv"),
			Dir: "/" + text.Draw(t, "dir"), Env: rapid.MapOfN(text, text, 0, 5).Draw(t, "env"),
			Timeout: time.Duration(rapid.Int64().Draw(t, "timeout")),
		}
		if rapid.Bool().Draw(t, "terminal") {
			c.Terminal = &Size{Cols: rapid.Uint32().Draw(t, "cols"), Rows: rapid.Uint32Max(70000).Draw(t, "rows")}
		}
		l := limits
		l.MaxBytes, l.MaxStrings = 300_000, 8
		spec, err := c.check(l)
		if err != nil {
			if !errors.Is(err, fault.InvalidParams) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		total := 0
		for _, s := range append(slices.Clone(spec.Argv), spec.Env...) {
			if strings.Contains(s, "\x00") || len(s) > maxString {
				t.Fatalf("%q was let through", s)
			}
			total += len(s) + 1
		}
		env := make([]string, 0, len(c.Env))
		for _, key := range slices.Sorted(maps.Keys(c.Env)) {
			env = append(env, key+"="+c.Env[key])
		}
		if !slices.Equal(spec.Argv, c.Argv) || !slices.Equal(spec.Env, env) ||
			spec.Dir != c.Dir ||
			total > l.MaxBytes ||
			len(spec.Argv)+len(spec.Env) > l.MaxStrings {
			t.Fatalf("%+v became %+v", c, spec)
		}
		if spec.Terminal != nil && (spec.Terminal.Cols == 0 || spec.Terminal.Rows == 0 || spec.Terminal.Cols > 65535) {
			t.Fatalf("the terminal is %+v", spec.Terminal)
		}
	})
}

// A command line is shown as one line of limited length, for any arguments.
func TestLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		argv := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.Just(strings.Repeat("é", 1000)))).Draw(t, "argv")
		if got := []rune(line(argv)); len(got) > maxShown {
			t.Fatalf("%d characters are shown", len(got))
		}
	})
	if got := line([]string{"sh", "-c", "a b"}); got != "sh -c a b" {
		t.Errorf("shown is %q", got)
	}
}
