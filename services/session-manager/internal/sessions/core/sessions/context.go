package sessions

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/page"
	"kaged.dev/services/session-manager/internal/projects/core/approval"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
	"kaged.dev/services/session-manager/internal/sessions/core/record"
	"kaged.dev/services/session-manager/internal/sessions/core/runs"
)

// Compactor estimates and compacts conversations between runs.
type Compactor interface {
	// Compact estimates or compacts a conversation, as order says; each model call waits for grant. It fails with
	// unavailable if the harness cannot be reached.
	Compact(ctx context.Context, s runs.Start, order contract.CompactOrder, grant runs.Granter) (contract.Compacted, error)
}

// Ledger returns a page of a session's ledger, oldest first; a non-empty agent or kind filters the entries. It
// fails with not_found and validation_failed.
func (s *Service) Ledger(
	ctx context.Context, session, agent, kind string, limit int32, cursor string,
) (page.Page[contract.LedgerEntry], error) {
	none := page.Page[contract.LedgerEntry]{}
	req, err := page.Parse("ledger", limit, cursor)
	if err != nil {
		return none, err
	}
	if kind != "" && !slices.Contains(contract.LedgerKinds, contract.LedgerKind(kind)) {
		return none, check.Field("kind", "kind must be one of %s.", kindNames())
	}
	if _, err := s.find(ctx, session); err != nil {
		return none, err
	}
	rows, err := s.Store.Ledger(ctx, session, agent, kind, req.After, req.Fetch())
	return page.Cut(req, rows, func(e contract.LedgerEntry) page.Key { return page.Key{N: e.Seq} }), err
}

func kindNames() string {
	names := make([]string, len(contract.LedgerKinds))
	for i, kind := range contract.LedgerKinds {
		names[i] = string(kind)
	}
	return strings.Join(names, ", ")
}

// ContextEstimate is the estimated use of an agent's context window.
type ContextEstimate struct {
	contract.ContextEstimate
	AgentPath string
}

// ContextEstimate returns the estimated use of an agent's context window by its stored conversation. Of a session that
// this process holds and that has no run, the estimate is kept for a short time while what it depends on stays. It
// fails with not_found, project_not_ready and unavailable.
func (s *Service) ContextEstimate(ctx context.Context, session, agent string) (ContextEstimate, error) {
	of, err := s.find(ctx, session)
	if err != nil {
		return ContextEstimate{}, err
	}
	w, err := s.inputs(ctx, of, agent)
	if err != nil {
		return ContextEstimate{}, err
	}
	l, release, ok := s.Live.Live(session)
	if !ok {
		e, err := s.estimate(ctx, &w, stored{s.Store, session})
		return ContextEstimate{ContextEstimate: e, AgentPath: w.agent}, err
	}
	defer release()
	key := live.EstimateKey{
		Agent: w.agent, Metered: w.start.Metered(), MaxOutputTokens: of.Overrides.MaxOutputTokens,
		Injections: len(of.Injections),
	}
	e, ok := l.Estimate(key, &w.start.Inputs)
	if !ok {
		stamp := l.Stamp()
		if e, err = s.estimate(ctx, &w, l); err == nil {
			l.KeepEstimate(key, w.start.Inputs, stamp, e)
		}
	}
	return ContextEstimate{ContextEstimate: e, AgentPath: w.agent}, err
}

// estimate reads the contents of w and estimates them.
func (s *Service) estimate(ctx context.Context, w *conversation, from contents) (contract.ContextEstimate, error) {
	if err := w.read(ctx, from); err != nil {
		return contract.ContextEstimate{}, err
	}
	out, err := s.Compactor.Compact(ctx, w.start, contract.CompactOrder{Agent: w.agent}, asksNone)
	return out.Estimate, err
}

// asksNone refuses every model call: estimates and proposals make none.
func asksNone(_ context.Context, w contract.CallWanted) contract.CallGranted {
	return contract.CallGranted{Call: w.Call, Err: fault.New(fault.BadRequest, "An estimate makes no model call.")}
}

// conversation is the stored conversation of an agent with the inputs of an estimate or a compaction.
type conversation struct {
	start    runs.Start
	messages []record.Message
	agent    string
	strategy string // the agent's configured strategy
}

// rootPath is the tree path of the root agent.
const rootPath = "primary"

// conversation reads the stored conversation of an agent, "" for the root agent. It fails with not_found for an unknown
// agent.
func (s *Service) conversation(ctx context.Context, of record.Session, agent string) (conversation, error) {
	w, err := s.inputs(ctx, of, agent)
	if err != nil {
		return w, err
	}
	return w, w.read(ctx, stored{s.Store, of.ID})
}

// inputs returns the conversation of an agent, "" for the root agent, without its contents. It fails with not_found
// for an unknown agent.
func (s *Service) inputs(ctx context.Context, of record.Session, agent string) (conversation, error) {
	w := conversation{agent: cmp.Or(agent, rootPath), strategy: contract.StrategyDrop}
	inputs, err := s.Projects.Prepare(ctx, live.PinOf(of))
	if err != nil {
		return w, err
	}
	if !slices.ContainsFunc(inputs.Snapshot.Agents, func(a approval.Agent) bool { return a.Path == w.agent }) {
		return w, fault.New(fault.NotFound, "The project of this session has no agent %q.", w.agent).With("agent_path",
			w.agent)
	}
	w.strategy = cmp.Or(inputs.Snapshot.Strategies[w.agent], w.strategy)
	w.start = runs.Start{Routes: inputs.Routes, Spec: runs.Spec{
		Session: of, RequestID: ident.CallerFrom(ctx).RequestID, Inputs: inputs,
	}}
	return w, nil
}

// contents reads a session's conversation and its ledger.
type contents interface {
	History(ctx context.Context) (live.History, error)
	Ledger(ctx context.Context) (contract.Ledger, error)
}

func (w *conversation) read(ctx context.Context, from contents) error {
	history, err := from.History(ctx)
	if err != nil {
		return err
	}
	w.messages, w.start.Stored = history.Messages, history.Stored
	w.start.Ledger, err = from.Ledger(ctx)
	return err
}

// stored are the contents of a session in the store.
type stored struct {
	store   Store
	session string
}

// History implements [contents].
func (s stored) History(ctx context.Context) (live.History, error) {
	messages, err := s.store.History(ctx, s.session, 0)
	return live.History{Messages: messages, Stored: record.History(nil, messages...)}, err
}

// Ledger implements [contents].
func (s stored) Ledger(ctx context.Context) (contract.Ledger, error) {
	return s.store.RelevantLedger(ctx, s.session)
}
