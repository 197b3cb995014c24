package loop

import (
	"context"
	"sync"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/harness/internal/core/compact"
)

// Granter decides whether a model call may be made, after its record is on disk.
type Granter func(context.Context, contract.CallWanted) (contract.CallGranted, error)

// Compact estimates an agent's conversation between runs. If the order has an id, it also compacts the conversation,
// or in a dry run returns the proposed compaction. Each model call waits for grant. Compact fails with not_found for
// an unknown agent.
func Compact(
	ctx context.Context, deps Deps, start Start, order contract.CompactOrder, grant Granter,
) (contract.Compacted, error) {
	sink := &stageSink{grant: grant}
	t := New(deps, start, sink)
	agent := start.Agent
	for a := range start.Agent.Agents {
		if a.Path == order.Agent {
			agent = a
		}
	}
	if order.Agent != "" && agent.Path != order.Agent {
		return contract.Compacted{}, fault.New(fault.NotFound, "The project has no agent %q.", order.Agent)
	}
	v := &invocation{Tree: t, agent: agent, mute: true}
	if agent == start.Agent {
		v.history, v.sources, v.keptIDs = start.History, start.Sources, start.Kept
	}
	v.room.superseded = start.SupersededTurns
	v.open(t.whole)
	err := v.prepare(ctx)
	if err == nil && agent == start.Agent {
		err = v.startSession(ctx)
	}
	if err != nil {
		return contract.Compacted{}, err
	}
	route, err := v.route(agent.Model, agent == start.Agent)
	if err != nil {
		return contract.Compacted{}, err
	}
	v.recall(route)
	w := v.window(route)
	v.prune()
	v.room.asked = v.size()
	out := contract.Compacted{Pruned: v.talk.Pruned()}
	out.Estimate = contract.ContextEstimate{Input: v.room.meter.Tokens(v.room.asked), Reserved: w.reserved}
	if w.known {
		out.Estimate.Window = w.tokens
	}
	if missed, ok := v.room.meter.Error(); ok {
		out.Estimate.Error = &missed
	}
	out.Estimate.Calibrated = v.room.meter.Calibrated()
	if order.ID == "" {
		return out, nil
	}
	_, err = v.compact(ctx, w, shrinking{
		id: order.ID, trigger: contract.OperatorManual, strategy: order.Strategy, dry: order.Dry,
		target: min(w.target(), int64(w.lower*float64(out.Estimate.Input))),
	})
	out.Stages, out.Calls = sink.stages, sink.calls
	return out, err
}

// stageSink collects the stages of a compaction and its model calls. It belongs to one goroutine.
type stageSink struct {
	grant  Granter
	stages []contract.Compaction
	calls  []contract.Event // settled model calls, and records
}

// Emit implements [Sink].
func (s *stageSink) Emit(h contract.Happening) error {
	switch e := h.Event.(type) {
	case contract.Compaction:
		s.stages = append(s.stages, e)
	case contract.CallSettled, contract.Record:
		s.calls = append(s.calls, e)
	}
	return nil
}

// Stored implements [Sink]. A compaction has no steps.
func (s *stageSink) Stored(context.Context, Half) (Stored, error) { return Stored{}, nil }

// Ask implements [Sink]. A compaction calls no tools.
func (s *stageSink) Ask(context.Context, string, contract.ApprovalRequested) (contract.Decision, error) {
	return contract.Decision{Verdict: contract.Denied}, nil
}

// Grant implements [Sink].
func (s *stageSink) Grant(ctx context.Context, _ string, w contract.CallWanted) (contract.CallGranted, error) {
	return s.grant(ctx, w)
}

// Meters keep the corrections of token estimates by session, agent and model. They live in memory; after a restart
// the next answer corrects the estimates again. A Meters is safe for concurrent use.
type Meters struct {
	mu   sync.Mutex
	kept map[meterKey]compact.Meter
}

type meterKey struct{ session, agent, model string }

// maxMeters is the most meters that are kept. One more drops all of them.
const maxMeters = 4096

func (m *Meters) get(k meterKey) compact.Meter {
	if m == nil {
		return compact.Meter{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[k]
}

func (m *Meters) put(k meterKey, meter compact.Meter) {
	if m == nil || k.session == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) >= maxMeters || m.kept == nil {
		m.kept = map[meterKey]compact.Meter{}
	}
	m.kept[k] = meter
}

// meterOf returns the key of the meter for the agent's calls on a route.
func (v *invocation) meterOf(route contract.Route) meterKey {
	t := route.Targets[0]
	return meterKey{v.start.SessionID, v.agent.Path, t.Provider + ":" + t.Model}
}

// recall loads the corrections of the session's last run.
func (v *invocation) recall(route contract.Route) {
	if v.parent == nil && !v.room.meter.Calibrated() {
		v.room.meter = v.deps.Meters.get(v.meterOf(route))
	}
}

// learn keeps the corrections for the next run.
func (v *invocation) learn(route contract.Route) {
	if v.parent == nil && !v.mute {
		v.deps.Meters.put(v.meterOf(route), v.room.meter)
	}
}
