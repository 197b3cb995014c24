package sessionmanager

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/idle"
)

// The harness learns once that a run is a session's first. Additions of hooks to the system prompt are stored
// before the run continues and given to each later run, also after a restart (H-HOOK-START-01, H-HOOK-START-02).
func TestHooksAreAskedInTheFirstRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a")
	s := n.session("ada")
	texts := []*harnessv1.Injection{{Plugin: "b", Text: "Second\x00."}, {Plugin: "a", Text: "First."}}
	var starts []*harnessv1.RunStart
	post := func(tell bool) {
		t.Helper()
		w.harness.expect(func(p *play) {
			starts = append(starts, p.start)
			if tell {
				p.send(&harnessv1.RunEvent{Event: &harnessv1.RunEvent_SessionStarted{
					SessionStarted: &harnessv1.SessionStarted{Injections: texts},
				}})
			}
			sayHello(p)
		})
		n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	}
	post(true)
	post(false)
	n.Stop()
	n = w.start("b")
	post(false)
	for i, start := range starts {
		if start.GetFirst() != (i == 0) {
			t.Errorf("run %d is the first: %t", i, start.GetFirst())
		}
		if i == 0 && len(start.GetInjections()) != 0 {
			t.Errorf("the first run is given %v", start.GetInjections())
		}
		same := func(a, b *harnessv1.Injection) bool { return proto.Equal(a, b) }
		if i == 1 && !slices.EqualFunc(start.GetInjections(), texts, same) {
			t.Errorf("run %d is given %v", i, start.GetInjections())
		}
		if i == 2 && (len(start.GetInjections()) != 2 || start.GetInjections()[1].GetText() != "First.") {
			t.Errorf("after a restart, run %d is given %v", i, start.GetInjections())
		}
	}
}

// idleHook reports its calls.
type idleHook struct{ calls chan idle.Call }

func (idleHook) Name() string         { return "memory" }
func (idleHook) After() time.Duration { return 20 * time.Millisecond }

func (h idleHook) OnSessionIdle(_ context.Context, call idle.Call) error {
	h.calls <- call
	return nil
}

// A hook for idle sessions receives the messages since the last call of the hooks (H-HOOK-IDLE-01).
func TestAHookForIdleSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := idleHook{make(chan idle.Call)}
	w.idleHooks = []idle.Hook{hook}
	n := w.start("a")
	s := n.session("ada")
	said := func(call idle.Call) (list []string) {
		for _, m := range call.Transcript {
			list = append(list, string(m.Role)+": "+m.Content)
		}
		return list
	}
	fired, db := int64(0), w.connect(w.owner)
	defer db.Close(context.Background())
	for i, want := range [][]string{{"operator: One.", "primary: Hello"}, {"operator: Two.", "primary: Hello"}} {
		w.harness.expect(sayHello)
		n.run("ada", s, n.post("ada", s, []string{"One.", "Two."}[i]).GetRunId())
		call := <-hook.calls
		if got := said(call); !slices.Equal(got, want) {
			t.Errorf("the hook is given %q, want %q", got, want)
		}
		if call.OperatorID != "ada" || call.ProjectID != "music" || call.SessionID != s ||
			call.AgentPath != "primary" || call.RequestID == "" {
			t.Errorf("call %+v", call)
		}
		eventually(t, "the call is noted", func() error {
			at := int64(0)
			const last = "select coalesce(last_idle_fire, 0) from session_manager.sessions where id = $1"
			err := db.QueryRow(t.Context(), last, s).Scan(&at)
			if err == nil && at <= fired {
				err = errors.New("last_idle_fire is as it was")
			}
			if err == nil {
				fired = at
			}
			return err
		})
	}
}
