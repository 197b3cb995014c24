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
	// acks are the halves that the keeper reports to the harness once they are on disk.
	acks  []Half
	audit []audit.Record
	head  *contract.AuditHead
	// injections are additions of hooks to the system prompt.
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
	// reserved are new model calls, settled finished ones. Calls in granted are allowed once they are on disk; claim
	// is a new call that the budgets must allow too.
	reserved []record.Spend
	granted  []record.Spend
	settled  []record.Settlement
	claim    *record.Claim
	// boundary is the root agent's step that the halves complete, if another request follows it, else 0. told says
	// that the harness already has the news (routes, todos, messages) for that request; steers are those messages.
	boundary int
	told     bool
	steers   []record.Steer
	// done are closed when the job is on disk and the writer has its frames.
	done []chan struct{}
	// question is a request for approval.
	question *question
	// end is the end of the run, released the state to be handed over. A job with either is the last one.
	end      *ending
	released *record.RunReleased
	// now asks for a commit without delay, because the run waits for it. soon says that a model request follows at
	// once. wakes marks a job without content, which only makes the keeper commit.
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
	j.end, j.released, j.question, j.claim = next.end, next.released, next.question, next.claim
	j.now, j.soon, j.wakes = j.now || next.now, j.soon || next.soon, j.wakes && next.wakes
}

// unask removes the root agent's next request from the job of a run that ends before that request.
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
	// revision is the revision of the configuration from which the harness has its routes.
	revision uint64
	// shown is the time at which the budgets were last shown.
	shown time.Time
}

// keep commits jobs until the channel is closed. After a failed commit, such as one without the session's lease, it
// commits no more, and the session's next holder ends the run.
func (k *keeper) keep() {
	for j := range k.jobs {
		k.foretell(&j)
		k.gather(&j)
		if j.wakes || errors.Is(k.reason(), errAbandoned) {
			continue
		}
		if err := k.commit(j); err != nil {
			if !errors.Is(err, fault.StaleLease) && !errors.Is(k.reason(), errAbandoned) {
				k.Log.Error("a run could not be stored; the session's next holder ends it", "run", k.ID(), "error", err)
			}
			k.Abandon()
		}
	}
}

// gather adds further jobs to j: those of the next HoldBack, up to the first with now, and all that are queued then.
// So agents that work side by side share a commit.
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
func (j *job) last() bool {
	return j.end != nil || j.released != nil || j.question != nil || j.claim != nil
}

// shortly bounds the time that results wait for the audit record of the request that follows them.
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
	if j.boundary > 0 && j.end == nil && k.leaves() {
		j.unask()
	}
	change, between, err := k.change(j)
	if err != nil {
		return err
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
	if j.released != nil {
		k.mu.Lock()
		k.handed = true
		k.mu.Unlock()
		return nil
	}
	if j.end == nil {
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

// change returns the records of j as one change, and the crash point between its transaction and its frames.
func (k *keeper) change(j job) (record.Change, crash.Point, error) {
	change := record.Change{
		Reserved: j.reserved, Settled: j.settled, Ledger: j.ledger,
		At: now(), Steps: j.halves, Audit: j.audit, Cage: j.cage, Cages: j.cages, Files: j.files,
		Session: record.Patch{AuditHead: j.head, Injections: j.injections},
	}
	if k.worked.bounded() || j.end != nil || j.released != nil {
		change.Worked = &record.RunWorked{RunID: k.ID(), Time: k.worked.total()}
	}
	if j.boundary > 0 && j.end == nil {
		change.Boundary = &record.Boundary{RunID: k.ID(), Step: j.boundary, Told: j.told, Steers: j.steers}
	}
	between := crash.Point("")
	if j.released != nil {
		k.release(&change, *j.released)
		between = crash.RunReleased
	}
	for _, i := range j.started {
		if err := began(k.Renderer, &change, i); err != nil {
			return change, between, err
		}
		between = crash.AgentStarted
	}
	for _, o := range j.ended {
		if err := o.write(k.Renderer, &change, k.spec.Session, k.spec.RequestID); err != nil {
			return change, between, err
		}
		between = crash.AgentEnded
	}
	for _, c := range j.compactions {
		if c.Compactor != nil {
			crash.At(crash.SummaryPaid)
		}
		if err := Compacted(k.Renderer, &change, c); err != nil {
			return change, between, err
		}
	}
	if j.end != nil {
		if err := j.end.describe(k.Run, &change); err != nil {
			return change, between, err
		}
		crash.At(crash.RunEndBeforeStore)
		between = crash.RunEndStored
	}
	if j.question != nil {
		if err := k.asked(&change, j.question); err != nil {
			return change, between, err
		}
		between = crash.ApprovalStored
	}
	return change, between, nil
}

// passing passes the crash point of each half: turn or results for a step of the root agent, childTurn or childResults
// for one of an agent below it.
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

// foretell sends the harness the news for the root agent's next request before the step's results are on disk. So
// the harness prepares the request meanwhile, and its audit record is committed with the results. A run that ends
// at this step gets no news.
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

// tell reports to the harness the halves that are on disk. The report of a root agent's results carries the messages
// that the boundary delivers; it is left out if foretell has sent it, or if the run ends at this step.
func (k *keeper) tell(j job, at *record.Boundary) {
	for _, half := range j.acks {
		var steers []record.Steer
		if half.Results && half.InvocationID == "" {
			if j.told {
				continue
			}
			if at != nil {
				steers = at.Steers
			}
		}
		k.inform(half, steers)
	}
}

// inform tells the harness that a half is stored, with the news for the request that follows.
func (k *keeper) inform(half Half, steers []record.Steer) {
	k.mu.Lock()
	stream := k.stream
	k.mu.Unlock()
	news := News{Routes: k.routes()}
	if half.Results && half.InvocationID == "" {
		news.Todos, news.Steers = k.todos(k.life), steersOf(steers)
	}
	_ = stream.Stored(half, news) // the relay also notices a broken stream
}

// routes returns the present routes if the configuration has changed since the harness got its routes, else nil. It
// also returns nil, so that the harness keeps them, if the configuration is unusable or leaves an alias unbound.
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
