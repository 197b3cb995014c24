package calls_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/calls"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var options = calls.Options{
	Kept:        3,
	KeptBytes:   10_000,
	KeptFor:     time.Minute,
	OutputEvery: 10 * time.Millisecond,
	OutputBytes: 100,
}

func key(id string) calls.Key { return calls.Key{Session: "s", ID: id} }

// answer is work that answers at once and counts its runs.
func answer(content string, n *atomic.Int32) calls.Work {
	return func(context.Context, func(string, string)) (dispatch.Outcome, error) {
		n.Add(1)
		return dispatch.Outcome{Result: tool.Result{Content: content}}, nil
	}
}

func quiet(string, string) error { return nil }

// A repeated call gets the first one's result, and a running call is joined; the work runs once.
func TestCallHappensOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := calls.New(options)
		var done atomic.Int32
		release := make(chan struct{})
		work := func(ctx context.Context, emit func(string, string)) (dispatch.Outcome, error) {
			<-release
			return answer("once", &done)(ctx, emit)
		}
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if out, err := c.Do(t.Context(), key("1"), work, quiet); err != nil || out.Result.Content != "once" {
					t.Errorf("%+v, %v", out, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		group.Wait()
		if out, err := c.Do(t.Context(), key("1"), work, quiet); err != nil || out.Result.Content != "once" ||
			done.Load() != 1 {
			t.Errorf("%+v, %v after %d times", out, err, done.Load())
		}
		other := key("1")
		other.Input[0] = 1
		if _, err := c.Do(t.Context(), other, work, quiet); !errors.Is(err, fault.Conflict) {
			t.Errorf("another call of the same id: %v", err)
		}
		other.Session = "t"
		if _, err := c.Do(t.Context(), other, work, quiet); err != nil || done.Load() != 2 {
			t.Errorf("another session's call: %v", err)
		}
	})
}

// The work ends with its last waiter, and not before, whichever of them leaves first.
func TestWorkEndsWithTheLastWaiter(t *testing.T) {
	t.Parallel()
	for first := range 2 {
		synctest.Test(t, func(t *testing.T) {
			c := calls.New(options)
			ended := false
			work := func(ctx context.Context, _ func(string, string)) (dispatch.Outcome, error) {
				<-ctx.Done()
				ended = true
				return dispatch.Outcome{}, fault.From(ctx.Err())
			}
			var leave []context.CancelFunc
			left := make(chan error, 2)
			for range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				leave = append(leave, cancel)
				go func() {
					_, err := c.Do(ctx, key("1"), work, quiet)
					left <- err
				}()
				synctest.Wait()
			}
			leave[first]()
			synctest.Wait()
			if ended {
				t.Errorf("waiter %d left, and the work has ended", first)
			}
			leave[1-first]()
			for range 2 {
				if err := <-left; !errors.Is(err, fault.Cancelled) {
					t.Errorf("a waiter that left got %v", err)
				}
			}
			if !ended {
				t.Error("nobody waits and the work goes on")
			}
		})
	}
}

// A panic of the work, which the caller of Do handles, ends the call for its other waiters.
func TestAPanicEndsTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := calls.New(options)
		defer c.Stop()
		release := make(chan struct{})
		work := func(context.Context, func(string, string)) (dispatch.Outcome, error) {
			<-release
			panic("a defect")
		}
		over := make(chan any)
		go func() {
			defer func() { over <- recover() }()
			_, _ = c.Do(t.Context(), key("1"), work, quiet) // it panics
		}()
		synctest.Wait()
		joined := make(chan error)
		go func() {
			_, err := c.Do(t.Context(), key("1"), work, quiet)
			joined <- err
		}()
		synctest.Wait()
		close(release)
		if got := <-over; got != "a defect" {
			t.Errorf("the first waiter got %v", got)
		}
		if err := <-joined; !errors.Is(err, fault.Internal) {
			t.Errorf("the other waiter got %v", err)
		}
	})
}

// A call that failed for an infrastructure error may be repeated, unless it may have changed state.
func TestFailedCallsAreForgottenUnlessTheyActed(t *testing.T) {
	t.Parallel()
	c := calls.New(options)
	for i, k := range []struct {
		acted bool
		code  fault.Code
		times int32
	}{{false, fault.Cancelled, 2}, {true, fault.Cancelled, 1}, {true, fault.Unavailable, 2}} {
		var n atomic.Int32
		work := func(context.Context, func(string, string)) (dispatch.Outcome, error) {
			n.Add(1)
			return dispatch.Outcome{Acted: k.acted}, fault.New(k.code, "no")
		}
		for range 2 {
			if _, err := c.Do(t.Context(), key(fmt.Sprint(i)), work, quiet); !errors.Is(err, k.code) {
				t.Errorf("error %v", err)
			}
		}
		if n.Load() != k.times {
			t.Errorf("acted %v, %s: done %d times", k.acted, k.code, n.Load())
		}
	}
}

// A call that ended as a question runs when it is repeated with the answer, and then only once.
func TestQuestionsAreForgotten(t *testing.T) {
	t.Parallel()
	c := calls.New(options)
	defer c.Stop()
	ask := func(context.Context, func(string, string)) (dispatch.Outcome, error) {
		return dispatch.Outcome{Approval: &contract.Subject{Tool: "x"}}, nil
	}
	for range 2 {
		if out, err := c.Do(t.Context(), key("1"), ask, quiet); err != nil || out.Approval == nil {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	var n atomic.Int32
	for range 2 {
		if out, err := c.Do(t.Context(), key("1"), answer("done", &n), quiet); err != nil || out.Result.Content != "done" {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if n.Load() != 1 {
		t.Errorf("the call was made %d times", n.Load())
	}
}

// Results are remembered for a time, up to a number per session, and a total size.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := calls.New(options)
		var n atomic.Int32
		do := func(id, content string) (again bool) {
			before := n.Load()
			if _, err := c.Do(t.Context(), key(id), answer(content, &n), quiet); err != nil {
				t.Fatal(err)
			}
			return n.Load() > before
		}
		for _, id := range []string{"1", "2", "3", "4"} {
			do(id, "small")
		}
		if !do("1", "small") || do("4", "small") {
			t.Error("not the oldest of the session was forgotten")
		}
		do("big", strings.Repeat("x", 9_700))
		if do("big", "") || !do("4", "small") {
			t.Error("not the others made room for the big one")
		}
		recorded := func(context.Context, func(string, string)) (dispatch.Outcome, error) {
			return dispatch.Outcome{
				Records: []contract.Record{{Payload: map[string]any{"params": strings.Repeat("x", 9_700)}}},
			}, nil
		}
		if _, err := c.Do(t.Context(), key("recorded"), recorded, quiet); err != nil || !do("4", "small") ||
			do("4", "small") {
			t.Errorf("%v, or what is recorded takes no room", err)
		}
		<-time.After(time.Minute)
		if !do("4", "small") {
			t.Error("a result was remembered for too long")
		}
		c.EndSession("s")
		if !do("4", "small") {
			t.Error("an ended session was remembered")
		}
	})
}

// Ending a session cancels its calls; stopping cancels all calls, waits, and refuses new ones.
func TestEndSessionAndStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := calls.New(options)
		work := func(ctx context.Context, _ func(string, string)) (dispatch.Outcome, error) {
			<-ctx.Done()
			return dispatch.Outcome{}, fault.From(ctx.Err())
		}
		failed := make(chan error, 3)
		for _, k := range []calls.Key{key("1"), key("2"), {Session: "other", ID: "1"}} {
			go func() {
				_, err := c.Do(t.Context(), k, work, quiet)
				failed <- err
			}()
		}
		synctest.Wait()
		c.EndSession("s")
		for range 2 {
			if err := <-failed; !errors.Is(err, fault.Cancelled) {
				t.Errorf("error %v", err)
			}
		}
		c.EndSession("never heard of")
		c.Stop()
		if err := <-failed; !errors.Is(err, fault.Cancelled) {
			t.Errorf("error %v", err)
		}
		if _, err := c.Do(t.Context(), key("3"), work, quiet); !errors.Is(err, fault.Unavailable) {
			t.Errorf("error %v", err)
		}
		c.Stop()
	})
}

// The first output is delivered at once, later output at intervals, and all of it, in order, before the result.
func TestOutputIsGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := calls.New(options)
		began := time.Now()
		work := func(_ context.Context, emit func(string, string)) (dispatch.Outcome, error) {
			for i := range 20 {
				emit("stdout", fmt.Sprint(i, " "))
				<-time.After(time.Millisecond)
			}
			emit("stderr", "e")
			emit("stdout", "")
			emit("stdout", "end")
			return dispatch.Outcome{}, nil
		}
		var pieces []string
		if _, err := c.Do(t.Context(), key("1"), work, func(stream, text string) error {
			pieces = append(pieces, fmt.Sprintf("%s %s: %s", time.Since(began), stream, text))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(pieces) < 4 || len(pieces) > 6 || !strings.HasPrefix(pieces[0], "0s stdout: 0 ") {
			t.Errorf("%d pieces: %q", len(pieces), pieces)
		}
		if got := pieces[len(pieces)-2:]; !strings.HasSuffix(got[0], "stderr: e") ||
			!strings.HasSuffix(got[1], "stdout: end") {
			t.Errorf("the last pieces are %q", got)
		}
	})
}

// A reader that is too slow loses the oldest output, gets a note and no cut characters; the work does not wait.
func TestSlowReadersMissOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := calls.New(options)
		work := func(_ context.Context, emit func(string, string)) (dispatch.Outcome, error) {
			emit("stdout", "first")
			synctest.Wait()
			for range 1000 {
				emit("stdout", "é")
			}
			emit("stderr", "last")
			return dispatch.Outcome{}, nil
		}
		var got []string
		if _, err := c.Do(t.Context(), key("1"), work, func(_, text string) error {
			got = append(got, text)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		all := strings.Join(got, "")
		if got[0] != "first" || !strings.Contains(all, "[output skipped]") || !strings.HasSuffix(all, "élast") ||
			len(all) > 200 ||
			!utf8.ValidString(all) {
			t.Errorf("got %q", got)
		}
	})
}

// A failing reader leaves, and Do returns its error.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	c := calls.New(options)
	broken := errors.New("broken")
	work := func(ctx context.Context, emit func(string, string)) (dispatch.Outcome, error) {
		emit("stdout", "x")
		<-ctx.Done()
		return dispatch.Outcome{}, fault.From(ctx.Err())
	}
	if _, err := c.Do(t.Context(), key("1"), work, func(string, string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	c.Stop()
}

// Memory does not grow with the number of calls.
func TestMemoryIsFlat(t *testing.T) {
	t.Parallel()
	c := calls.New(options)
	var n atomic.Int32
	for i := range 20_000 {
		k := calls.Key{Session: fmt.Sprint(i % 1000), ID: fmt.Sprint(i)}
		if _, err := c.Do(t.Context(), k, answer("some result", &n), quiet); err != nil {
			t.Fatal(err)
		}
	}
	if kept := c.Kept(); kept > 100 {
		t.Errorf("%d results are kept", kept)
	}
}
