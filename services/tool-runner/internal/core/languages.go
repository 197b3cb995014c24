package core

import (
	"context"
	"sync/atomic"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/language"
)

// LanguageServers returns the selected language servers.
func (r *Runner) LanguageServers(ctx context.Context, which language.Filter) ([]contract.RunningLanguageServer, error) {
	return r.servers.List(ctx, which)
}

// StopLanguageServers ends the selected language servers, and returns them.
func (r *Runner) StopLanguageServers(
	ctx context.Context, which language.Filter,
) ([]contract.RunningLanguageServer, error) {
	return r.servers.Stop(ctx, which)
}

// UnloadProject ends the language servers of a project in a folder, and returns them with the records that no answer
// has included. The folder is needed because project ids are unique for one operator only.
func (r *Runner) UnloadProject(
	ctx context.Context, project, root string,
) ([]contract.RunningLanguageServer, []contract.Record, error) {
	if project == "" || root == "" {
		return nil, nil, fault.New(fault.BadRequest, "An unloaded project needs a project_id and a root.")
	}
	return r.servers.Unload(ctx, project, root)
}

// HoldWorkspace registers a process that runs agents, until ctx ends. The end of the last one, also by a crash, ends
// the language servers. It fails if opened fails, and with unavailable when the runner stops.
func (r *Runner) HoldWorkspace(ctx context.Context, opened func() error) error {
	r.harnesses.Add(1)
	defer r.leave(ctx, &r.harnesses)
	if err := opened(); err != nil {
		return err
	}
	select {
	case <-r.draining:
		return fault.New(fault.Unavailable, "The tool runner is stopping.").With("subsystem", "tool-runner")
	case <-ctx.Done():
		return nil
	}
}

// leave counts an ended stream of one kind, and ends the language servers after the last one.
func (r *Runner) leave(ctx context.Context, streams *atomic.Int64) {
	if streams.Add(-1) > 0 {
		return
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endRunTimeout)
	defer cancel()
	if err := r.servers.End(ending); err != nil {
		r.log.WarnContext(ctx, "the language servers could not be ended", "error", err)
	}
}
