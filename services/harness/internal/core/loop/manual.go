package loop

import (
	"context"
	"sync"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/harness/internal/core/compact"
)

// Granter says whether a model call may be made, once its record is on disk.
type Granter func(context.Context, contract.CallWanted) (contract.CallGranted, error)

// Compact estimates the conversation of an agent between runs and, where the order has an id, compacts it or says
// the proposal of a compaction. Each model call waits for grant. It fails with not_found for an unknown agent.
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

// stageSink keeps the stages of a compaction and its model calls, for one goroutine.
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

// Stored implements [Sink]. There are no steps.
func (s *stageSink) Stored(context.Context, Half) (Stored, error) { return Stored{}, nil }

// Ask implements [Sink]. There are no tools.
func (s *stageSink) Ask(context.Context, string, contract.ApprovalRequested) (contract.Decision, error) {
	return contract.Decision{Verdict: contract.Denied}, nil
}

// Grant implements [Sink].
func (s *stageSink) Grant(ctx context.Context, _ string, w contract.CallWanted) (contract.CallGranted, error) {
	return s.grant(ctx, w)
}

// Meters remember how far off estimates were, by session, agent and model. They are lost with the process, and then
// the next answer corrects anew. A Meters is safe for concurrent use.
type Meters struct {
	mu   sync.Mutex
	kept map[meterKey]compact.Meter
}

type meterKey struct{ session, agent, model string }

// maxMeters bounds the remembered ones.
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

// meterOf names the meter of an agent's calls on a route.
func (v *invocation) meterOf(route contract.Route) meterKey {
	t := route.Targets[0]
	return meterKey{v.start.SessionID, v.agent.Path, t.Provider + ":" + t.Model}
}

// recall takes over the corrections of the session's last run.
func (v *invocation) recall(route contract.Route) {
	if v.parent == nil && !v.room.meter.Calibrated() {
		v.room.meter = v.deps.Meters.get(v.meterOf(route))
	}
}

// learn remembers the corrections for the next run.
func (v *invocation) learn(route contract.Route) {
	if v.parent == nil && !v.mute {
		v.deps.Meters.put(v.meterOf(route), v.room.meter)
	}
}
