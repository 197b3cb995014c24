package runs

import (
	"kaged.dev/pkg/contract"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// CageAtStart returns the status of the root agent's cage before the harness reports on it.
func CageAtStart(s *projects.Snapshot) contract.CageStatus {
	if s.Caged {
		return contract.CagePending
	}
	return contract.Uncaged
}

// cage stores and shows the new state of an agent's cage.
func (l *relay) cage(a *agent, e contract.CageChanged) error {
	j := job{audit: l.abouts(e.Audit)}
	switch {
	case e.Ended != "":
	case a.ID == "":
		j.cage = &record.RunCage{RunID: l.ID(), Status: e.Status}
	default:
		a.Cage = e.Status
		j.cages = []record.InvocationCage{{ID: a.ID, Status: e.Status}}
	}
	l.keep(j)
	return l.emit(frames.RunCage{
		RunID: l.ID(), InvocationID: a.ID, AgentPath: e.Audit.Agent, Status: string(e.Status), Tier: e.Tier,
		BestEffort: e.BestEffort,
		Policy:     e.Summary, Ended: e.Ended, Notes: e.Notes, Found: e.Found,
	})
}
