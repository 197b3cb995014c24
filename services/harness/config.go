package harness

import (
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/rpc"
	"kaged.dev/services/harness/internal/core/loop"
)

// Config is [services.harness] in local.toml. Sizes are in bytes.
type Config struct {
	// CatalogueTTL is the lifetime of the cached catalogue of the tool runner.
	CatalogueTTL config.Duration `toml:"catalogue_ttl"`
	// MaxHistoryBytes is the maximum size of a conversation.
	MaxHistoryBytes int `toml:"max_history_bytes"`
	// ConnectTimeout is the maximum time to connect to a provider.
	ConnectTimeout config.Duration `toml:"connect_timeout"`
	// ModelIdle is the longest silence of a provider. ModelLongest is the maximum time of one answer, keep-alives
	// included. MaxAnswerBytes is the maximum size of an answer; it is at most 16 MiB, the size of one message to
	// session-manager.
	ModelIdle      config.Duration `toml:"model_idle"`
	ModelLongest   config.Duration `toml:"model_longest"`
	MaxAnswerBytes int             `toml:"max_answer_bytes"`
	// LargeAnswersBytes is the memory for incoming answers of more than 1 MiB. Each counts as max_answer_bytes. Further
	// large answers wait until one of them is complete.
	LargeAnswersBytes int64 `toml:"large_answers_bytes"`
	// EncodedBytes is the memory for encoded conversations, which are cached between the requests of a run. A
	// conversation without a place in the cache is encoded again for each request; 0 turns the cache off.
	EncodedBytes int64 `toml:"encoded_bytes"`
	// KeptSessions is the number of sessions with conversations that are kept between runs; 0 turns this off. KeptBytes is
	// the memory for them, their encoded form included. KeptFor is the time after which a conversation without a run is
	// dropped.
	KeptSessions int             `toml:"kept_sessions"`
	KeptBytes    int             `toml:"kept_bytes"`
	KeptFor      config.Duration `toml:"kept_for"`
	// RetryTries is the number of attempts at the last target of an alias. RetryDelay is the delay before the second
	// attempt; it doubles with each attempt. RetryLongest is the longest delay.
	RetryTries   int             `toml:"retry_tries"`
	RetryDelay   config.Duration `toml:"retry_delay"`
	RetryLongest config.Duration `toml:"retry_longest"`
	// ParallelTools is the maximum number of tools of one turn that run at once.
	ParallelTools int `toml:"parallel_tools"`
	// ParallelAgents is the maximum number of children of one turn that run at once. TurnAgents is the maximum number
	// of children that one turn may call. LiveAgents is the maximum number of agents of a run that work at once, the
	// root agent included; a number from session-manager overrides it.
	ParallelAgents int `toml:"parallel_agents"`
	TurnAgents     int `toml:"turn_agents"`
	LiveAgents     int `toml:"live_agents"`
	// LoopCalls is the number of equal calls in a row, with equal results, after which an agent is warned. LoopCycles
	// is that number for a cycle of two or three calls. If the agent repeats them after the warning, it is ended.
	LoopCalls  int `toml:"loop_calls"`
	LoopCycles int `toml:"loop_cycles"`
	// CageLeave is the longest wait, at the end of a run, for the end of its cage and the search of its writable
	// folders.
	CageLeave config.Duration `toml:"cage_leave"`
}

// DefaultConfig returns the specification's values.
func DefaultConfig() Config {
	run := loop.DefaultLimits()
	return Config{
		CatalogueTTL: config.Duration(30 * time.Second), MaxHistoryBytes: 64 << 20,
		ConnectTimeout: config.Duration(wire.DefaultConnect),
		ModelIdle:      config.Duration(wire.DefaultIdle), ModelLongest: config.Duration(wire.DefaultLongest),
		MaxAnswerBytes:    wire.DefaultMaxAnswer,
		LargeAnswersBytes: wire.DefaultLarge,
		EncodedBytes:      128 << 20,
		KeptSessions:      256, KeptBytes: 64 << 20, KeptFor: config.Duration(15 * time.Minute),
		RetryTries: run.Tries, RetryDelay: config.Duration(run.FirstDelay),
		RetryLongest:  config.Duration(run.LongestDelay),
		ParallelTools: run.Parallel, ParallelAgents: run.Agents, TurnAgents: run.TurnAgents, LiveAgents: run.LiveAgents,
		LoopCalls: run.CallRepeats, LoopCycles: run.CycleRepeats, CageLeave: config.Duration(run.CageLeave),
	}
}

func (c Config) limits() loop.Limits {
	return loop.Limits{
		Tries: c.RetryTries, FirstDelay: c.RetryDelay.D(), LongestDelay: c.RetryLongest.D(), Parallel: c.ParallelTools,
		Agents: c.ParallelAgents, TurnAgents: c.TurnAgents, LiveAgents: c.LiveAgents,
		CallRepeats: c.LoopCalls, CycleRepeats: c.LoopCycles, CageLeave: c.CageLeave.D(),
	}
}

// Validate refuses values with which every run would fail.
func (c Config) Validate() error {
	switch {
	case c.CatalogueTTL < 0:
		return fault.New(fault.BadRequest, "services.harness.catalogue_ttl must not be negative.")
	case c.MaxHistoryBytes <= 0:
		return fault.New(fault.BadRequest, "services.harness.max_history_bytes must be greater than zero.")
	case c.ConnectTimeout <= 0:
		return fault.New(fault.BadRequest, "services.harness.connect_timeout must be greater than zero.")
	case c.ModelIdle <= 0:
		return fault.New(fault.BadRequest, "services.harness.model_idle must be greater than zero.")
	case c.ModelLongest <= 0:
		return fault.New(fault.BadRequest, "services.harness.model_longest must be greater than zero.")
	case c.MaxAnswerBytes <= 0:
		return fault.New(fault.BadRequest, "services.harness.max_answer_bytes must be greater than zero.")
	case c.MaxAnswerBytes > rpc.MaxMessage:
		return fault.New(fault.BadRequest,
			"services.harness.max_answer_bytes must be at most %d, which is what one message to session-manager can carry.",
			rpc.MaxMessage)
	case c.LargeAnswersBytes <= 0:
		return fault.New(fault.BadRequest, "services.harness.large_answers_bytes must be greater than zero.")
	case c.EncodedBytes < 0:
		return fault.New(fault.BadRequest, "services.harness.encoded_bytes must not be negative.")
	case c.KeptSessions < 0:
		return fault.New(fault.BadRequest, "services.harness.kept_sessions must not be negative.")
	case c.KeptBytes < 0:
		return fault.New(fault.BadRequest, "services.harness.kept_bytes must not be negative.")
	case c.KeptFor <= 0:
		return fault.New(fault.BadRequest, "services.harness.kept_for must be greater than zero.")
	case c.RetryTries <= 0:
		return fault.New(fault.BadRequest, "services.harness.retry_tries must be greater than zero.")
	case c.RetryDelay <= 0 || c.RetryLongest < c.RetryDelay:
		return fault.New(fault.BadRequest, "services.harness.retry_delay must be greater than zero, and retry_longest "+
			"no less.")
	case c.ParallelTools <= 0:
		return fault.New(fault.BadRequest, "services.harness.parallel_tools must be greater than zero.")
	case c.ParallelAgents <= 0:
		return fault.New(fault.BadRequest, "services.harness.parallel_agents must be greater than zero.")
	case c.TurnAgents <= 0:
		return fault.New(fault.BadRequest, "services.harness.turn_agents must be greater than zero.")
	case c.LiveAgents <= 0:
		return fault.New(fault.BadRequest, "services.harness.live_agents must be greater than zero.")
	case c.LoopCalls < 2:
		return fault.New(fault.BadRequest, "services.harness.loop_calls must be at least 2.")
	case c.LoopCycles < 2:
		return fault.New(fault.BadRequest, "services.harness.loop_cycles must be at least 2.")
	case c.CageLeave <= 0:
		return fault.New(fault.BadRequest, "services.harness.cage_leave must be greater than zero.")
	}
	return nil
}
