package runs

import (
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/frames"
	"kaged.dev/services/session-manager/internal/core/projects"
	"kaged.dev/services/session-manager/internal/core/record"
)

// CageAtStart is the status of the root agent's cage before the harness has said anything about it.
func CageAtStart(s *projects.Snapshot) record.CageStatus {
	if s.Caged {
		return record.CagePending
	}
	return record.Uncaged
}

// cage stores and shows what became of the agent's cage.
func (l *relay) cage(e CageChanged) error {
	j := job{audit: []audit.Record{l.about(e.Audit)}}
	if e.Ended == "" {
		j.cage = &record.RunCage{RunID: l.ID(), Status: e.Status}
	}
	l.keep(j)
	return l.emit(frames.RunCage{
		RunID: l.ID(), AgentPath: e.AgentPath, Status: string(e.Status), Tier: e.Tier, BestEffort: e.BestEffort, Policy: e.Summary, Ended: e.Ended,
		Notes: e.Notes, Found: e.Found,
	})
}

// network records and shows what the cage tried to reach.
func (l *relay) network(e NetworkTried) error {
	l.keep(job{audit: []audit.Record{l.about(e.Audit)}})
	return l.emit(frames.NetworkAttempted{
		RunID: l.ID(), AgentPath: e.AgentPath, At: e.At, Target: e.Target, Allowed: e.Allowed, Rule: e.Rule, Count: e.Count,
	})
}
