package live

import (
	"sync"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// Stamp identifies the state of a session's conversation and ledger: equal stamps of one [Session] are of equal states.
type Stamp struct{ messages, shaped, entries int64 }

// Stamp returns the present stamp. What is read after it may be newer.
func (s *Session) Stamp() Stamp {
	return Stamp{s.Record().MessageCount, s.Shaped(), s.ledger.changes()}
}

// keptEstimates caches the last estimate of each agent's context. It is safe for concurrent use.
type keptEstimates struct {
	mu sync.Mutex
	of map[string]keptEstimate
}

type keptEstimate struct {
	stamp    Stamp
	inputs   projects.Inputs
	estimate contract.ContextEstimate
}

// Estimate returns the estimate of an agent's context that KeepEstimate was given for the present stamp and the same
// inputs.
func (s *Session) Estimate(agent string, in *projects.Inputs) (e contract.ContextEstimate, ok bool) {
	stamp := s.Stamp()
	k := &s.estimates
	k.mu.Lock()
	defer k.mu.Unlock()
	kept, ok := k.of[agent]
	return kept.estimate, ok && kept.stamp == stamp && kept.inputs.Same(in)
}

// KeepEstimate caches an estimate of the conversation and ledger that were read after stamp was taken.
func (s *Session) KeepEstimate(agent string, in projects.Inputs, stamp Stamp, e contract.ContextEstimate) {
	k := &s.estimates
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[string]keptEstimate{}
	}
	k.of[agent] = keptEstimate{stamp, in, e}
}
