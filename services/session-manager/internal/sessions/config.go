package sessions

import (
	"runtime"
	"time"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/check"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/sessions/core/live"
)

// Config is the keys of [services.session-manager] that are about sessions. Sizes are bytes.
type Config struct {
	// MaxContent is the largest message.
	MaxContent int `toml:"max_content"`
	// RunStarts is how many messages are stored, and their runs made ready, at the same time. The others wait: a
	// crowd that starts at once must not hold up runs at work. The default is one for each processor, and at least
	// 2. Of a hundred runs that began together on two cores, the latest deltas came 15 ms late with 1, 20 with 2
	// and 40 without a bound; where storing a message takes 20 ms, a hundred took 2.2 s with 1, 1.1 with 2 and 0.6
	// with 4.
	RunStarts int `toml:"run_starts"`
	// LeaseTTL is how long a session's lease lives without being renewed: how soon another process takes over from
	// one that died elsewhere. It is renewed three times as often.
	LeaseTTL config.Duration `toml:"lease_ttl"`
	// SweepInterval is the interval of looking for runs without a holder, and for ended sessions with an untold
	// workspace.
	SweepInterval config.Duration `toml:"sweep_interval"`
	// UnloadAfter is how long an unused session is kept in memory.
	UnloadAfter config.Duration `toml:"unload_after"`
	// LoadTimeout bounds taking a session over.
	LoadTimeout config.Duration `toml:"load_timeout"`
	// SettleTimeout is how long to find out whether a change with a lost answer was stored.
	SettleTimeout config.Duration `toml:"settle_timeout"`
	// ResumeLimit is how often one message is resumed after crashes, where the project wants that.
	ResumeLimit int `toml:"resume_limit"`
	// FrameBuffer is how much of a session may wait while NATS is away before its run is held up, FrameBatch how much goes
	// out as one message.
	FrameBuffer int `toml:"frame_buffer"`
	FrameBatch  int `toml:"frame_batch"`
	// FrameRetention is how long published frames can be read again by a client that was away, FrameStore how much of all
	// sessions is kept for that (the oldest go first), FrameReplicas how many servers of NATS keep a copy.
	FrameRetention config.Duration `toml:"frame_retention"`
	FrameStore     int64           `toml:"frame_store"`
	FrameReplicas  int             `toml:"frame_replicas"`
	// SeqInterval is how often the numbers of published frames are noted in the database.
	SeqInterval config.Duration `toml:"seq_interval"`
	// AttachTimeout is how long a socket waits until its session's channels are known.
	AttachTimeout config.Duration `toml:"attach_timeout"`
	// AttachWait is how long a socket waits for the one before it to be gone before it is told that the session is
	// attached: longer than a gateway takes to find out whether a client is still there.
	AttachWait config.Duration `toml:"attach_wait"`
	// HoldBack is how long an unawaited record may wait for company before it is stored.
	HoldBack config.Duration `toml:"hold_back"`
	// HarnessTimeout is how long a run waits for a harness that is not there.
	HarnessTimeout config.Duration `toml:"harness_timeout"`
	// CancelGrace is how long a cancelled run may take to report its results, StopTimeout how long a request to
	// cancel waits for its end.
	CancelGrace config.Duration `toml:"cancel_grace"`
	StopTimeout config.Duration `toml:"stop_timeout"`
	// ApprovalTimeout is how long a tool call waits for an operator before it counts as denied.
	ApprovalTimeout config.Duration `toml:"approval_timeout"`
	// ToolsTimeout is how long killing the commands of an ended session may take.
	ToolsTimeout config.Duration `toml:"tools_timeout"`
	// IdleDebounce is how long a session is idle before hooks that name no time of their own are called, HookTimeout how
	// long such a call may take.
	IdleDebounce config.Duration `toml:"idle_debounce"`
	HookTimeout  config.Duration `toml:"hook_timeout"`
	// ResumeTimeout is how long to try to resume a run, or to go on with one that was handed over, while its workspace or
	// the harness is not there yet, as after a start.
	ResumeTimeout config.Duration `toml:"resume_timeout"`
	// CutGrace is how long runs may take to store their end when the time to stop has come, Farewell how long the last
	// frames of a session may take to be published before its socket is told.
	CutGrace config.Duration `toml:"cut_grace"`
	Farewell config.Duration `toml:"farewell"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		MaxContent:      1 << 20,
		RunStarts:       max(2, runtime.GOMAXPROCS(0)),
		LeaseTTL:        config.Duration(5 * time.Second),
		SweepInterval:   config.Duration(2 * time.Second),
		UnloadAfter:     config.Duration(30 * time.Second),
		LoadTimeout:     config.Duration(30 * time.Second),
		SettleTimeout:   config.Duration(5 * time.Second),
		ResumeLimit:     3,
		FrameBuffer:     4 << 20,
		FrameBatch:      256 << 10,
		FrameRetention:  config.Duration(bus.DefaultRetention),
		FrameStore:      bus.DefaultMaxBytes,
		FrameReplicas:   1,
		SeqInterval:     config.Duration(time.Second),
		AttachTimeout:   config.Duration(10 * time.Second),
		AttachWait:      config.Duration(time.Second),
		HoldBack:        config.Duration(50 * time.Millisecond),
		HarnessTimeout:  config.Duration(10 * time.Second),
		CancelGrace:     config.Duration(5 * time.Second),
		StopTimeout:     config.Duration(30 * time.Second),
		ApprovalTimeout: config.Duration(10 * time.Minute),
		ToolsTimeout:    config.Duration(5 * time.Second),
		IdleDebounce:    config.Duration(30 * time.Second),
		HookTimeout:     config.Duration(10 * time.Second),
		ResumeTimeout:   config.Duration(time.Minute),
		CutGrace:        config.Duration(2 * time.Second),
		Farewell:        config.Duration(time.Second),
	}
}

// maxBatch is the size of one message of NATS, with room for its headers.
const maxBatch = 1<<20 - 4<<10

// Validate fails with bad_request for a value without a meaning.
func (c Config) Validate() error {
	if err := check.Positive(
		check.Setting{Key: "max_content", Value: int64(c.MaxContent)},
		check.Setting{Key: "run_starts", Value: int64(c.RunStarts)},
		check.Setting{Key: "lease_ttl", Value: int64(c.LeaseTTL)},
		check.Setting{Key: "sweep_interval", Value: int64(c.SweepInterval)},
		check.Setting{Key: "unload_after", Value: int64(c.UnloadAfter)},
		check.Setting{Key: "load_timeout", Value: int64(c.LoadTimeout)},
		check.Setting{Key: "settle_timeout", Value: int64(c.SettleTimeout)},
		check.Setting{Key: "idle_debounce", Value: int64(c.IdleDebounce)},
		check.Setting{Key: "hook_timeout", Value: int64(c.HookTimeout)},
		check.Setting{Key: "frame_buffer", Value: int64(c.FrameBuffer)},
		check.Setting{Key: "frame_batch", Value: int64(c.FrameBatch)},
		check.Setting{Key: "frame_retention", Value: int64(c.FrameRetention)},
		check.Setting{Key: "frame_store", Value: c.FrameStore},
		check.Setting{Key: "frame_replicas", Value: int64(c.FrameReplicas)},
		check.Setting{Key: "seq_interval", Value: int64(c.SeqInterval)},
		check.Setting{Key: "attach_timeout", Value: int64(c.AttachTimeout)},
		check.Setting{Key: "attach_wait", Value: int64(c.AttachWait)},
		check.Setting{Key: "hold_back", Value: int64(c.HoldBack)},
		check.Setting{Key: "harness_timeout", Value: int64(c.HarnessTimeout)},
		check.Setting{Key: "cancel_grace", Value: int64(c.CancelGrace)},
		check.Setting{Key: "stop_timeout", Value: int64(c.StopTimeout)},
		check.Setting{Key: "approval_timeout", Value: int64(c.ApprovalTimeout)},
		check.Setting{Key: "tools_timeout", Value: int64(c.ToolsTimeout)},
		check.Setting{Key: "resume_timeout", Value: int64(c.ResumeTimeout)},
		check.Setting{Key: "cut_grace", Value: int64(c.CutGrace)},
		check.Setting{Key: "farewell", Value: int64(c.Farewell)},
	); err != nil {
		return err
	}
	switch {
	case c.ResumeLimit < 0:
		return fault.New(fault.BadRequest, "resume_limit must not be negative.")
	case c.LeaseTTL < config.Duration(30*time.Millisecond):
		return fault.New(fault.BadRequest, "lease_ttl must be at least 30ms.")
	case c.FrameRetention < config.Duration(time.Second):
		return fault.New(fault.BadRequest, "frame_retention must be at least 1s.")
	case c.FrameReplicas > 5:
		return fault.New(fault.BadRequest, "frame_replicas must be at most 5, which is the most that NATS keeps.")
	case c.FrameBatch > maxBatch:
		return fault.New(fault.BadRequest, "frame_batch must be at most %d, which is what NATS takes as one message.",
			maxBatch)
	}
	return nil
}

// live returns the bounds of live sessions; a run that was handed over waits longer where workspaces are drained.
func (c Config) live(workspaceWait time.Duration) live.Config {
	return live.Config{
		LeaseTTL: c.LeaseTTL.D(), UnloadAfter: c.UnloadAfter.D(), Sweep: c.SweepInterval.D(), LoadTimeout: c.LoadTimeout.D(),
		Settle: c.SettleTimeout.D(), Buffer: c.FrameBuffer, Batch: c.FrameBatch, Flush: c.SeqInterval.D(),
		ResumeFor: c.ResumeTimeout.D(), AdoptFor: max(c.ResumeTimeout.D(), workspaceWait),
		CutGrace: c.CutGrace.D(), Farewell: c.Farewell.D(),
	}
}

func (c Config) frames() bus.FramesConfig {
	return bus.FramesConfig{Retention: c.FrameRetention.D(), MaxBytes: c.FrameStore, Replicas: c.FrameReplicas}
}
