package runs

import (
	"errors"
	"time"

	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/core/audit"
	"kaged.dev/services/session-manager/internal/core/localconfig"
	"kaged.dev/services/session-manager/internal/core/projects"
	"kaged.dev/services/session-manager/internal/core/record"
)

// job is something to be kept, in the order it happened.
type job struct {
	halves []record.StepHalf
	// acks are the halves that the harness is told of once they are on disk.
	acks  []Half
	audit []audit.Record
	head  *record.AuditHead
	cage  *record.RunCage
	// question is a request for approval.
	question *question
	// end is the end of the run and the last job.
	end *ending
	// now says that somebody waits for it.
	now bool
}

func (j *job) add(next job) {
	j.halves = append(j.halves, next.halves...)
	j.acks = append(j.acks, next.acks...)
	j.audit = append(j.audit, next.audit...)
	if next.head != nil {
		j.head = next.head
	}
	if next.cage != nil {
		j.cage = next.cage
	}
	j.end, j.question = next.end, next.question
	j.now = j.now || next.now
}

// keeper commits jobs. It is used by one goroutine.
type keeper struct {
	*Run
	// revision is that of the routes the harness has.
	revision uint64
}

// keep commits jobs until there are no more. When one cannot be committed because the session is no longer ours, the rest
// is left to the next holder.
func (k *keeper) keep() {
	for j := range k.jobs {
		k.gather(&j)
		if k.reason() == errAbandoned {
			continue
		}
		if err := k.commit(j); err != nil {
			if !errors.Is(err, fault.StaleLease) && k.reason() != errAbandoned {
				k.Log.Error("a run cannot be kept; the session's next holder ends it", "run", k.ID(), "error", err)
			}
			k.Abandon()
		}
	}
}

// gather adds what follows within HoldBack, unless somebody waits.
func (k *keeper) gather(j *job) {
	if j.now {
		return
	}
	timer := time.NewTimer(k.HoldBack)
	defer timer.Stop()
	for !j.now {
		select {
		case next, ok := <-k.jobs:
			if !ok {
				return
			}
			j.add(next)
		case <-timer.C:
			return
		}
	}
}

func (k *keeper) commit(j job) error {
	change := record.Change{At: now(), Steps: j.halves, Audit: j.audit, Cage: j.cage, Session: record.Patch{AuditHead: j.head}}
	between := crash.Point("")
	if j.end != nil {
		if err := j.end.describe(k.Run, &change); err != nil {
			return err
		}
		crash.At(crash.RunEndBeforeStore)
		between = crash.RunEndStored
	}
	if j.question != nil {
		if err := k.asked(&change, j.question); err != nil {
			return err
		}
		between = crash.ApprovalStored
	}
	passing(j.acks, crash.TurnBeforeStore, crash.ResultsBeforeStore)
	if err := k.desk.Commit(k.life, change, between); err != nil {
		return err
	}
	passing(j.acks, crash.TurnStored, crash.ResultsStored)
	if j.question != nil {
		k.await(j.question)
	}
	if j.end == nil {
		k.tell(j.acks)
	}
	return nil
}

func passing(halves []Half, turn, results crash.Point) {
	for _, h := range halves {
		if h.Results {
			crash.At(results)
		} else {
			crash.At(turn)
		}
	}
}

// tell lets the harness know what is on disk, unless the run ends here.
func (k *keeper) tell(acks []Half) {
	for _, half := range acks {
		if half.Results && k.atBoundary() {
			return
		}
		k.mu.Lock()
		stream := k.stream
		k.mu.Unlock()
		if err := stream.Stored(half, k.routes()); err != nil {
			return // the relay sees the broken stream too
		}
	}
}

// routes returns the routes as of now if they are others than the harness has. While the operator's configuration cannot
// be used, or leaves an alias unbound, those it has stay.
func (k *keeper) routes() map[string]localconfig.Route {
	cfg, err := k.Config.Config(k.life, k.spec.Session.Owner)
	if err != nil || cfg.Revision() == k.revision {
		return nil
	}
	routes, err := projects.Routes(cfg, k.spec.Inputs.Snapshot, k.spec.Session.Overrides.Model)
	if err != nil {
		k.Log.Warn("a run keeps its routes: the new configuration leaves an alias unbound", "run", k.ID(), "error", err)
		return nil
	}
	k.revision = cfg.Revision()
	return routes
}
