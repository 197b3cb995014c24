package metered

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/telemetry"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fails is a store and a stream that return err.
type fails struct {
	live.Store
	frames.Stream
	err error
}

func (f *fails) Apply(context.Context, lease.Fence, record.Change, bool) error { return f.err }

func (f *fails) Append(context.Context, frames.Message) (frames.Ack, error) {
	return frames.Ack{}, f.err
}

// Ends of runs and frames are counted once they are stored and published; failed tries are not counted.
func TestCounts(t *testing.T) {
	t.Parallel()
	kit, err := telemetry.Start(t.Context(), telemetry.Options{
		Getenv: func(string) string { return "" }, MetricsListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer kit.Stop()
	world := &fails{err: errors.New("away")}
	store, stream := Store(world, kit), Stream(world, kit)
	change := record.Change{At: time.Now().UnixMilli(), EndRun: &record.RunEnd{
		RunID: ident.New(), State: record.RunFailed, Error: fault.New(fault.Interrupted, "It was cut off."),
	}}
	for range 2 {
		_ = store.Apply(t.Context(), lease.Fence{}, change, false)
		_ = store.Apply(t.Context(), lease.Fence{}, record.Change{}, false)
		_, _ = stream.Append(t.Context(), frames.Message{Channel: frames.Events, Count: 3})
		world.err = nil
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + kit.MetricsAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`kaged_runs_total{outcome="failed"} 1`, `kaged_run_failures_total{code="interrupted"} 1`,
		`kaged_run_seconds_count{outcome="failed"} 1`, `kaged_frames_total{channel="events"} 3`,
	} {
		if !strings.Contains(string(page), "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if Store(world, nil) != live.Store(world) || Stream(world, nil) != frames.Stream(world) {
		t.Error("without metrics something is wrapped")
	}
}
