package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Only the holder of the lease can change a session, and a refused change stores nothing.
func TestFence(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	old := take(t, s, n.ID, "old", 0).Fence
	fresh := take(t, s, n.ID, "new", 60_000)
	if fresh.Epoch != old.Epoch+1 || fresh.Before != "old" {
		t.Errorf("taken = %+v after %+v", fresh, old)
	}
	change := record.Change{At: 1, Session: record.Patch{Label: is("mine")}}
	for name, f := range map[string]lease.Fence{
		"replaced": old, "another epoch": {Session: n.ID, Holder: "new", Epoch: old.Epoch}, "no holder": {Session: n.ID},
	} {
		if err := s.Apply(t.Context(), f, change, false); !errors.Is(err, fault.StaleLease) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Apply(t.Context(), f, change, true); !errors.Is(err, fault.StaleLease) {
			t.Errorf("%s again: %v", name, err)
		}
		if err := s.Held(t.Context(), f); !errors.Is(err, fault.StaleLease) {
			t.Errorf("%s holds: %v", name, err)
		}
	}
	if err := s.Held(t.Context(), fresh.Fence); err != nil {
		t.Error(err)
	}
	got, _ := s.Session(t.Context(), "ada", n.ID)
	if got.Label != "" {
		t.Errorf("label = %q", got.Label)
	}
	if err := s.Apply(t.Context(), fresh.Fence, change, false); err != nil {
		t.Error(err)
	}
	if got, _ := s.Session(t.Context(), "ada", n.ID); got.Label != "mine" {
		t.Errorf("label = %q", got.Label)
	}
}

// One process at a time holds a lease, keeps it by renewing it, and loses it by a release of the lease or of its
// node. The epoch never decreases.
func TestLeases(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	first := take(t, s, n.ID, "a", 60_000)
	if first.Epoch != 1 || first.Before != "" || !first.First() {
		t.Errorf("taken = %+v", first)
	}
	_, err := s.Take(t.Context(), n.ID, lease.Holder{Instance: "b", Node: "y", Address: "at b"}, 60_000)
	if !errors.Is(err, fault.StaleLease) || fault.From(err).Details["holder"] != "at a" {
		t.Errorf("taken twice: %v", err)
	}
	if again := take(t, s, n.ID, "a", 60_000); again.Epoch != 2 || again.Before != "a" || again.First() {
		t.Errorf("taken again = %+v", again)
	}
	held, err := s.Renew(t.Context(), "a", []string{n.ID, "other"}, 60_000)
	if d := cmp.Diff([]string{n.ID}, held); d != "" || err != nil {
		t.Error(d, err)
	}
	if err := s.Release(t.Context(), []lease.Fence{first.Fence}); err != nil {
		t.Error(err)
	}
	if _, err := s.Take(t.Context(), n.ID, lease.Holder{Instance: "b"}, 60_000); !errors.Is(err, fault.StaleLease) {
		t.Errorf("an old fence released it: %v", err)
	}
	if err := s.Release(t.Context(), []lease.Fence{{Session: n.ID, Holder: "a", Epoch: 2}}); err != nil {
		t.Error(err)
	}
	if third := take(t, s, n.ID, "b", 60_000); third.Epoch != 3 || third.Before != "" {
		t.Errorf("taken after a release = %+v", third)
	}
	if got, err := s.ReleaseNode(t.Context(), "node of b", "b"); got != 0 || err != nil {
		t.Errorf("its own leases went: %d, %v", got, err)
	}
	if got, err := s.ReleaseNode(t.Context(), "node of b", "c"); got != 1 || err != nil {
		t.Errorf("released %d, %v", got, err)
	}
	if held, _ := s.Renew(t.Context(), "b", []string{n.ID}, 60_000); len(held) != 0 {
		t.Error("a dead instance renewed its lease")
	}
	if fourth := take(t, s, n.ID, "c", 60_000); fourth.Epoch != 4 || fourth.Before == "" {
		t.Errorf("taken from the dead = %+v", fourth)
	}
}

// Leases are renewed during a change of one of the sessions, so that a long change loses no lease; and a lease that
// expires during a change is not taken before the change ends.
func TestRenewDuringAChange(t *testing.T) {
	t.Parallel()
	s, pool := kept(t)
	busy, other := addOne(t, s, nil), addOne(t, s, nil)
	f := take(t, s, busy.ID, "a", 0).Fence
	take(t, s, other.ID, "a", 0)
	change, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer change.Rollback(context.WithoutCancel(t.Context()))
	if _, err := change.Exec(t.Context(), "select assert_lease($1, $2, $3)", f.Session, f.Holder, f.Epoch); err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		_, err := s.Take(t.Context(), busy.ID, lease.Holder{Instance: "b", Address: "at b"}, 60_000)
		taken <- err
	}()
	for waits := false; !waits; {
		err := pool.QueryRow(t.Context(),
			"select exists (select from pg_stat_activity where $1::int = any(pg_blocking_pids(pid)))",
			change.Conn().PgConn().PID()).Scan(&waits)
		if err != nil || len(taken) > 0 {
			t.Fatal("the lease was taken from a change that is under way", err)
		}
	}
	held, err := s.Renew(t.Context(), "a", []string{busy.ID, other.ID}, 60_000)
	slices.Sort(held)
	// ids are in the order of their creation
	if d := cmp.Diff([]string{busy.ID, other.ID}, held); d != "" || err != nil {
		t.Error(d, err)
	}
	if _, err := s.Take(t.Context(), other.ID, lease.Holder{Instance: "b"}, 60_000); !errors.Is(err, fault.StaleLease) {
		t.Errorf("the other lease was not renewed: %v", err)
	}
	if err := change.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; !errors.Is(err, fault.StaleLease) {
		t.Errorf("a lease that was renewed meanwhile was taken: %v", err)
	}
}

// One of many simultaneous takers gets the lease.
func TestTakeAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	n := addOne(t, s, nil)
	var work sync.WaitGroup
	won := make(chan string, 16)
	for i := range 16 {
		work.Go(func() {
			by := lease.Holder{Instance: fmt.Sprint("i", i), Node: "n", Address: fmt.Sprint("at ", i)}
			if _, err := s.Take(t.Context(), n.ID, by, 60_000); err == nil {
				won <- by.Instance
			} else if !errors.Is(err, fault.StaleLease) {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if len(won) != 1 {
		t.Errorf("%d got it", len(won))
	}
}

// An active run without a holder is found, and an interrupted run to resume, until the new run begins or the
// session ends. Runs with a holder and pending runs are not found.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	s, _ := kept(t)
	begin := func(instance string, ttl int64, state record.RunState) string {
		n := addOne(t, s, nil)
		f := take(t, s, n.ID, instance, 60_000).Fence
		run := record.Run{
			ID: ident.New(), SessionID: n.ID, Owner: "ada", ProjectID: "music", State: state,
			CompiledHash: "h", CreatedAt: 1,
		}
		if err := s.Apply(t.Context(), f, record.Change{NewRun: &run, Session: record.Patch{State: record.Running}},
			false); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Renew(t.Context(), instance, []string{n.ID}, ttl); err != nil {
			t.Fatal(err)
		}
		return n.ID
	}
	begin("a", 60_000, record.RunRunning)
	begin("a", 0, record.RunPending)
	lost := begin("a", 0, record.RunRunning)
	resumable := func(next ...record.Change) string {
		n := addOne(t, s, nil)
		f := take(t, s, n.ID, "a", 0).Fence
		for _, c := range append([]record.Change{{Session: record.Patch{ResumeRun: is("r")}}}, next...) {
			if err := s.Apply(t.Context(), f, c, false); err != nil {
				t.Fatal(err)
			}
			n = c.On(n)
			if got, err := s.Session(t.Context(), "ada", n.ID); err != nil || got.ResumeRun != n.ResumeRun {
				t.Errorf("the run to resume is %q, want %q (%v)", got.ResumeRun, n.ResumeRun, err)
			}
		}
		return n.ID
	}
	waits := resumable()
	resumable(record.Change{Session: record.Patch{State: record.Ended}})
	resumable(record.Change{NewRun: &record.Run{ID: ident.New(), SessionID: waits, State: record.RunCompleted}})
	resumable(record.Change{Session: record.Patch{ResumeRun: is("")}})
	ids, err := s.Abandoned(t.Context(), 10)
	if d := cmp.Diff([]string{lost, waits}, ids); d != "" || err != nil {
		t.Error(d, err)
	}
}
