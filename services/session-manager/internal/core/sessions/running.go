package sessions

import (
	"context"
	"slices"

	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/core/record"
)

// Running is what runs in workspaces, the oldest first. Times are milliseconds since the Unix epoch.
type Running struct {
	Runs      []record.ActiveRun
	Processes []RunningProcess
	Cages     []RunningCage
}

// Work is what a process or a cage belongs to.
type Work struct{ SessionID, ProjectID, RunID, AgentPath string }

// Use is resident memory in bytes and CPU time in milliseconds.
type Use struct{ Memory, CPU int64 }

// RunningProcess is a command of a tool call.
type RunningProcess struct {
	ID string
	Work
	// CageID is the cage it runs in, "" for none.
	CageID    string
	PID       int64
	Command   string
	StartedAt int64
	Use       Use
	// Background says that it outlives the call.
	Background bool
}

// RunningCage is a cage that lives.
type RunningCage struct {
	ID string
	Work
	Tier       string
	BestEffort []string
	StartedAt  int64
	Use        Use
	Processes  int32
}

// Running returns what runs for a session of the caller, or for all of the caller's where id is empty. It fails with not_found, and with
// unavailable while the workspace cannot be asked.
func (s *Service) Running(ctx context.Context, id string) (Running, error) {
	workspace := ""
	if id != "" {
		found, err := s.find(ctx, id)
		if err != nil {
			return Running{}, err
		}
		workspace = found.Workspace
	}
	running, err := s.Tools.Running(ctx, workspace, id)
	if err == nil && id == "" {
		running, err = s.owned(ctx, running)
	}
	if err != nil {
		return Running{}, err
	}
	running.Runs, err = s.Store.ActiveRuns(ctx, ident.CallerFrom(ctx).UserID, id)
	return running, err
}

// owned leaves out what runs for other operators.
func (s *Service) owned(ctx context.Context, all Running) (Running, error) {
	var ids []string
	for _, p := range all.Processes {
		ids = append(ids, p.SessionID)
	}
	for _, c := range all.Cages {
		ids = append(ids, c.SessionID)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return Running{}, nil
	}
	mine, err := s.Store.Owned(ctx, ident.CallerFrom(ctx).UserID, ids)
	if err != nil {
		return Running{}, err
	}
	return Running{
		Processes: slices.DeleteFunc(all.Processes, func(p RunningProcess) bool { return !slices.Contains(mine, p.SessionID) }),
		Cages:     slices.DeleteFunc(all.Cages, func(c RunningCage) bool { return !slices.Contains(mine, c.SessionID) }),
	}, nil
}
