package core

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
)

// A tail keeps the end of the output, for any sizes of writes and any offsets of reads.
func TestTailProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		tl := newTail(limit)
		var all []byte
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			data := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "data")
			tl.write(data)
			all = append(all, data...)
		}
		start, end := tl.bounds()
		if end != int64(len(all)) || start != max(0, end-int64(limit)) {
			t.Fatalf("kept is %d to %d of %d bytes", start, end, len(all))
		}
		from := rapid.Int64Range(-5, int64(len(all))+5).Draw(t, "from")
		into := make([]byte, rapid.IntRange(0, 60).Draw(t, "into"))
		at, n, more := tl.read(from, into)
		want := min(max(from, start), end)
		if at != want || n != int(min(int64(len(into)), end-at)) || string(into[:n]) != string(all[at:at+int64(n)]) ||
			more == nil {
			t.Fatalf("from %d: %d bytes at %d, %q", from, n, at, into[:n])
		}
		tl.close()
		if _, _, more := tl.read(from, into); more != nil {
			t.Fatal("more will come after the end")
		}
	})
}

// Followers get each byte once, at any speed, and return at their end or at the end of the output.
func TestTailFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tl := newTail(1 << 20)
		var got [2]strings.Builder
		done := make(chan error, 2)
		for i := range got {
			go func() {
				done <- tl.follow(t.Context(), 0, true, func(at int64, data []byte) error {
					if at != int64(got[i].Len()) {
						t.Errorf("byte %d came after %d", at, got[i].Len())
					}
					got[i].Write(data)
					return nil
				})
			}()
		}
		for _, s := range []string{"a", "", strings.Repeat("b", 100_000), "c"} {
			tl.write([]byte(s))
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := tl.follow(ctx, 0, true, func(int64, []byte) error { return nil }); !errors.Is(
			err,
			context.DeadlineExceeded,
		) {
			t.Errorf("one who leaves: %v", err)
		}
		tl.close()
		for i := range got {
			if err := <-done; err != nil || got[i].Len() != 100_002 {
				t.Errorf("one saw %d bytes, %v", got[i].Len(), err)
			}
		}
		refused := errors.New("no")
		if err := tl.follow(t.Context(), 0, true, func(int64, []byte) error { return refused }); !errors.Is(err, refused) {
			t.Errorf("a failing reader: %v", err)
		}
	})
}

// Ended detached commands are forgotten after a time, and earlier above the limits.
func TestDetachedAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var processes []*fake
		for range 5 {
			p := newFake(false)
			p.exit(End{})
			processes = append(processes, p)
		}
		s := New(&spawner{processes: processes}, Cages{}, limits)
		var ids []string
		for range 5 {
			d, err := s.Detach(t.Context(), ident.New(), command())
			if err != nil {
				t.Fatal(err)
			}
			<-d.done
			ids = append(ids, d.id)
			time.Sleep(time.Minute)
		}
		for i, id := range ids {
			if _, err := s.Detached(id); (err == nil) != (i >= 2) {
				t.Errorf("of five the %d.: %v", i+1, err)
			}
		}
		time.Sleep(58*time.Minute - time.Second)
		if n := len(s.List(Whose{Session: "s"}, true)); n != 2 {
			t.Errorf("%d are remembered", n)
		}
		time.Sleep(time.Hour)
		if n := len(s.List(Whose{Session: "s"}, true)); n != 0 || len(s.detached) > 0 {
			t.Errorf("%d are remembered after their time", n)
		}
		s.Close()
		if _, err := s.Detach(t.Context(), ident.New(), command()); !errors.Is(err, fault.Unavailable) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A second caller for a starting command waits for the same start, and gets its failure.
func TestDetachTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(false)
		sp := &spawner{processes: []*fake{p}, hold: make(chan struct{})}
		s := New(sp, Cages{}, limits)
		ask := func(id string) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := s.Detach(t.Context(), id, command())
				done <- err
			}()
			synctest.Wait()
			return done
		}
		id := ident.New()
		first, second := ask(id), ask(id)
		if _, err := s.Detached(id); !errors.Is(err, fault.ProcessNotFound) || len(s.List(Whose{}, true)) > 0 {
			t.Errorf("before it has started: %v", err)
		}
		close(sp.hold)
		if a, b := <-first, <-second; a != nil || b != nil {
			t.Errorf("asked twice: %v, %v", a, b)
		}
		sp.hold, sp.err = make(chan struct{}), BadProgram("x", "no")
		id = ident.New()
		first, second = ask(id), ask(id)
		close(sp.hold)
		if a, b := <-first, <-second; !errors.Is(a, fault.ShellSpawnFailed) || !errors.Is(b, fault.ShellSpawnFailed) {
			t.Errorf("asked twice for what cannot start: %v, %v", a, b)
		}
		if _, err := s.Detached(id); !errors.Is(err, fault.ProcessNotFound) {
			t.Errorf("what never started: %v", err)
		}
		go p.exit(End{})
		s.Close()
	})
}

// A caller that leaves during its command's start leaves no command.
func TestDetachAndLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(true)
		sp := &spawner{processes: []*fake{p}, hold: make(chan struct{})}
		s := New(sp, Cages{}, limits)
		ctx, cancel := context.WithCancel(t.Context())
		id, done := ident.New(), make(chan error)
		go func() {
			_, err := s.Detach(ctx, id, command())
			done <- err
		}()
		synctest.Wait()
		cancel()
		close(sp.hold)
		<-done
		synctest.Wait()
		d, err := s.Detached(id)
		if err != nil {
			t.Fatal(err)
		}
		if exit := d.Info().Exit; exit == nil || exit.Reason != contract.ReasonCancelled {
			t.Errorf("the end is %+v", exit)
		}
		s.Close()
	})
}
