package sessions

import (
	"cmp"
	"context"
	"slices"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// Running are the active runs and the running commands and cages in workspaces, oldest first.
type Running struct {
	Runs []record.ActiveRun
	contract.Running
}

// Running returns the active runs and the running commands and cages of the caller's session, or of all the
// caller's sessions if id is empty. It fails with not_found, and with unavailable if one of the workspaces cannot
// be reached.
func (s *Service) Running(ctx context.Context, id string) (Running, error) {
	running, err := s.inWorkspaces(ctx, id)
	if err != nil {
		return Running{}, err
	}
	owner := ident.CallerFrom(ctx).UserID
	if running.Runs, err = s.Store.ActiveRuns(ctx, owner, id); err != nil || len(running.Runs) == 0 {
		return running, err
	}
	live, err := s.Store.LiveInvocations(ctx, owner, id)
	for _, i := range live {
		for at := range running.Runs {
			if running.Runs[at].ID == i.RunID {
				running.Runs[at].Agents = append(running.Runs[at].Agents, i)
			}
		}
	}
	return running, err
}

// inWorkspaces asks the workspace of a session, or all workspaces of the caller's sessions.
func (s *Service) inWorkspaces(ctx context.Context, id string) (Running, error) {
	if id != "" {
		found, err := s.find(ctx, id)
		if err != nil {
			return Running{}, err
		}
		return s.Tools.Running(ctx, found.Workspace, id)
	}
	names, err := s.Store.Workspaces(ctx, ident.CallerFrom(ctx).UserID)
	if err != nil {
		return Running{}, err
	}
	if slices.Contains(s.Config.Workspaces, "") {
		names = append([]string{""}, names...)
	}
	var all Running
	for _, name := range names {
		var more Running
		if err == nil {
			more, err = s.Tools.Running(ctx, name, "")
		}
		all.Processes, all.Cages = append(all.Processes, more.Processes...), append(all.Cages, more.Cages...)
	}
	if err != nil {
		return Running{}, err
	}
	slices.SortStableFunc(all.Processes, func(a, b contract.RunningProcess) int {
		return cmp.Compare(a.StartedAt, b.StartedAt)
	})
	slices.SortStableFunc(all.Cages, func(a, b contract.RunningCage) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	return s.owned(ctx, all)
}

// owned removes the commands and cages of other operators.
func (s *Service) owned(ctx context.Context, all Running) (Running, error) {
	var ids []string
	for _, p := range all.Processes {
		ids = append(ids, p.Owner.SessionID)
	}
	for _, c := range all.Cages {
		ids = append(ids, c.Owner.SessionID)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return Running{}, nil
	}
	mine, err := s.Store.Owned(ctx, ident.CallerFrom(ctx).UserID, ids)
	if err != nil {
		return Running{}, err
	}
	return Running{Running: contract.Running{
		Processes: slices.DeleteFunc(all.Processes, func(p contract.RunningProcess) bool {
			return !slices.Contains(mine, p.Owner.SessionID)
		}),
		Cages: slices.DeleteFunc(all.Cages, func(c contract.RunningCage) bool {
			return !slices.Contains(mine, c.Owner.SessionID)
		}),
	}}, nil
}
