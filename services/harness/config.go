package harness

import (
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm/wire"
	"kaged.dev/pkg/rpc"
	"kaged.dev/services/harness/internal/core/loop"
)

// Config is [services.harness] in local.toml. Sizes are bytes.
type Config struct {
	// CatalogueTTL is how long the tool runner's catalogue is believed.
	CatalogueTTL config.Duration `toml:"catalogue_ttl"`
	// MaxHistoryBytes is how large a conversation may be.
	MaxHistoryBytes int `toml:"max_history_bytes"`
	// ConnectTimeout is how long connecting to a provider may take.
	ConnectTimeout config.Duration `toml:"connect_timeout"`
	// ModelIdle is the longest silence of a provider, ModelLongest the longest wait for one answer in all, signs of
	// life included, MaxAnswerBytes the largest answer, at most 16 MiB, the size of one message to session-manager.
	ModelIdle      config.Duration `toml:"model_idle"`
	ModelLongest   config.Duration `toml:"model_longest"`
	MaxAnswerBytes int             `toml:"max_answer_bytes"`
	// LargeAnswersBytes bounds the memory of answers of more than 1 MiB while they come in, each counted as
	// max_answer_bytes. Further ones are read no further until one of them is whole; their providers wait.
	LargeAnswersBytes int64 `toml:"large_answers_bytes"`
	// EncodedBytes bounds the memory of encoded conversations, which are kept from one request of a run to the next. Past
	// it, and with 0, a conversation is encoded anew for each request.
	EncodedBytes int64 `toml:"encoded_bytes"`
	// RetryTries is how often the last target of an alias is asked, RetryDelay the time between the first two tries, which
	// doubles, RetryLongest the longest time that is waited.
	RetryTries   int             `toml:"retry_tries"`
	RetryDelay   config.Duration `toml:"retry_delay"`
	RetryLongest config.Duration `toml:"retry_longest"`
	// ParallelTools is how many tools of one turn run side by side.
	ParallelTools int `toml:"parallel_tools"`
	// ParallelAgents is how many children of a turn run side by side, TurnAgents how many a turn may call. LiveAgents is
	// how many agents of a run may be at work at once, the root's included, unless session-manager names a number.
	ParallelAgents int `toml:"parallel_agents"`
	TurnAgents     int `toml:"turn_agents"`
	LiveAgents     int `toml:"live_agents"`
	// LoopCalls is how often an agent may make the same call with the same result in a row before it is told, LoopCycles
	// how often the same two or three calls. If it goes on, it is ended.
	LoopCalls  int `toml:"loop_calls"`
	LoopCycles int `toml:"loop_cycles"`
	// CageLeave is how long the end of a run waits for its cage to end and for its writable folders to be searched.
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
		RetryTries:        run.Tries, RetryDelay: config.Duration(run.FirstDelay),
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

// Validate refuses limits that would make every run fail.
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
