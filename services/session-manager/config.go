package sessionmanager

import (
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// Config is [services.session-manager]. Sizes are bytes.
type Config struct {
	// DatabaseConns is how many connections to the database there are at most.
	DatabaseConns int `toml:"database_conns"`
	// RotateSecrets makes cookies and CSRF tokens of the run before worthless at each start. Replicas that start one by one
	// must not.
	RotateSecrets bool `toml:"rotate_secrets"`
	// LaunchTokenTTL is how long an unused launch token is good for.
	LaunchTokenTTL config.Duration `toml:"launch_token_ttl"`

	// MaxContent is the largest message.
	MaxContent int `toml:"max_content"`
	// LeaseTTL is how long a session's lease lives without being renewed: how soon another process takes over from one that
	// died elsewhere. It is renewed three times as often.
	LeaseTTL config.Duration `toml:"lease_ttl"`
	// SweepInterval is how often runs whose holder is gone are looked for.
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
	// SeqInterval is how often the numbers of published frames are noted in the database.
	SeqInterval config.Duration `toml:"seq_interval"`
	// AttachTimeout is how long a socket waits until its session's channels are known.
	AttachTimeout config.Duration `toml:"attach_timeout"`

	// HoldBack is how long what no one waits for may wait for company before it is stored.
	HoldBack config.Duration `toml:"hold_back"`
	// HarnessTimeout is how long a run waits for a harness that is not there.
	HarnessTimeout config.Duration `toml:"harness_timeout"`
	// CancelGrace is how long a cancelled run may take to report what there is, StopTimeout how long a request to cancel
	// waits for its end.
	CancelGrace config.Duration `toml:"cancel_grace"`
	StopTimeout config.Duration `toml:"stop_timeout"`
	// ToolsTimeout is how long killing what runs for an ended session may take.
	ToolsTimeout config.Duration `toml:"tools_timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		DatabaseConns:  12,
		RotateSecrets:  true,
		LaunchTokenTTL: config.Duration(24 * time.Hour),
		MaxContent:     1 << 20,
		LeaseTTL:       config.Duration(5 * time.Second),
		SweepInterval:  config.Duration(2 * time.Second),
		UnloadAfter:    config.Duration(30 * time.Second),
		LoadTimeout:    config.Duration(30 * time.Second),
		SettleTimeout:  config.Duration(5 * time.Second),
		ResumeLimit:    3,
		FrameBuffer:    4 << 20,
		FrameBatch:     256 << 10,
		SeqInterval:    config.Duration(time.Second),
		AttachTimeout:  config.Duration(10 * time.Second),
		HoldBack:       config.Duration(50 * time.Millisecond),
		HarnessTimeout: config.Duration(10 * time.Second),
		CancelGrace:    config.Duration(5 * time.Second),
		StopTimeout:    config.Duration(30 * time.Second),
		ToolsTimeout:   config.Duration(5 * time.Second),
	}
}

// maxBatch is what one message of NATS takes, with room for its headers.
const maxBatch = 1<<20 - 4<<10

// Validate fails with bad_request for what makes no sense.
func (c Config) Validate() error {
	for _, v := range []struct {
		key   string
		value int64
	}{
		{"database_conns", int64(c.DatabaseConns)},
		{"launch_token_ttl", int64(c.LaunchTokenTTL)},
		{"max_content", int64(c.MaxContent)},
		{"lease_ttl", int64(c.LeaseTTL)},
		{"sweep_interval", int64(c.SweepInterval)},
		{"unload_after", int64(c.UnloadAfter)},
		{"load_timeout", int64(c.LoadTimeout)},
		{"settle_timeout", int64(c.SettleTimeout)},
		{"frame_buffer", int64(c.FrameBuffer)},
		{"frame_batch", int64(c.FrameBatch)},
		{"seq_interval", int64(c.SeqInterval)},
		{"attach_timeout", int64(c.AttachTimeout)},
		{"hold_back", int64(c.HoldBack)},
		{"harness_timeout", int64(c.HarnessTimeout)},
		{"cancel_grace", int64(c.CancelGrace)},
		{"stop_timeout", int64(c.StopTimeout)},
		{"tools_timeout", int64(c.ToolsTimeout)},
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
	case c.FrameBatch > maxBatch:
		return fault.New(fault.BadRequest, "frame_batch must be at most %d, which is what NATS takes as one message.", maxBatch)
	}
	return nil
}
