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

// Config is the keys of [services.session-manager] for sessions. Sizes are bytes.
type Config struct {
	// MaxContent is the maximum size of a message.
	MaxContent int `toml:"max_content"`
	// RunStarts is the number of messages that are stored, and their runs prepared, at the same time; others wait, so
	// that many simultaneous starts do not delay active runs. The default is one for each processor, at least 2. Of a
	// hundred runs that began together on two cores, the latest deltas came 15 ms late with 1, 20 with 2 and 40
	// without a bound; if storing a message takes 20 ms, a hundred took 2.2 s with 1, 1.1 with 2 and 0.6 with 4.
	RunStarts int `toml:"run_starts"`
	// LeaseTTL is the lifetime of a session's lease that is not renewed. A process takes over the sessions of a dead
	// process on another node after this time. Leases are renewed three times in it.
	LeaseTTL config.Duration `toml:"lease_ttl"`
	// SweepInterval is the interval of the search for runs without a holder, and for ended sessions whose workspace
	// was not told.
	SweepInterval config.Duration `toml:"sweep_interval"`
	// UnloadAfter is the time after which an unused session is removed from memory.
	UnloadAfter config.Duration `toml:"unload_after"`
	// LoadTimeout bounds the loading of a session, including a takeover.
	LoadTimeout config.Duration `toml:"load_timeout"`
	// SettleTimeout bounds the retries that find out whether a change was stored after its answer was lost.
	SettleTimeout config.Duration `toml:"settle_timeout"`
	// ResumeLimit is the number of times that one message is resumed after crashes, if the project wants that.
	ResumeLimit int `toml:"resume_limit"`
	// FrameBuffer bounds the unpublished frames of a session while NATS is unreachable; beyond it the run waits.
	// FrameBatch is the size up to which frames are joined into one message to NATS.
	FrameBuffer int `toml:"frame_buffer"`
	FrameBatch  int `toml:"frame_batch"`
	// FrameRetention is the time for which a reconnecting client can read published frames again, FrameStore the
	// maximum size of the frames of all sessions in NATS (the oldest are dropped), FrameReplicas the number of NATS
	// servers that store a copy.
	FrameRetention config.Duration `toml:"frame_retention"`
	FrameStore     int64           `toml:"frame_store"`
	FrameReplicas  int             `toml:"frame_replicas"`
	// SeqInterval is the interval at which the numbers of published frames are stored in the database.
	SeqInterval config.Duration `toml:"seq_interval"`
	// AttachTimeout bounds the wait of a socket until the ends of its session's channels are known.
	AttachTimeout config.Duration `toml:"attach_timeout"`
	// AttachWait bounds the wait of a new socket for the attached one to go, before the new one is refused with
	// session_attached. It is longer than a gateway needs to notice that a client is gone.
	AttachWait config.Duration `toml:"attach_wait"`
	// HoldBack bounds the time that an unawaited record waits for others to share its transaction.
	HoldBack config.Duration `toml:"hold_back"`
	// HarnessTimeout bounds the wait of a run for an unreachable harness.
	HarnessTimeout config.Duration `toml:"harness_timeout"`
	// CancelGrace is the time that a cancelled run has to report its results, StopTimeout bounds the wait of a cancel
	// request for the run's end.
	CancelGrace config.Duration `toml:"cancel_grace"`
	StopTimeout config.Duration `toml:"stop_timeout"`
	// ApprovalTimeout is the time after which an unanswered approval expires and its call is refused.
	ApprovalTimeout config.Duration `toml:"approval_timeout"`
	// ToolsTimeout bounds the killing of an ended session's commands.
	ToolsTimeout config.Duration `toml:"tools_timeout"`
	// IdleDebounce is the time without a run after which hooks for idle sessions are called, unless a hook has a time
	// of its own. HookTimeout bounds one call.
	IdleDebounce config.Duration `toml:"idle_debounce"`
	HookTimeout  config.Duration `toml:"hook_timeout"`
	// ResumeTimeout bounds the retries to resume a run, or to continue one that was handed over, while its workspace
	// or the harness is unavailable, as after a start.
	ResumeTimeout config.Duration `toml:"resume_timeout"`
	// CutGrace is the time that runs have to store their end when the process must stop, Farewell bounds the wait for
	// the last frames of a session to be published before its socket is told.
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

// maxBatch is the maximum size of one NATS message, less room for its headers.
const maxBatch = 1<<20 - 4<<10

// Validate fails with bad_request for an invalid value.
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
		return fault.New(fault.BadRequest, "frame_replicas must be at most 5, the maximum of NATS.")
	case c.FrameBatch > maxBatch:
		return fault.New(fault.BadRequest, "frame_batch must be at most %d, the maximum size of a NATS message.",
			maxBatch)
	}
	return nil
}

// live returns the settings of live sessions. AdoptFor is at least workspaceWait, for runs in drained workspaces.
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
