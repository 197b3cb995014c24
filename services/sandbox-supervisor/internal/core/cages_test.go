package core

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// fakeBox is a Box whose processes end on the test's command, or with it.
type fakeBox struct {
	spec    BoxSpec
	attempt func(contract.Attempt)
	polite  bool
	from    time.Time
	gone    chan struct{}

	mu        sync.Mutex // guards the fields below
	over      bool
	why       contract.Reason
	told      []string
	at        []time.Duration
	processes []*fake
	hold      chan struct{} // Spawn waits until this is closed
}

func (b *fakeBox) note(what string) {
	b.told, b.at = append(b.told, what), append(b.at, time.Since(b.from))
}

func (b *fakeBox) Spawn(ctx context.Context, spec Spec) (Process, error) {
	if b.hold != nil {
		select {
		case <-b.hold:
		case <-b.gone:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil, fault.New(fault.CageUnavailable, "The cage is gone.")
	}
	if spec.Argv[0] == "missing" {
		return nil, BadProgram("missing", "no")
	}
	p := newFake(b.polite)
	b.processes = append(b.processes, p)
	return p, nil
}

func (b *fakeBox) Connect(_ context.Context, port int) (io.ReadWriteCloser, error) {
	near, far := net.Pipe()
	far.Close()
	return near, nil
}

func (b *fakeBox) Tier() string          { return "fake" }
func (b *fakeBox) BestEffort() []string  { return []string{"limits.memory is watched."} }
func (b *fakeBox) Gone() <-chan struct{} { return b.gone }
func (b *fakeBox) Usage() (Usage, int)   { return Usage{Memory: 5, CPU: time.Second}, 2 }

func (b *fakeBox) Why() contract.Reason {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

func (b *fakeBox) Terminate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note("terminate")
	for _, p := range b.processes {
		if b.polite {
			p.exit(End{Signal: syscall.SIGTERM})
		}
	}
}

func (b *fakeBox) Close() { b.die(contract.ReasonNone) }

// die ends the Box as the end of its init would.
func (b *fakeBox) die(why contract.Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	b.note("gone")
	b.over, b.why = true, why
	for _, p := range b.processes {
		p.exit(End{Signal: syscall.SIGKILL, Lost: true})
	}
	close(b.gone)
}

func (b *fakeBox) isGone() bool {
	select {
	case <-b.gone:
		return true
	default:
		return false
	}
}

// fakeBoxes makes Boxes, if hold is set once it is closed.
type fakeBoxes struct {
	polite, slow, slowSpawns bool
	deaf                     bool // does not notice that its caller has left
	err                      error
	hold                     chan struct{}

	mu   sync.Mutex // guards made
	made []*fakeBox
}

func (f *fakeBoxes) Open(ctx context.Context, spec BoxSpec, attempt func(contract.Attempt)) (Box, error) {
	if spec.Checked != nil {
		spec.Checked()
	}
	if f.slow {
		done := ctx.Done()
		if f.deaf {
			done = nil
		}
		select {
		case <-f.hold:
		case <-done:
			return nil, ctx.Err()
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	b := &fakeBox{spec: spec, attempt: attempt, polite: f.polite, from: time.Now(), gone: make(chan struct{})}
	if f.slowSpawns {
		b.hold = make(chan struct{})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = append(f.made, b)
	return b, nil
}

func (f *fakeBoxes) Probe(context.Context) Report { return Report{Tier: "fake"} }

func (f *fakeBoxes) cages() Cages {
	return Cages{Boxes: f, Compile: func(policy *dsl.Cage, root string) (*cage.View, error) {
		if root == "/missing" {
			return nil, fault.New(fault.CagePolicyInvalid, "There is no %s.", root)
		}
		return &cage.View{Root: root, Limits: policy.Limits, Persistent: policy.State == "persistent"}, nil
	}}
}

// policy is a sample policy, modified by change.
func policy(change ...func(*dsl.Cage)) *dsl.Cage {
	p := &dsl.Cage{
		FS:     []dsl.Mount{{Mode: "rw", Path: "project:/"}},
		State:  "persistent",
		Limits: dsl.Limits{Walltime: time.Hour},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func cageSpec(change ...func(*contract.CageSpec)) contract.CageSpec {
	c := contract.CageSpec{
		ID:     ident.New(),
		Owner:  contract.Owner{SessionID: "s", Agent: "primary"},
		Policy: policy(),
		Root:   "/p",
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// caged runs a test on a supervisor with fake Boxes, in synthetic time.
func caged(t *testing.T, boxes *fakeBoxes, test func(t *testing.T, s *Supervisor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		boxes.hold = make(chan struct{})
		s := New(&spawner{err: BadProgram("x", "uncaged")}, boxes.cages(), limits)
		test(t, s)
		s.Close()
		if len(s.held) > 0 || len(s.execs) > 0 {
			t.Errorf("%d cages and %d commands are left", len(s.held), len(s.execs))
		}
		for _, b := range boxes.made {
			if !b.isGone() {
				t.Errorf("the box %s was left", b.spec.ID)
			}
		}
	})
}

func mustHold(t *testing.T, s *Supervisor, spec contract.CageSpec) *Hold {
	t.Helper()
	h, err := s.Hold(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func inCage(id string) func(*Command) { return func(c *Command) { c.CageID = id } }

func mustStart(t *testing.T, s *Supervisor, id string, change ...func(*Command)) *Exec {
	t.Helper()
	e, err := s.Start(t.Context(), command(append(change, inCage(id))...))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ended returns the reason of the end of a hold's cage.
func ended(t *testing.T, h *Hold) contract.Reason {
	t.Helper()
	reason, err := h.Watch(t.Context(), func(contract.Attempt) error { return nil })
	if err != nil {
		t.Error(err)
	}
	return reason
}

// A holder that asks for it is told when a cage is checked, before the cage exists. For an invalid policy it gets only
// the refusal, and for a failure after the check both.
func TestHoldChecked(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{slow: true, hold: make(chan struct{})}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		told := 0
		bad := cageSpec()
		bad.Root = "/missing"
		if _, err := s.HoldChecked(t.Context(), bad, func() error { told++; return nil }); told != 0 ||
			fault.CodeOf(err) != fault.CagePolicyInvalid {
			t.Errorf("told %d times, %v", told, err)
		}
		spec := cageSpec()
		h, err := s.HoldChecked(t.Context(), spec, func() error {
			told++
			close(boxes.hold) // only now the cage is made
			return nil
		})
		if err != nil || told != 1 || h.Info().ID != spec.ID {
			t.Fatalf("told %d times, %v", told, err)
		}
		h.Release()
		boxes.err = fault.New(fault.CageUnavailable, "no")
		late := cageSpec()
		late.ID = ident.New()
		if _, err := s.HoldChecked(t.Context(), late, func() error { told++; return nil }); fault.CodeOf(err) !=
			fault.CageUnavailable {
			t.Errorf("told %d times, %v", told, err)
		}
		gone := cageSpec()
		gone.ID = ident.New()
		boxes.err = nil
		if _, err := s.HoldChecked(t.Context(), gone, func() error { return errors.New("gone") }); err == nil && told == 2 {
			t.Error("a holder that is gone holds the cage")
		}
	})
}

// A cage runs commands until its holder releases it; commands still running then are cancelled,
// and killed after the grace.
func TestHold(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		spec := cageSpec()
		h := mustHold(t, s, spec)
		if info := h.Info(); info.ID != spec.ID || info.Owner != spec.Owner || info.Owner.Agent != "primary" ||
			info.Tier != "fake" ||
			len(info.BestEffort) != 1 {
			t.Errorf("the cage is %+v", info)
		}
		done, running := mustStart(
			t,
			s,
			spec.ID,
		), mustStart(
			t,
			s,
			spec.ID,
			func(c *Command) { c.Cage, c.Root = policy(), "/p" },
		)
		boxes.made[0].processes[0].exit(End{Code: 4})
		if exit := done.Wait(); exit.Code != 4 || exit.Reason != contract.ReasonNone {
			t.Errorf("the first ended with %+v", exit)
		}
		if list := s.List(Whose{}, false); len(list) != 1 || list[0].CageID != spec.ID {
			t.Errorf("what runs is %+v", list)
		}
		if list := s.ListCages(Whose{Session: "s"}); len(list) != 1 || list[0].Processes != 2 || list[0].Use.Memory != 5 ||
			list[0].StartedAt == 0 {
			t.Errorf("the cages are %+v", list)
		}
		if list := s.ListCages(Whose{Session: "other"}); len(list) != 0 {
			t.Errorf("another session's cages are %+v", list)
		}
		h.Release()
		h.Release()
		if exit := running.Wait(); exit.Reason != contract.ReasonCancelled || exit.Duration != time.Second {
			t.Errorf("the second ended with %+v", exit)
		}
		synctest.Wait()
		if _, err := s.Start(t.Context(), command(inCage(spec.ID))); !errors.Is(err, fault.CageUnavailable) {
			t.Errorf("a start in a cage that has ended: %v", err)
		}
	})
}

// An invalid spec is refused with the reason, and no cage remains.
func TestHoldRefused(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		known := cageSpec()
		mustHold(t, s, known)
		for name, c := range map[string]struct {
			spec contract.CageSpec
			want error
		}{
			"no id":          {cageSpec(func(c *contract.CageSpec) { c.ID = "1" }), fault.InvalidParams},
			"no owner":       {cageSpec(func(c *contract.CageSpec) { c.Owner = contract.Owner{} }), fault.InvalidParams},
			"no policy":      {cageSpec(func(c *contract.CageSpec) { c.Policy = nil }), fault.InvalidParams},
			"a bad agent":    {cageSpec(func(c *contract.CageSpec) { c.Owner.Agent = "a\x00" }), fault.InvalidParams},
			"a missing path": {cageSpec(func(c *contract.CageSpec) { c.Root = "/missing" }), fault.CagePolicyInvalid},
			"another owner": {
				cageSpec(func(c *contract.CageSpec) { c.ID, c.Owner.SessionID = known.ID, "other" }), fault.Conflict,
			},
			"another policy": {cageSpec(func(c *contract.CageSpec) {
				c.ID, c.Policy = known.ID, policy(func(p *dsl.Cage) { p.Net = []string{"a:1"} })
			}), fault.Conflict},
			"another agent": {cageSpec(func(c *contract.CageSpec) { c.ID, c.Owner.Agent = known.ID, "other" }), fault.Conflict},
		} {
			if _, err := s.Hold(t.Context(), c.spec); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, c := range map[string]struct {
			change func(*Command)
			want   error
		}{
			"another session's": {func(c *Command) { c.Owner.SessionID = "other" }, fault.Conflict},
			"another policy":    {func(c *Command) { c.Cage, c.Root = policy(), "/other" }, fault.Conflict},
			"no program":        {func(c *Command) { c.Argv = []string{"missing"} }, fault.ShellSpawnFailed},
		} {
			if _, err := s.Start(t.Context(), command(inCage(known.ID), c.change)); !errors.Is(err, c.want) {
				t.Errorf("a command, %s: %v", name, err)
			}
		}
		mustHold(t, s, cageSpec())
		mustHold(t, s, cageSpec())
		if _, err := s.Hold(t.Context(), cageSpec()); !errors.Is(err, fault.RateLimited) {
			t.Errorf("one more than there may be: %v", err)
		}
	})
	boxes = &fakeBoxes{err: fault.New(fault.CageUnavailable, "No user namespaces.")}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		for range 2 * limits.MaxCages {
			if _, err := s.Hold(t.Context(), cageSpec()); !errors.Is(err, fault.CageUnavailable) {
				t.Errorf("where no box can be made: %v", err)
			}
		}
	})
}

// Without Boxes a cage is refused, and so is a command with one; with --no-sandbox the command runs without a cage.
func TestNoCages(t *testing.T) {
	t.Parallel()
	s := New(&spawner{}, Cages{}, limits)
	if _, err := s.Hold(t.Context(), cageSpec()); !errors.Is(err, fault.CageUnavailable) {
		t.Errorf("a hold: %v", err)
	}
	for name, c := range map[string]Command{
		"a cage of its own": command(func(c *Command) { c.Cage = policy() }),
		"a held one":        command(inCage(ident.New())),
	} {
		if _, err := s.Start(t.Context(), c); !errors.Is(err, fault.CageUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := s.ProbeCages(t.Context()); r.Tier != "" || r.Unavailable == "" {
		t.Errorf("the probe says %+v", r)
	}
	s.Close()
	p := newFake(false)
	l := limits
	l.NoSandbox = true
	s = New(&spawner{processes: []*fake{p}}, (&fakeBoxes{}).cages(), l)
	if _, err := s.Hold(t.Context(), cageSpec()); !errors.Is(err, fault.CageUnavailable) {
		t.Errorf("a hold without sandbox: %v", err)
	}
	e, err := s.Start(t.Context(), command(func(c *Command) { c.Cage = policy() }))
	if err != nil {
		t.Fatal(err)
	}
	p.exit(End{})
	if exit := e.Wait(); exit.Reason != contract.ReasonNone {
		t.Errorf("a command without sandbox: %+v", exit)
	}
	s.Close()
}

// A cage requested twice is made once, ends when both holders have released it, and both get the reason.
func TestHoldTwice(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{slow: true}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		spec := cageSpec()
		holds := make(chan *Hold, 2)
		for range 2 {
			go func() {
				h, err := s.Hold(t.Context(), spec)
				if err != nil {
					t.Error(err)
				}
				holds <- h
			}()
		}
		synctest.Wait()
		if list := s.ListCages(Whose{}); len(list) > 0 {
			t.Errorf("a cage that is being made is listed: %+v", list)
		}
		close(boxes.hold)
		first, second := <-holds, <-holds
		first.Release()
		e := mustStart(t, s, spec.ID)
		synctest.Wait()
		if len(boxes.made) != 1 || boxes.made[0].isGone() {
			t.Errorf("%d boxes were made", len(boxes.made))
		}
		boxes.made[0].die(contract.ReasonLost)
		if reason := ended(t, second); reason != contract.ReasonLost {
			t.Errorf("the cage ended with %v", reason)
		}
		if exit := e.Wait(); exit.Reason != contract.ReasonLost {
			t.Errorf("the command ended with %+v", exit)
		}
		second.Release()
	})
}

// A detached command keeps its cage without a holder; the next invocation of the same agent joins it and gets the full
// walltime.
func TestDetachedKeepsCage(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{polite: true}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		spec := cageSpec()
		h := mustHold(t, s, spec)
		d, err := s.Detach(t.Context(), ident.New(), command(inCage(spec.ID)))
		if err != nil {
			t.Fatal(err)
		}
		plain := mustStart(t, s, spec.ID)
		if info := d.Info(); info.CageID != spec.ID {
			t.Errorf("the detached command is %+v", info)
		}
		time.Sleep(50 * time.Minute)
		if other := mustHold(t, s, cageSpec()); other.cage == h.cage {
			t.Error("a cage that is held was joined")
		} else {
			other.Release()
		}
		h.Release()
		synctest.Wait()
		if boxes.made[0].isGone() {
			t.Fatal("the cage went with its holder")
		}
		for name, change := range map[string]func(*contract.CageSpec){
			"another session": func(c *contract.CageSpec) { c.Owner.SessionID = "other" },
			"another agent":   func(c *contract.CageSpec) { c.Owner.Agent = "other" },
			"another project": func(c *contract.CageSpec) { c.Root = "/other" },
		} {
			if other := mustHold(t, s, cageSpec(change)); other.cage == h.cage {
				t.Errorf("%s joined the cage", name)
			} else {
				other.Release()
				<-other.cage.gone
			}
		}
		next := mustHold(t, s, cageSpec())
		if next.cage != h.cage || next.Info().ID != spec.ID {
			t.Fatal("the next invocation did not join")
		}
		time.Sleep(50 * time.Minute) // more than an hour since the start
		mustStart(t, s, spec.ID)
		next.Release()
		if err := d.End(t.Context()); err != nil {
			t.Error(err)
		}
		<-h.cage.gone
		if exit := plain.Wait(); exit.Reason != contract.ReasonCancelled {
			t.Errorf("the plain command ended with %+v", exit)
		}
		if exit := d.Info().Exit; exit == nil || exit.Reason != contract.ReasonCancelled {
			t.Errorf("the detached command ended with %+v", exit)
		}
	})
}
