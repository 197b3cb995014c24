package sessions

import (
	"context"
	"slices"
	"time"

	"kaged.dev/pkg/ident"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// The period and the number of runs of a status.
const (
	statusPeriod = 24 * time.Hour
	statusRuns   = 10
)

// Status returns the statistics of the caller's project. It fails with not_found.
func (s *Service) Status(ctx context.Context, project string) (record.Status, error) {
	owner := ident.CallerFrom(ctx).UserID
	if err := s.Projects.Known(ctx, owner, project); err != nil {
		return record.Status{}, err
	}
	out, err := s.Store.Status(ctx, owner, project, now()-statusPeriod.Milliseconds(), statusRuns)
	if err != nil {
		return record.Status{}, err
	}
	runs, err := s.Store.ActiveRuns(ctx, owner, "")
	if err != nil || len(runs) == 0 {
		return out, err
	}
	live, err := s.Store.LiveInvocations(ctx, owner, "")
	for _, i := range live {
		if slices.ContainsFunc(runs, func(r record.ActiveRun) bool {
			return r.ID == i.RunID &&
				r.ProjectID == project
		}) {
			out.LiveAgents++
		}
	}
	return out, err
}
