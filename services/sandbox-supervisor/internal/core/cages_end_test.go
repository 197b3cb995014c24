package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// At its walltime all commands in a cage are asked once to end, killed after the grace, and end with that reason
// (H-SUP-CAGE).
func TestWalltime(t *testing.T) {
	t.Parallel()
	for _, polite := range []bool{true, false} {
		boxes := &fakeBoxes{polite: polite}
		caged(t, boxes, func(t *testing.T, s *Supervisor) {
			spec := cageSpec()
			h := mustHold(t, s, spec)
			e := mustStart(t, s, spec.ID)
			d, err := s.Detach(t.Context(), ident.New(), command(inCage(spec.ID)))
			if err != nil {
				t.Fatal(err)
			}
			if reason := ended(t, h); reason != contract.ReasonWalltime {
				t.Errorf("the cage ended with %v", reason)
			}
			want, told, at := time.Hour, []string{"terminate", "gone"}, []time.Duration{time.Hour, time.Hour}
			if !polite {
				want = time.Hour + 5*time.Second
				at[1] = want
			}
			if exit := e.Wait(); exit.Reason != contract.ReasonWalltime || exit.Duration != want {
				t.Errorf("polite %v: the command ended with %+v", polite, exit)
			}
			<-d.done
			if exit := d.Info().Exit; exit.Reason != contract.ReasonWalltime {
				t.Errorf("the detached command ended with %+v", exit)
			}
			b := boxes.made[0]
			if !slices.Equal(b.told, told) || !slices.Equal(b.at, at) {
				t.Errorf("polite %v: the box was told %v at %v", polite, b.told, b.at)
			}
			for _, p := range b.processes {
				if slices.Contains(p.told, "terminate") {
					t.Error("a process was asked twice to end")
				}
			}
		})
	}
}

// A caller that stops waiting shortens the grace of a cage that exceeded its walltime.
func TestOwnerEndsAtWalltime(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		spec := cageSpec()
		h := mustHold(t, s, spec)
		e := mustStart(t, s, spec.ID)
		time.Sleep(time.Hour + 2*time.Second)
		if n, err := s.EndOwner(t.Context(), Whose{Session: "s"}); n != 1 || err != nil {
			t.Errorf("EndOwner says %d, %v", n, err)
		}
		if exit := e.Wait(); exit.Reason != contract.ReasonWalltime || exit.Duration != time.Hour+3*time.Second {
			t.Errorf("the command ended with %+v", exit)
		}
		if reason := ended(t, h); reason != contract.ReasonWalltime {
			t.Errorf("the cage ended with %v", reason)
		}
	})
}

// The end of a session ends its cages, whether held, kept by commands or being made, and no others; it returns when
// they have ended.
func TestEndOwnerEndsCages(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		held, kept, other := cageSpec(), cageSpec(), cageSpec(func(c *contract.CageSpec) { c.Owner.SessionID = "other" })
		h, k, o := mustHold(t, s, held), mustHold(t, s, kept), mustHold(t, s, other)
		e := mustStart(t, s, held.ID)
		d, err := s.Detach(t.Context(), ident.New(), command(inCage(kept.ID)))
		if err != nil {
			t.Fatal(err)
		}
		k.Release()
		if n, err := s.EndOwner(t.Context(), Whose{Session: "s"}); n != 2 || err != nil {
			t.Errorf("EndOwner says %d, %v", n, err)
		}
		if len(s.held) != 1 || !boxes.made[0].isGone() || !boxes.made[1].isGone() || boxes.made[2].isGone() {
			t.Errorf("%d cages are left", len(s.held))
		}
		if reason := ended(t, h); reason != contract.ReasonOwnerEnded {
			t.Errorf("the held one ended with %v", reason)
		}
		if exit := e.Wait(); exit.Reason != contract.ReasonOwnerEnded {
			t.Errorf("the command ended with %+v", exit)
		}
		if exit := d.Info().Exit; exit == nil || exit.Reason != contract.ReasonOwnerEnded {
			t.Errorf("the detached command ended with %+v", exit)
		}
		mustStart(t, s, other.ID, func(c *Command) { c.Owner.SessionID = "other" })
		o.Release()
	})
}

// The end of a session reaches a cage that is being made, whether the creation notices or not.
func TestEndOwnerWhileMaking(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		boxes := &fakeBoxes{slow: true, deaf: deaf}
		caged(t, boxes, func(t *testing.T, s *Supervisor) {
			failed := make(chan error, 2)
			go func() {
				_, err := s.Hold(t.Context(), cageSpec())
				failed <- err
			}()
			go func() {
				_, err := s.Start(t.Context(), command(func(c *Command) { c.Cage, c.Root = policy(), "/p" }))
				failed <- err
			}()
			synctest.Wait()
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if _, err := s.EndOwner(t.Context(), Whose{Session: "s"}); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			close(boxes.hold)
			<-gone
			if len(s.held) > 0 {
				t.Errorf("%d cages are left", len(s.held))
			}
			for range 2 {
				if err := <-failed; !errors.Is(err, fault.CageUnavailable) {
					t.Errorf("deaf %v: the caller is told %v", deaf, err)
				}
			}
		})
	}
}

// A holder that leaves during the cage's creation leaves no cage, and a concurrent caller for
// the same cage gets another.
func TestLeaveWhileMaking(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		boxes := &fakeBoxes{slow: true, deaf: deaf}
		caged(t, boxes, func(t *testing.T, s *Supervisor) {
			spec := cageSpec()
			ctx, cancel := context.WithCancel(t.Context())
			left := make(chan error)
			go func() {
				_, err := s.Hold(ctx, spec)
				left <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-left; !errors.Is(err, fault.Cancelled) {
				t.Errorf("who left is told %v", err)
			}
			again := make(chan *Hold)
			go func() { again <- mustHold(t, s, spec) }()
			synctest.Wait()
			close(boxes.hold)
			h := <-again
			mustStart(t, s, spec.ID)
			h.Release()
			<-h.cage.gone
		})
	}
}

// A Box that dies while a command starts in it fails the start; one that dies with running commands ends them for its
// own reason.
func TestBoxDies(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{slowSpawns: true}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		spec := cageSpec()
		h := mustHold(t, s, spec)
		failed := make(chan error)
		go func() {
			_, err := s.Start(t.Context(), command(inCage(spec.ID)))
			failed <- err
		}()
		synctest.Wait()
		boxes.made[0].die(contract.ReasonLost)
		if err := <-failed; !errors.Is(err, fault.CageUnavailable) {
			t.Errorf("the start fails with %v", err)
		}
		if reason := ended(t, h); reason != contract.ReasonLost {
			t.Errorf("the cage ended with %v", reason)
		}
	})
	boxes = &fakeBoxes{}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		spec := cageSpec()
		h := mustHold(t, s, spec)
		e := mustStart(t, s, spec.ID)
		boxes.made[0].die(contract.ReasonDisk)
		if exit := e.Wait(); exit.Reason != contract.ReasonDisk || exit.Signal != "SIGKILL" {
			t.Errorf("the command ended with %+v", exit)
		}
		if reason := ended(t, h); reason != contract.ReasonDisk {
			t.Errorf("the cage ended with %v", reason)
		}
	})
}

// The limit that a command reached is the reason of its end, and its cage lives. A lost command ends its cage.
func TestHit(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		spec := cageSpec()
		h := mustHold(t, s, spec)
		hog, other := mustStart(t, s, spec.ID), mustStart(t, s, spec.ID)
		b := boxes.made[0]
		b.processes[0].exit(End{Signal: syscall.SIGKILL, Hit: contract.ReasonOOM})
		if exit := hog.Wait(); exit.Reason != contract.ReasonOOM || exit.Code != 137 {
			t.Errorf("the hog ended with %+v", exit)
		}
		if b.isGone() {
			t.Error("the cage went with the hog")
		}
		b.processes[1].exit(End{Signal: syscall.SIGKILL, Lost: true})
		if exit := other.Wait(); exit.Reason != contract.ReasonLost {
			t.Errorf("the other ended with %+v", exit)
		}
		if reason := ended(t, h); reason != contract.ReasonLost {
			t.Errorf("the cage ended with %v", reason)
		}
	})
}

// A command with a policy and without a cage gets its own cage, without state, which ends with the command.
func TestCageOfItsOwn(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{}
	own := func(c *Command) { c.Cage, c.Root = policy(), "/p" }
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		e, err := s.Start(t.Context(), command(own))
		if err != nil {
			t.Fatal(err)
		}
		b := boxes.made[0]
		if list := s.ListCages(Whose{Session: "s"}); len(list) != 1 || list[0].ID != b.spec.ID || b.spec.View.Persistent {
			t.Errorf("the cages are %+v", list)
		}
		b.processes[0].exit(End{Code: 1})
		if exit := e.Wait(); exit.Code != 1 || exit.Reason != contract.ReasonNone || !b.isGone() || len(s.held) > 0 {
			t.Errorf("the command ended with %+v", exit)
		}
		if _, err := s.Start(t.Context(), command(own, func(c *Command) { c.Argv = []string{"missing"} })); !errors.Is(
			err,
			fault.ShellSpawnFailed,
		) ||
			len(s.held) > 0 {
			t.Errorf("what cannot start: %v", err)
		}
		if _, err := s.Start(t.Context(), command(own, func(c *Command) { c.Root = "/missing" })); !errors.Is(
			err,
			fault.CagePolicyInvalid,
		) {
			t.Errorf("what cannot be caged: %v", err)
		}
		d, err := s.Detach(t.Context(), ident.New(), command(own))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + 5*time.Second)
		<-d.done
		if exit := d.Info().Exit; exit.Reason != contract.ReasonWalltime || len(s.held) > 0 {
			t.Errorf("the detached command ended with %+v", exit)
		}
	})
}

// Holders receive every network attempt in order, commands the refused ones; attempts that are not received in time are
// counted.
func TestAttempts(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		spec := cageSpec()
		h := mustHold(t, s, spec)
		e := mustStart(t, s, spec.ID)
		b := boxes.made[0]
		var told, refused []string
		show := func(into *[]string) func(contract.Attempt) error {
			return func(a contract.Attempt) error {
				*into = append(*into, fmt.Sprintf("%s %v %d", a.Target, a.Allowed, a.Count))
				return nil
			}
		}
		b.attempt(contract.Attempt{Target: "a:1", Allowed: true})
		b.attempt(contract.Attempt{Target: "b:1"})
		b.attempt(contract.Attempt{Target: "b:1", Count: 3})
		watched := make(chan contract.Reason)
		go func() {
			reason, err := h.Watch(t.Context(), show(&told))
			if err != nil {
				t.Error(err)
			}
			watched <- reason
		}()
		e.Refused(show(&refused))
		synctest.Wait()
		b.attempt(contract.Attempt{Target: "b:1"})
		b.processes[0].exit(End{})
		e.Wait()
		for i := range 1000 {
			b.attempt(contract.Attempt{Target: fmt.Sprint(i)}) // attempt must not block without readers
		}
		synctest.Wait()
		b.die(contract.ReasonLost)
		if reason := <-watched; reason != contract.ReasonLost {
			t.Errorf("the cage ended with %v", reason)
		}
		if want := []string{"b:1 false 4", "b:1 false 1"}; !slices.Equal(refused, want) {
			t.Errorf("the command was told %q", refused)
		}
		if want := []string{"a:1 true 1", "b:1 false 4", "b:1 false 1"}; len(told) < 3 || !slices.Equal(told[:3], want) {
			t.Errorf("the holder was told %q", told)
		}
	})
}

// A feed keeps a bounded number of kinds of attempts and the exact count of all.
func TestFeedIsBounded(t *testing.T) {
	t.Parallel()
	f := newFeed()
	for range 3 {
		for i := range 2 * maxKinds {
			f.put(contract.Attempt{Target: fmt.Sprint(i), Allowed: i%2 == 0})
		}
	}
	total := 0
	waiting := f.take()
	for _, a := range waiting {
		total += int(a.Count)
	}
	if len(waiting) != maxKinds+2 || total != 6*maxKinds || waiting[maxKinds].Target != others {
		t.Errorf("%d kinds of %d attempts are kept", len(waiting), total)
	}
	refused := errors.New("no")
	f.put(contract.Attempt{})
	if err := f.drain(t.Context(), nil, func(contract.Attempt) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a failing reader: %v", err)
	}
}

// A stopping supervisor ends its cages and makes no others.
func TestDrainEndsCages(t *testing.T) {
	t.Parallel()
	boxes := &fakeBoxes{}
	caged(t, boxes, func(t *testing.T, s *Supervisor) {
		spec := cageSpec()
		h := mustHold(t, s, spec)
		e := mustStart(t, s, spec.ID)
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if exit := e.Wait(); exit.Reason != contract.ReasonLost {
			t.Errorf("the command ended with %+v", exit)
		}
		if reason := ended(t, h); reason != contract.ReasonLost {
			t.Errorf("the cage ended with %v", reason)
		}
		if _, err := s.Hold(t.Context(), cageSpec()); !errors.Is(err, fault.Unavailable) {
			t.Errorf("a hold after the end: %v", err)
		}
	})
}
