package host

import (
	"cmp"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
)

// The defaults of [host] for the time limits of a stop.
const (
	DefaultDrainGrace  = 10 * time.Second
	DefaultStopTimeout = 3 * time.Second
)

// limits are the durations of a host.
type limits struct {
	drainGrace, stopTimeout, readyTimeout, callTimeout time.Duration

	keepalive rpc.Keepalive // its age applies to connections between hosts
}

// limitsOf returns the limits of the options and of the file's [host], with defaults for the rest. It fails with
// bad_request for invalid values.
func limitsOf(opts Options) (limits, error) {
	h := opts.File.Host
	for _, v := range []struct {
		key   string
		value config.Duration
		least time.Duration
	}{
		{"drain_grace", h.DrainGrace, 0},
		{"stop_timeout", h.StopTimeout, 0},
		{"ready_timeout", h.ReadyTimeout, 0},
		{"keepalive", h.Keepalive, rpc.MinKeepalive},
		{"keepalive_timeout", h.KeepaliveTimeout, 0},
		{"connection_age", h.ConnectionAge, time.Second},
		{"call_timeout", h.CallTimeout, time.Second},
	} {
		if v.value != 0 && v.value.D() < max(v.least, time.Millisecond) {
			return limits{}, fault.New(
				fault.BadRequest,
				"[host]: %s must be at least %s.",
				v.key,
				max(v.least, time.Millisecond),
			)
		}
	}
	if h.MemoryLimit < 0 {
		return limits{}, fault.New(
			fault.BadRequest,
			"[host]: memory_limit must not be negative; leave it out for the default.",
		)
	}
	return limits{
		drainGrace:   cmp.Or(opts.DrainGrace, h.DrainGrace.D(), DefaultDrainGrace),
		stopTimeout:  cmp.Or(h.StopTimeout.D(), DefaultStopTimeout),
		readyTimeout: cmp.Or(h.ReadyTimeout.D(), 2*time.Second),
		callTimeout:  cmp.Or(h.CallTimeout.D(), rpc.DefaultCallTimeout),
		keepalive: rpc.Keepalive{
			Interval: cmp.Or(
				h.Keepalive.D(),
				rpc.DefaultKeepalive.Interval,
			),
			Timeout: cmp.Or(h.KeepaliveTimeout.D(), rpc.DefaultKeepalive.Timeout),
			Age:     cmp.Or(h.ConnectionAge.D(), rpc.DefaultAge),
		},
	}, nil
}
