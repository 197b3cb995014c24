package toolrunner

import (
	"context"

	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

// Close lets go of the workspaces that are held, and returns when that is done.
func (w *Workspaces) Close() {
	w.mu.Lock()
	w.close()
	w.mu.Unlock()
	w.holding.Wait()
}

// hold announces this process to the workspace until Close, so that the workspace ends its kept processes when this
// one dies. It returns when the workspace knows, or cannot be told, or when ctx ends; the next run tries again
// after a loss.
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
