package runs

import (
	"errors"
	"slices"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/crash"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
)

// job is a set of records to be stored, in the order of their events.
type job struct {
	halves []record.StepHalf
	// acks are the halves that the harness is told of once they are on disk.
	acks  []Half
	audit []audit.Record
	head  *contract.AuditHead
	// injections are what hooks add to the system prompt.
	injections *[]contract.Injection
	cage       *record.RunCage
	cages      []record.InvocationCage
	files      []record.InvocationFiles
	// started and ended are invocations.
	started []record.Invocation
	ended   []overAgent
	// compactions are completed ones, ledger are new entries.
	compactions []record.Compaction
	ledger      []contract.LedgerEntry
	// reserved and settled are model calls. The harness waits for the word that those in granted are on disk; claim is
	// one that waits for the budgets, too.
	reserved []record.Spend
	granted  []record.Spend
	settled  []record.Settlement
	claim    *record.Claim
	// boundary is the step of the root agent that the halves complete and another request follows, else 0. told says that
	// the harness has the news for that request, and steers are the messages among them.
	boundary int
	told     bool
	steers   []record.Steer
	// done are closed when the job is on disk and its frames are in the writer's hands.
	done []chan struct{}
	// question is a request for approval.
	question *question
	// end is the end of the run and the last job.
	end *ending
	// now says that a reader waits for it, soon that a request follows at once. A job that only wakes the keeper has no
	// content.
	now, soon, wakes bool
}

func (j *job) add(next job) {
	j.halves = append(j.halves, next.halves...)
	j.acks = append(j.acks, next.acks...)
	j.audit = append(j.audit, next.audit...)
	j.cages = append(j.cages, next.cages...)
	j.files = append(j.files, next.files...)
	j.started = append(j.started, next.started...)
	j.ended = append(j.ended, next.ended...)
	j.done = append(j.done, next.done...)
	j.compactions = append(j.compactions, next.compactions...)
	j.ledger = append(j.ledger, next.ledger...)
	if next.head != nil {
		j.head = next.head
	}
	if next.injections != nil {
		j.injections = next.injections
	}
	if next.cage != nil {
		j.cage = next.cage
	}
	if next.boundary > 0 {
		j.boundary, j.told, j.steers = next.boundary, next.told, next.steers
	}
	j.reserved = append(j.reserved, next.reserved...)
	j.granted = append(j.granted, next.granted...)
	j.settled = append(j.settled, next.settled...)
	j.end, j.question, j.claim = next.end, next.question, next.claim
	j.now, j.soon, j.wakes = j.now || next.now, j.soon || next.soon, j.wakes && next.wakes
}

// unask takes the root agent's next request out of the job: the run is to end before it.
func (j *job) unask() {
	of := func(s record.Spend) bool { return s.InvocationID == "" }
	j.reserved, j.granted = slices.DeleteFunc(j.reserved, of), slices.DeleteFunc(j.granted, of)
	if j.claim != nil && of(j.claim.Spend) {
		j.claim = nil
	}
}

// keeper commits jobs. It is used by one goroutine.
type keeper struct {
	*Run
	// revision is that of the routes the harness has.
	revision uint64
	// shown is when the budgets of the session and the operator were shown.
	shown time.Time
}

// keep commits jobs until there are no more. When one cannot be committed because the session is no longer ours,
// the rest is left to the next holder.
func (k *keeper) keep() {
	for j := range k.jobs {
		k.foretell(&j)
		k.gather(&j)
		if j.wakes || errors.Is(k.reason(), errAbandoned) {
			continue
		}
		if err := k.commit(j); err != nil {
			if !errors.Is(err, fault.StaleLease) && !errors.Is(k.reason(), errAbandoned) {
				k.Log.Error("a run cannot be kept; the session's next holder ends it", "run", k.ID(), "error", err)
			}
			k.Abandon()
		}
	}
}

// gather adds the jobs that follow within HoldBack, up to an awaited one, and those that have come meanwhile: agents
// at work side by side share a commit.
func (k *keeper) gather(j *job) {
	k.awaitMore(j)
	for !j.last() {
		select {
		case next, ok := <-k.jobs:
			if !ok {
				return
			}
			k.foretell(&next)
			j.add(next)
		default:
			return
		}
	}
}

// last reports whether no job may be added.
func (j *job) last() bool { return j.end != nil || j.question != nil || j.claim != nil }

// shortly is how long results wait for the record of the request that follows them.
const shortly = 5 * time.Millisecond

func (k *keeper) awaitMore(j *job) {
	if j.now {
		return
	}
	timer := time.NewTimer(k.HoldBack)
	defer timer.Stop()
	var soon <-chan time.Time
	for !j.now {
		if j.soon && soon == nil {
			soon = time.After(min(shortly, k.HoldBack))
		}
		select {
		case <-soon:
			return
		case next, ok := <-k.jobs:
			if !ok {
				return
			}
			k.foretell(&next)
			j.add(next)
		case <-timer.C:
			return
		}
	}
}

func (k *keeper) commit(j job) error {
	leaves := j.boundary > 0 && j.end == nil && k.leaves()
	if leaves {
		j.unask()
	}
	change := record.Change{
		Reserved: j.reserved, Settled: j.settled, Ledger: j.ledger,
		At: now(), Steps: j.halves, Audit: j.audit, Cage: j.cage, Cages: j.cages, Files: j.files,
		Session: record.Patch{AuditHead: j.head, Injections: j.injections},
	}
	if k.worked.bounded() || j.end != nil {
		change.Worked = &record.RunWorked{RunID: k.ID(), Time: k.worked.total()}
	}
	if j.boundary > 0 && j.end == nil {
		change.Boundary = &record.Boundary{RunID: k.ID(), Step: j.boundary, Told: j.told, Steers: j.steers}
	}
	between := crash.Point("")
	for _, i := range j.started {
		if err := began(k.Renderer, &change, i); err != nil {
			return err
		}
		between = crash.AgentStarted
	}
	for _, o := range j.ended {
		if err := o.write(k.Renderer, &change, k.spec.Session, k.spec.RequestID); err != nil {
			return err
		}
		between = crash.AgentEnded
	}
	for _, c := range j.compactions {
		if c.Compactor != nil {
			crash.At(crash.SummaryPaid)
		}
		if err := Compacted(k.Renderer, &change, c); err != nil {
			return err
		}
	}
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
	passing(j.acks, crash.TurnBeforeStore, crash.ResultsBeforeStore, "", "")
	if err := k.writer.Commit(k.life, change, between); err != nil {
		return err
	}
	if len(j.settled) > 0 {
		crash.At(crash.BudgetSettled)
	}
	if len(j.compactions) > 0 {
		crash.At(crash.CompactionStored)
	}
	if len(j.granted) > 0 || j.claim != nil {
		crash.At(crash.RequestAudited)
	}
	passing(j.acks, crash.TurnStored, crash.ResultsStored, crash.ChildTurnStored, crash.ChildResultsStored)
	for _, done := range j.done {
		close(done)
	}
	if j.question != nil {
		k.await(j.question)
	}
	if j.end == nil {
		if leaves && k.atBoundary() {
			return nil
		}
		k.tell(j, change.Boundary)
	}
	for _, s := range j.granted {
		k.grant(s, record.Verdict{})
	}
	if j.claim != nil {
		return k.judge(*j.claim)
	}
	return nil
}

// passing passes the points of halves of the root's steps, and those of the agents below it.
func passing(halves []Half, turn, results, childTurn, childResults crash.Point) {
	for _, h := range halves {
		switch {
		case h.InvocationID == "" && h.Results:
			crash.At(results)
		case h.InvocationID == "":
			crash.At(turn)
		case h.Results:
			crash.At(childResults)
		default:
			crash.At(childTurn)
		}
	}
}

// foretell lets the harness make the request that follows a step of the root agent while its results are on their way
// to disk: it has the news for that, and the record of the request is committed with the results. A run that is to end
// at the step has no such request.
func (k *keeper) foretell(j *job) {
	if j.boundary == 0 {
		return
	}
	if k.leaves() {
		j.now = true
		return
	}
	j.told, j.steers = true, k.writer.Waiting()
	for _, half := range j.acks {
		if half.Results && half.InvocationID == "" {
			k.inform(half, j.steers)
		}
	}
}

// tell lets the harness know which halves are on disk, unless the run ends here. When the root has the results of a
// step, those that it called are over, and it reads the messages that the boundary delivers.
func (k *keeper) tell(j job, at *record.Boundary) {
	for _, half := range j.acks {
		var steers []record.Steer
		if half.Results && half.InvocationID == "" {
			if j.told {
				continue
			}
			if k.atBoundary() {
				return
			}
			if at != nil {
				steers = at.Steers
			}
		}
		k.inform(half, steers)
	}
}

// inform tells the harness of a half, with the news for the request that follows.
func (k *keeper) inform(half Half, steers []record.Steer) {
	k.mu.Lock()
	stream := k.stream
	k.mu.Unlock()
	news := News{Routes: k.routes()}
	if half.Results && half.InvocationID == "" {
		news.Todos, news.Steers = k.todos(k.life), steersOf(steers)
	}
	_ = stream.Stored(half, news) // the relay sees a broken stream too
}

// routes returns the routes as of now if they are others than the harness has. While the operator's configuration
// cannot be used, or leaves an alias unbound, those it has stay.
func (k *keeper) routes() map[string]contract.Route {
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
