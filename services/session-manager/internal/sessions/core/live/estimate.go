package live

import (
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/services/session-manager/internal/projects/core/projects"
)

// Stamp identifies the state of a session's conversation and ledger: equal stamps of one [Session] are of equal states.
type Stamp struct{ messages, shaped, entries int64 }

// Stamp returns the present stamp. What is read after it may be newer.
func (s *Session) Stamp() Stamp {
	return Stamp{s.Record().MessageCount, s.Shaped(), s.ledger.changes()}
}

// EstimateKey is what an estimate of a context depends on beside the conversation, the ledger and the inputs of runs.
type EstimateKey struct {
	Agent string
	// Metered and MaxOutputTokens bound the room for the answer, 0 for no limit of the session.
	Metered         bool
	MaxOutputTokens int32
	// Injections is the number of texts that hooks have added.
	Injections int
}

// keptEstimates caches the last estimate of each agent's context. It is safe for concurrent use.
type keptEstimates struct {
	mu sync.Mutex
	of map[string]keptEstimate
}

type keptEstimate struct {
	key      EstimateKey
	stamp    Stamp
	inputs   projects.Inputs // without texts
	made     time.Time
	estimate contract.ContextEstimate
}

// estimateAge is the longest use of an estimate. The list of a workspace's tools has no stamp.
const estimateAge = time.Minute

// Estimate returns the estimate that KeepEstimate was given for the present stamp, the same key and the same inputs.
func (s *Session) Estimate(key EstimateKey, in *projects.Inputs) (e contract.ContextEstimate, ok bool) {
	stamp := s.Stamp()
	k := &s.estimates
	k.mu.Lock()
	defer k.mu.Unlock()
	kept, ok := k.of[key.Agent]
	return kept.estimate, ok && kept.key == key && kept.stamp == stamp && time.Since(kept.made) < estimateAge &&
		kept.inputs.Same(in)
}

// KeepEstimate caches an estimate of the conversation and ledger that were read after stamp was taken. During a run it
// does nothing, because each answer of the model corrects estimates.
func (s *Session) KeepEstimate(key EstimateKey, in projects.Inputs, stamp Stamp, e contract.ContextEstimate) {
	if s.Record().CurrentRun != "" {
		return
	}
	in.Prompts = nil
	k := &s.estimates
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[string]keptEstimate{}
	}
	k.of[key.Agent] = keptEstimate{key, stamp, in, time.Now(), e}
}
