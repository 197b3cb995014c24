package live

import (
	"context"
	"maps"
	"slices"

	"kaged.dev/pkg/fault"
)

// SetDraining notes whether a workspace drains. The runs of a draining workspace are handed over at their next safe
// point and wait there until it serves again; other runs do not begin in it.
func (g *Registry) SetDraining(workspace string, draining bool) {
	g.mu.Lock()
	if draining {
		g.away[workspace] = true
	} else {
		delete(g.away, workspace)
	}
	g.mu.Unlock()
	if draining {
		g.halt([]string{workspace})
	}
}

// CheckWorkspace fails with unavailable, details.reason workspace_draining, for a workspace that drains.
func (g *Registry) CheckWorkspace(workspace string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.away[workspace] {
		return nil
	}
	return fault.New(fault.Unavailable, "The workspace is being restarted; try again shortly.").
		With("reason", "workspace_draining").With("subsystem", "workspace")
}

// drainWorkspaces halts the runs in draining workspaces, also of those that an administrator drains. Each run continues
// when its workspace serves again.
func (g *Registry) drainWorkspaces(ctx context.Context) {
	g.mu.Lock()
	names := slices.Collect(maps.Keys(g.away))
	g.mu.Unlock()
	if g.Draining != nil {
		drained, err := g.Draining(ctx)
		if err != nil && ctx.Err() == nil {
			g.Log.Warn("looking for draining workspaces failed", "error", err)
		}
		names = append(names, drained...)
	}
	g.halt(names)
}

// halt halts the runs in workspaces.
func (g *Registry) halt(workspaces []string) {
	if len(workspaces) == 0 {
		return
	}
	for _, s := range g.live() {
		if run := s.CurrentRun(); run != nil && slices.Contains(workspaces, s.Record().Workspace) {
			run.Halt()
		}
	}
}
