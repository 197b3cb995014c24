package idle_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/idle"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// hook records the times of its calls since the beginning of the test.
type hook struct {
	name  string
	after time.Duration
	begun time.Time
	act   func(context.Context) error

	mu    sync.Mutex // guards the calls
	calls []time.Duration
	ids   []string
}

func (h *hook) Name() string         { return h.name }
func (h *hook) After() time.Duration { return h.after }

func (h *hook) OnSessionIdle(ctx context.Context, call idle.Call) error {
	h.mu.Lock()
	h.calls, h.ids = append(h.calls, time.Since(h.begun)), append(h.ids, call.RequestID)
	h.mu.Unlock()
	if h.act != nil {
		return h.act(ctx)
	}
	return nil
}

// session is a session with two messages, one of them superseded.
type session struct {
	mu      sync.Mutex // guards the fields below
	record  record.Session
	changes []record.Change
}

func (s *session) Record() record.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

func (s *session) History(context.Context) ([]record.Message, error) {
	return []record.Message{{Content: "gone", Superseded: true, CreatedAt: 5}, {Content: "said", CreatedAt: 6}}, nil
}

func (s *session) Change(_ context.Context, decide func(record.Session) (record.Change, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := decide(s.record)
	if err == nil {
		s.record = c.On(s.record)
		s.changes = append(s.changes, c)
	}
	return err
}

// bench is a watcher of one session.
type bench struct {
	*idle.Watcher
	s *session
}

func newBench(hooks ...*hook) *bench {
	b := &bench{s: &session{record: record.Session{ID: "s", Owner: "ada", ProjectID: "music", State: record.Idle}}}
	deps := idle.Deps{
		Default: 30 * time.Second, Timeout: 10 * time.Second, Warn: func(string, ...any) {},
		Acquire: func(context.Context, string) (idle.Session, func(), error) { return b.s, func() {}, nil },
	}
	for _, h := range hooks {
		h.begun = time.Now()
		deps.Hooks = append(deps.Hooks, h)
	}
	b.Watcher = idle.New(deps)
	return b
}

func (b *bench) ends(err *fault.Error) {
	b.Changed(record.Session{}, b.s.Record(), record.Change{EndRun: &record.RunEnd{Error: err}})
}

func (b *bench) begins() {
	b.Changed(record.Session{}, record.Session{ID: "s", State: record.Running}, record.Change{NewRun: &record.Run{}})
}

// Each hook is called once after its own time without a run, 30 s by default. A run that begins earlier restarts
// the time; the end of a run that a crash cut off does not start it (H-HOOK-IDLE-01..03).
func TestHooksAreCalledAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick, usual := &hook{name: "quick", after: 5 * time.Second}, &hook{name: "usual"}
		b := newBench(quick, usual)
		b.ends(nil)
		time.Sleep(4 * time.Second)
		b.begins()
		time.Sleep(time.Minute)
		b.ends(fault.New(fault.Interrupted, "Cut off."))
		time.Sleep(time.Minute)
		b.ends(fault.New(fault.Internal, "Failed."))
		time.Sleep(time.Minute)
		b.Close()
		at := 4*time.Second + 2*time.Minute
		if d := cmp.Diff([]time.Duration{at + 5*time.Second}, quick.calls); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]time.Duration{at + 30*time.Second}, usual.calls); d != "" {
			t.Error(d)
		}
		if quick.ids[0] == usual.ids[0] || quick.ids[0] == "" {
			t.Errorf("requests %v, %v", quick.ids, usual.ids)
		}
		if len(b.s.changes) != 2 || b.s.Record().IdleFiredAt == 0 {
			t.Errorf("changes %+v", b.s.changes)
		}
	})
}

// A hook that fails, panics or hangs is audited and does not affect other hooks.
func TestHooksThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		fails := &hook{name: "fails", act: func(context.Context) error { return errors.New("gone") }}
		panics := &hook{name: "panics", act: func(context.Context) error { panic("x") }}
		hangs := &hook{name: "hangs", act: func(context.Context) error { <-over; return nil }}
		good := &hook{name: "good"}
		b := newBench(fails, panics, hangs, good)
		b.ends(nil)
		time.Sleep(time.Minute)
		close(over)
		b.Close()
		var got []string
		for _, c := range b.s.changes {
			for _, r := range c.Audit {
				got = append(got, r.EventType+" "+r.Payload["plugin"].(string))
			}
		}
		slices.Sort(got)
		want := []string{"plugin.hook.failed fails", "plugin.hook.failed panics", "plugin.hook.timeout hangs"}
		if d := cmp.Diff(want, got); d != "" || len(good.calls) != 1 || len(b.s.changes) != 4 {
			t.Errorf("%d calls, %d changes, %s", len(good.calls), len(b.s.changes), d)
		}
	})
}

// A closed watcher calls no hooks.
func TestAClosedWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hook{name: "quick", after: time.Second}
		b := newBench(h)
		b.ends(nil)
		b.Close()
		b.ends(nil)
		time.Sleep(time.Minute)
		if len(h.calls) != 0 {
			t.Errorf("called at %v", h.calls)
		}
	})
}
