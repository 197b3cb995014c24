package sessionmanager

import (
	"time"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
)

// Config is [services.session-manager]. Sizes are bytes.
type Config struct {
	// DatabaseConns is how many connections to the database there are at most. Each costs an embedded Postgres 24 MB. Four are enough
	// for a hundred sessions that stream, as what is stored is stored in one round trip; a database that is far away wants more.
	DatabaseConns int `toml:"database_conns"`
	// DatabaseStall is how long the database may be silent before requests are refused until it answers again.
	DatabaseStall config.Duration `toml:"database_stall"`
	// RotateSecrets makes cookies and CSRF tokens of the run before worthless at each start. Replicas that start one by one
	// must not.
	RotateSecrets bool `toml:"rotate_secrets"`
	// LaunchTokenTTL is how long an unused launch token is good for.
	LaunchTokenTTL config.Duration `toml:"launch_token_ttl"`

	// MaxContent is the largest message.
	MaxContent int `toml:"max_content"`
	// RunStarts is how many messages are stored, and their runs made ready, at the same time. The others wait: a crowd that
	// starts at once must not hold up what runs already. Of a hundred runs that began together on two cores, the latest deltas
	// came 15 ms late with 1, 20 with 2 and 40 without a bound; a database that is far away may want more.
	RunStarts int `toml:"run_starts"`
	// LeaseTTL is how long a session's lease lives without being renewed: how soon another process takes over from one that
	// died elsewhere. It is renewed three times as often.
	LeaseTTL config.Duration `toml:"lease_ttl"`
	// SweepInterval is how often runs whose holder is gone are looked for, and ended sessions whose workspace was not told.
	SweepInterval config.Duration `toml:"sweep_interval"`
	// UnloadAfter is how long a session that nobody uses is kept in memory.
	UnloadAfter config.Duration `toml:"unload_after"`
	// LoadTimeout bounds taking a session over.
	LoadTimeout config.Duration `toml:"load_timeout"`
	// SettleTimeout is how long to find out whether a change was stored whose answer was lost.
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
	// AttachWait is how long a socket waits for the one before it to be gone before it is told that the session is attached:
	// longer than a gateway takes to find out whether a client is still there.
	AttachWait config.Duration `toml:"attach_wait"`

	// HoldBack is how long what no one waits for may wait for company before it is stored.
	HoldBack config.Duration `toml:"hold_back"`
	// HarnessTimeout is how long a run waits for a harness that is not there.
	HarnessTimeout config.Duration `toml:"harness_timeout"`
	// CancelGrace is how long a cancelled run may take to report what there is, StopTimeout how long a request to cancel
	// waits for its end.
	CancelGrace config.Duration `toml:"cancel_grace"`
	StopTimeout config.Duration `toml:"stop_timeout"`
	// ApprovalTimeout is how long a tool call waits for an operator before it counts as denied.
	ApprovalTimeout config.Duration `toml:"approval_timeout"`
	// ToolsTimeout is how long killing what runs for an ended session may take.
	ToolsTimeout config.Duration `toml:"tools_timeout"`
	// ResumeTimeout is how long to try to resume a run while its workspace or the harness is not there yet, as after a start.
	ResumeTimeout config.Duration `toml:"resume_timeout"`
	// CutGrace is how long runs may take to store their end when the time to stop has come, Farewell how long the last
	// frames of a session may take to be published before its socket is told.
	CutGrace config.Duration `toml:"cut_grace"`
	Farewell config.Duration `toml:"farewell"`

	// MaxPrompts bounds the prompts of one project together, ProjectFiles how many files one is compiled from, and PromptCache
	// what of prompts is kept in memory.
	MaxPrompts   int `toml:"max_prompts"`
	ProjectFiles int `toml:"project_files"`
	PromptCache  int `toml:"prompt_cache"`
	// MaxScript is the largest script of the rehearsal driver.
	MaxScript int64 `toml:"max_script"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		DatabaseConns:   4,
		DatabaseStall:   config.Duration(5 * time.Second),
		RotateSecrets:   true,
		LaunchTokenTTL:  config.Duration(24 * time.Hour),
		MaxContent:      1 << 20,
		RunStarts:       1,
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
		ResumeTimeout:   config.Duration(time.Minute),
		CutGrace:        config.Duration(2 * time.Second),
		Farewell:        config.Duration(time.Second),
		MaxPrompts:      8 << 20,
		ProjectFiles:    1024,
		PromptCache:     32 << 20,
		MaxScript:       1 << 20,
	}
}

// maxBatch is what one message of NATS takes, with room for its headers.
const maxBatch = 1<<20 - 4<<10

// maxPrompts is what of a message to the harness is left to prompts.
const maxPrompts = rpc.MaxMessage / 2

// Validate fails with bad_request for what makes no sense.
func (c Config) Validate() error {
	for _, v := range []struct {
		key   string
		value int64
	}{
		{"database_conns", int64(c.DatabaseConns)},
		{"database_stall", int64(c.DatabaseStall)},
		{"launch_token_ttl", int64(c.LaunchTokenTTL)},
		{"max_content", int64(c.MaxContent)},
		{"run_starts", int64(c.RunStarts)},
		{"lease_ttl", int64(c.LeaseTTL)},
		{"sweep_interval", int64(c.SweepInterval)},
		{"unload_after", int64(c.UnloadAfter)},
		{"load_timeout", int64(c.LoadTimeout)},
		{"settle_timeout", int64(c.SettleTimeout)},
		{"frame_buffer", int64(c.FrameBuffer)},
		{"frame_batch", int64(c.FrameBatch)},
		{"frame_retention", int64(c.FrameRetention)},
		{"frame_store", c.FrameStore},
		{"frame_replicas", int64(c.FrameReplicas)},
		{"seq_interval", int64(c.SeqInterval)},
		{"attach_timeout", int64(c.AttachTimeout)},
		{"attach_wait", int64(c.AttachWait)},
		{"hold_back", int64(c.HoldBack)},
		{"harness_timeout", int64(c.HarnessTimeout)},
		{"cancel_grace", int64(c.CancelGrace)},
		{"stop_timeout", int64(c.StopTimeout)},
		{"approval_timeout", int64(c.ApprovalTimeout)},
		{"tools_timeout", int64(c.ToolsTimeout)},
		{"resume_timeout", int64(c.ResumeTimeout)},
		{"cut_grace", int64(c.CutGrace)},
		{"farewell", int64(c.Farewell)},
		{"max_prompts", int64(c.MaxPrompts)},
		{"project_files", int64(c.ProjectFiles)},
		{"prompt_cache", int64(c.PromptCache)},
		{"max_script", c.MaxScript},
	} {
		if v.value <= 0 {
			return fault.New(fault.BadRequest, "%s must be more than 0.", v.key)
		}
	}
	switch {
	case c.ResumeLimit < 0:
		return fault.New(fault.BadRequest, "resume_limit must not be negative.")
	case c.DatabaseConns < 2:
		return fault.New(fault.BadRequest, "database_conns must be at least 2.")
	case c.LeaseTTL < config.Duration(30*time.Millisecond):
		return fault.New(fault.BadRequest, "lease_ttl must be at least 30ms.")
	case c.FrameRetention < config.Duration(time.Second):
		return fault.New(fault.BadRequest, "frame_retention must be at least 1s.")
	case c.FrameReplicas > 5:
		return fault.New(fault.BadRequest, "frame_replicas must be at most 5, which is the most that NATS keeps.")
	case c.MaxPrompts > maxPrompts:
		return fault.New(fault.BadRequest, "max_prompts must be at most %d, which is what one message to the harness can carry.", maxPrompts)
	case c.FrameBatch > maxBatch:
		return fault.New(fault.BadRequest, "frame_batch must be at most %d, which is what NATS takes as one message.", maxBatch)
	}
	return nil
}
