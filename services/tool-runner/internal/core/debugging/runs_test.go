package debugging

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/late"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pool is a pool that is lost after it has reported the beginning of a session, each time that it is watched.
type pool struct {
	Debuggers
	watched int
	third   chan struct{} // closed when it is watched for the third time
}

func (p *pool) Start(context.Context, Start) (Answer, error) { return Answer{}, nil }

func (p *pool) EndRun(context.Context, string, string) ([]contract.Record, error) { return nil, nil }

func (p *pool) Watch(
	ctx context.Context, _, _ string, tell func(e contract.DebugEvent, root string) error,
) error {
	if p.watched++; p.watched == 3 {
		close(p.third)
		<-ctx.Done()
		return ctx.Err()
	}
	began := contract.DebugEvent{ID: "dap_1", Agent: "primary", Running: &contract.DebugRunning{}}
	if err := tell(began, "/p"); err != nil {
		return err
	}
	return errors.New("lost")
}

// A run is watched from its first debug session on; if the pool is lost its sessions end, and the next pool is watched.
func TestTell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pool{third: make(chan struct{})}
		r := NewRuns(p, late.New("", slog.New(slog.DiscardHandler)))
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		done := make(chan error)
		go func() {
			done <- r.Tell(ctx, "s", "r", func(e contract.DebugEvent, _ string) error {
				if e.End != nil {
					told = append(told, "ended "+e.ID+" "+e.End.Reason+" of "+e.Agent)
				} else {
					told = append(told, "began "+e.ID)
				}
				return nil
			})
		}()
		synctest.Wait()
		if p.watched != 0 {
			t.Error("a run that debugs nothing is watched")
		}
		of := Start{Agent: Agent{Owner: contract.Owner{SessionID: "s", RunID: "r"}}}
		for range 2 {
			if _, err := r.Start(ctx, of); err != nil {
				t.Fatal(err)
			}
		}
		<-p.third
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		end := "ended dap_1 crash of primary"
		if want := []string{"began dap_1", end, "began dap_1", end}; !slices.Equal(told, want) {
			t.Errorf("told %q", told)
		}
		if err := r.End(ctx, "s", ""); err != nil || len(r.runs) != 0 {
			t.Errorf("%v is left, %v", r.runs, err)
		}
	})
}
