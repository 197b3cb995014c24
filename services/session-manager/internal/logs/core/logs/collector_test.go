package logs_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/logs/core/logs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kept is a store, and the gateways that receive its announcements. Methods that no test here calls are missing.
type kept struct {
	logs.Store
	mu                sync.Mutex // guards the fields below
	entries           []string
	away, unheard     bool
	announced, missed int
}

func (k *kept) Append(_ context.Context, entries []logs.Entry) ([]logs.Entry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away {
		return nil, fault.New(fault.Unavailable, "The store is away.")
	}
	for _, e := range entries {
		k.entries = append(k.entries, e.Message)
	}
	return entries, nil
}

func (k *kept) Query(context.Context, logs.Query) ([]logs.Entry, error) { return nil, nil }
func (k *kept) Trim(context.Context, int64, int) error                  { return nil }

func (k *kept) tell(n *int, by int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unheard {
		return fault.New(fault.Unavailable, "NATS is away.")
	}
	*n += by
	return nil
}

func (k *kept) with(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// collect runs f with a running collector into k, and returns once all entries are stored.
func collect(k *kept, f func(c *logs.Collector)) {
	c := logs.NewCollector(logs.CollectorDeps{
		Store: k, Log: slog.New(slog.DiscardHandler), Keep: time.Hour, Most: 1,
		Announce: func(_ context.Context, stored []logs.Entry) error { return k.tell(&k.announced, len(stored)) },
		Missed:   func(context.Context) error { return k.tell(&k.missed, 1) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	f(c)
	cancel()
	<-done
}

// Entries of a project beyond its rate are dropped, and a warning before its next entry counts them. Other projects
// lose no entry.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		collect(k, func(c *logs.Collector) {
			for i := range 500 {
				c.Take(logs.Entry{ProjectID: "loud", Message: fmt.Sprint(i)})
			}
			c.Take(logs.Entry{ProjectID: "quiet", Message: "quiet"})
			time.Sleep(time.Second)
			c.Take(logs.Entry{ProjectID: "loud", Message: "later"})
		})
		if n := len(k.entries); n != 203 || k.entries[199] != "199" || k.entries[200] != "quiet" ||
			k.entries[201] != "300 entries were dropped: too many at once." || k.entries[202] != "later" {
			t.Errorf("%d entries are stored, the last %q", n, k.entries[max(0, n-4):])
		}
	})
}

// While the store is unreachable entries wait, up to a bound, and Take does not block. If announcements are lost,
// gateways are told so later.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{away: true, unheard: true}
		collect(k, func(c *logs.Collector) {
			for i := range 6000 {
				c.Take(logs.Entry{ProjectID: fmt.Sprint(i / 100), Message: fmt.Sprint(i)})
			}
			time.Sleep(time.Minute)
			k.with(func() { k.away = false })
			time.Sleep(time.Minute)
			k.with(func() { k.unheard = false })
			time.Sleep(2 * time.Second)
		})
		if len(k.entries) < 4000 || len(k.entries) > 4400 || k.announced != 0 || k.missed != 1 {
			t.Errorf("%d entries are stored, %d announced, missed said %d times", len(k.entries), k.announced, k.missed)
		}
	})
}

// An audit record becomes one sentence with the important details of its payload, a level, and the source of its
// agent.
func TestLines(t *testing.T) {
	t.Parallel()
	type facts = map[string]any
	record := func(kind, session, agent string, payload facts) audit.Record {
		return audit.Record{EventType: kind, SessionID: session, AgentPath: agent, Payload: payload}
	}
	const sub = "primary.sub"
	for _, c := range []struct {
		record audit.Record
		want   string
	}{
		{record("run.ended", "s", "primary", facts{"outcome": "completed"}), "INFO session Run completed."},
		{record("run.ended", "s", "primary", facts{"outcome": "cancelled"}), "INFO session Run cancelled."},
		{record("cage.ended", "s", "primary", facts{"reason": "released"}), "INFO session Cage ended: released."},
		{record("cage.ended", "s", "primary", facts{"reason": "walltime"}), "WARN session Cage ended: walltime."},
		{
			record("run.ended", "s", "primary", facts{"outcome": "failed", "error_message": "The key is not known."}),
			"ERROR session Run failed: The key is not known.",
		},
		{record("net.denied", "s", sub, facts{"target": "a.b:443"}), "WARN subagent Connection of a cage refused: a.b:443."},
		{record("project.loaded", "", "", nil), "INFO daemon Project loaded."},
		{
			record("delegation.completed", "s", sub, facts{"subagent": "sub", "outcome": "failed", "error_code": nil}),
			"INFO subagent Agent ended: sub, failed.",
		},
		{record("tool.called", "s", "primary", nil), "none"},
	} {
		got := "none"
		if e, ok := logs.Line(c.record); ok {
			got = fmt.Sprintf("%s %s %s", e.Level, e.Source, e.Message)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.record.EventType, got, c.want)
		}
	}
}
