package gateway

import (
	"net/http"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/gateway/internal/core/access"
)

// Config is [services.gateway]. Sizes are bytes.
type Config struct {
	// Auth is "loopback" or "sidecar". The default is sidecar in a deployment that operators share ([system] enabled),
	// and loopback otherwise. The flag --insecure overrides it.
	Auth string `toml:"auth"`
	// Operator is the user id that a launch URL signs in. The default is the name of the operating system's user. Set
	// it if the same operator runs kaged under several uids: sessions belong to this id.
	Operator string `toml:"operator"`
	// SidecarNonce is the secret that the sign-in proxy sends in X-Kaged-Auth-Nonce. SidecarNonceFile is a file with a
	// secret of at least 16 bytes; its path is relative to the configuration file, and it is read at the start.
	SidecarNonce     string `toml:"sidecar_nonce"`
	SidecarNonceFile string `toml:"sidecar_nonce_file"`
	// CSRFSameSite is the SameSite attribute of the CSRF cookie: "lax" or "strict".
	CSRFSameSite string `toml:"csrf_same_site"`
	// SecretMaxAge is the time after which this gateway refuses the cookies that another gateway has revoked by
	// rotating the secret.
	SecretMaxAge config.Duration `toml:"secret_max_age"`

	// BodyLimit is the maximum size of a request's body, HeaderLimit that of its header.
	BodyLimit   int64 `toml:"body_limit"`
	HeaderLimit int   `toml:"header_limit"`
	// Bodies is the maximum number of bodies that are received at once. At the limit a new body ends the oldest body
	// of the operator with the most bodies. BodyTimeout is the time for one body. A request does not count towards
	// `requests` while its body is received.
	Bodies      int             `toml:"bodies"`
	BodyTimeout config.Duration `toml:"body_timeout"`
	// Answers is the maximum number of answers that are sent at once. At the limit a new answer cuts off the oldest
	// answer of the operator with the most answers. A request does not count towards `requests` while its answer is
	// sent.
	Answers int `toml:"answers"`
	// Requests is the maximum number of requests that are served at once.
	Requests int `toml:"requests"`
	// RequestTimeout is the time to serve a request. ReadTimeout is the time for a client to send its header and body.
	RequestTimeout config.Duration `toml:"request_timeout"`
	ReadTimeout    config.Duration `toml:"read_timeout"`
	// WriteTimeout is the time for a client to read its answer.
	WriteTimeout config.Duration `toml:"write_timeout"`
	// KeepAlive is the time after which an idle connection is closed.
	KeepAlive config.Duration `toml:"keep_alive"`

	// ShutdownTimeout is the time for requests in progress when the gateway stops. HealthTimeout is the time for
	// session-manager to answer a readiness check.
	ShutdownTimeout config.Duration `toml:"shutdown_timeout"`
	HealthTimeout   config.Duration `toml:"health_timeout"`
	// AuditQueue is the number of audit records that may wait for session-manager. AuditDenials is the number of
	// refusals recorded in each AuditWindow; further refusals are only counted.
	AuditQueue   int             `toml:"audit_queue"`
	AuditDenials int             `toml:"audit_denials"`
	AuditWindow  config.Duration `toml:"audit_window"`

	// Sockets is the maximum number of open sockets.
	Sockets int `toml:"sockets"`
	// FrameLimit is the maximum size of a frame from a socket's client.
	FrameLimit int64 `toml:"frame_limit"`
	// ClientFrames is the average number of frames per second that a socket's client may send, pings included.
	// ClientBurst is the number of frames it may send at once. A client that exceeds them is disconnected with 1008
	// rate_limited.
	ClientFrames int `toml:"client_frames"`
	ClientBurst  int `toml:"client_burst"`
	// ClientBytes is the average number of bytes per second that are read from a socket's client, framing included.
	// ClientByteBurst is the number of bytes that are read at once. Further bytes wait on the client's side.
	ClientBytes     int `toml:"client_bytes"`
	ClientByteBurst int `toml:"client_byte_burst"`
	// ReplayRate is the average number of bytes of stored frames per second that a socket is sent. ReplayBurst is the
	// number of bytes sent at once. Live frames do not count.
	ReplayRate  int `toml:"replay_rate"`
	ReplayBurst int `toml:"replay_burst"`
	// OutputBuffer, EventsBuffer and ControlBuffer are the sizes of the queues to a slow client, by channel. A channel
	// other than output and control has a queue of the size of events.
	OutputBuffer  int `toml:"output_buffer"`
	EventsBuffer  int `toml:"events_buffer"`
	ControlBuffer int `toml:"control_buffer"`
	// Terminals is the maximum number of terminals that a socket shows at once. PtyBuffer is the size of a terminal's
	// queue to a slow client; the client is told the size of a gap in the output. PtyInput is the amount of input that
	// may wait for a process that does not read.
	Terminals int `toml:"terminals"`
	PtyBuffer int `toml:"pty_buffer"`
	PtyInput  int `toml:"pty_input"`
	// IdleTimeout is the maximum silence of a socket's client. Clients are pinged three times as often.
	IdleTimeout config.Duration `toml:"idle_timeout"`
	// ProbeTimeout is the time for a socket's client to answer a ping while another socket asks for its session. It
	// must be shorter than session-manager's attach_wait.
	ProbeTimeout config.Duration `toml:"probe_timeout"`
	// FlushWindow is the time between the closing frame and the close of the connection. ClosingTimeout is the time to
	// send the closing frame to a client that reads slowly.
	FlushWindow    config.Duration `toml:"flush_window"`
	ClosingTimeout config.Duration `toml:"closing_timeout"`
	// AttachTimeout is the time that an upgrade waits for the session's holder.
	AttachTimeout config.Duration `toml:"attach_timeout"`
	// SocketMaxAge is the maximum age of a socket behind a sign-in proxy. An older socket is closed with 1001, so that
	// its client connects again through the proxy, which checks that the person is still signed in.
	SocketMaxAge config.Duration `toml:"socket_max_age"`
	// Grace is the time that a socket stays open while the session's holder or the bus is unavailable.
	Grace config.Duration `toml:"grace"`
	// StoredTimeout is the time for a published frame to be stored. It must exceed a takeover after the holder of a
	// session was killed (lease_ttl of session-manager): only the next holder knows which frames were never stored.
	StoredTimeout config.Duration `toml:"stored_timeout"`
}

// DefaultConfig returns the defaults. Numbers that the API specification names are taken from it.
func DefaultConfig() Config {
	return Config{
		CSRFSameSite:    "lax",
		SecretMaxAge:    config.Duration(5 * time.Second),
		BodyLimit:       1 << 20,
		HeaderLimit:     32 << 10,
		Bodies:          256,
		BodyTimeout:     config.Duration(10 * time.Second),
		Answers:         256,
		Requests:        1024,
		RequestTimeout:  config.Duration(time.Minute),
		ReadTimeout:     config.Duration(30 * time.Second),
		WriteTimeout:    config.Duration(time.Minute),
		KeepAlive:       config.Duration(2 * time.Minute),
		ShutdownTimeout: config.Duration(5 * time.Second),
		HealthTimeout:   config.Duration(2 * time.Second),
		AuditQueue:      1024,
		AuditDenials:    100,
		AuditWindow:     config.Duration(10 * time.Second),
		Sockets:         10000,
		FrameLimit:      64 << 10,
		ClientFrames:    100,
		ClientBurst:     400,
		ClientBytes:     1 << 20,
		ClientByteBurst: 4 << 20,
		ReplayRate:      8 << 20,
		ReplayBurst:     32 << 20,
		OutputBuffer:    4 << 20,
		EventsBuffer:    64 << 10,
		ControlBuffer:   64 << 10,
		Terminals:       8,
		PtyBuffer:       1 << 20,
		PtyInput:        256 << 10,
		IdleTimeout:     config.Duration(90 * time.Second),
		ProbeTimeout:    config.Duration(700 * time.Millisecond),
		FlushWindow:     config.Duration(time.Second),
		ClosingTimeout:  config.Duration(10 * time.Second),
		AttachTimeout:   config.Duration(10 * time.Second),
		SocketMaxAge:    config.Duration(15 * time.Minute),
		Grace:           config.Duration(15 * time.Second),
		StoredTimeout:   config.Duration(15 * time.Second),
	}
}

// Validate fails with bad_request for unknown values, contradictions and numbers that are not positive.
func (c Config) Validate() error {
	if c.Auth != "" && c.Auth != "loopback" && c.Auth != "sidecar" {
		return fault.New(fault.BadRequest, `auth must be "loopback" or "sidecar", not %q.`, c.Auth)
	}
	if c.SidecarNonce != "" && c.SidecarNonceFile != "" {
		return fault.New(fault.BadRequest, "sidecar_nonce and sidecar_nonce_file are both set; unset one of them.")
	}
	if c.CSRFSameSite != "lax" && c.CSRFSameSite != "strict" {
		return fault.New(fault.BadRequest, `csrf_same_site must be "lax" or "strict", not %q.`, c.CSRFSameSite)
	}
	if c.Operator != "" && !access.ValidUser(c.Operator) {
		return fault.New(fault.BadRequest, "operator must be printable ASCII, at most 256 bytes, not %q.", c.Operator)
	}
	for _, v := range []struct {
		key   string
		value int64
	}{
		{"secret_max_age", int64(c.SecretMaxAge)},
		{"body_limit", c.BodyLimit},
		{"header_limit", int64(c.HeaderLimit)},
		{"requests", int64(c.Requests)},
		{"request_timeout", int64(c.RequestTimeout)},
		{"read_timeout", int64(c.ReadTimeout)},
		{"write_timeout", int64(c.WriteTimeout)},
		{"keep_alive", int64(c.KeepAlive)},
		{"shutdown_timeout", int64(c.ShutdownTimeout)},
		{"health_timeout", int64(c.HealthTimeout)},
		{"audit_queue", int64(c.AuditQueue)},
		{"audit_denials", int64(c.AuditDenials)},
		{"audit_window", int64(c.AuditWindow)},
		{"sockets", int64(c.Sockets)},
		{"frame_limit", c.FrameLimit},
		{"client_frames", int64(c.ClientFrames)},
		{"client_burst", int64(c.ClientBurst)},
		{"client_bytes", int64(c.ClientBytes)},
		{"client_byte_burst", int64(c.ClientByteBurst)},
		{"replay_rate", int64(c.ReplayRate)},
		{"replay_burst", int64(c.ReplayBurst)},
		{"bodies", int64(c.Bodies)},
		{"answers", int64(c.Answers)},
		{"body_timeout", int64(c.BodyTimeout)},
		{"output_buffer", int64(c.OutputBuffer)},
		{"events_buffer", int64(c.EventsBuffer)},
		{"control_buffer", int64(c.ControlBuffer)},
		{"terminals", int64(c.Terminals)},
		{"pty_buffer", int64(c.PtyBuffer)},
		{"pty_input", int64(c.PtyInput)},
		{"idle_timeout", int64(c.IdleTimeout)},
		{"probe_timeout", int64(c.ProbeTimeout)},
		{"flush_window", int64(c.FlushWindow)},
		{"closing_timeout", int64(c.ClosingTimeout)},
		{"attach_timeout", int64(c.AttachTimeout)},
		{"socket_max_age", int64(c.SocketMaxAge)},
		{"grace", int64(c.Grace)},
		{"stored_timeout", int64(c.StoredTimeout)},
	} {
		if v.value <= 0 {
			return fault.New(fault.BadRequest, "%s must be more than 0.", v.key)
		}
	}
	return nil
}

func (c Config) csrfCookie() http.SameSite {
	if c.CSRFSameSite == "strict" {
		return http.SameSiteStrictMode
	}
	return http.SameSiteLaxMode
}
