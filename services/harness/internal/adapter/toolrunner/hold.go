package toolrunner

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Close ends the holds of all workspaces and returns when they have ended.
func (w *Workspaces) Close() {
	w.mu.Lock()
	w.close()
	w.mu.Unlock()
	w.holding.Wait()
}

// hold holds the workspace for this process until Close, so that the workspace ends its kept processes when this
// process dies. It returns when the workspace knows of the hold or is unreachable, or when ctx ends. After a loss,
// the next run holds the workspace again.
func (r *Runner) hold(ctx context.Context) {
	w := r.workspaces
	w.mu.Lock()
	if w.held[r.name] || w.life.Err() != nil {
		w.mu.Unlock()
		return
	}
	w.held[r.name] = true
	told := make(chan struct{})
	w.holding.Go(func() {
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.held, r.name)
		}()
		stream, err := r.client.HoldWorkspace(w.life, &toolrunnerv1.HoldWorkspaceRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		close(told)
		for err == nil {
			_, err = stream.Recv()
		}
	})
	w.mu.Unlock()
	select {
	case <-told:
	case <-ctx.Done():
	}
}
