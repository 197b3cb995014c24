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
	// Auth is "loopback" or "sidecar"; empty means sidecar in a deployment that operators share ([system] enabled), and
	// loopback in another. The flag --insecure overrides it.
	Auth string `toml:"auth"`
	// Operator is the user id that a launch URL signs in; empty means the name of the operating system's user. Set
	// it where the same operator's kaged may run under several uids: sessions belong to this id.
	Operator string `toml:"operator"`
	// SidecarNonce is the secret that the sign-in proxy sends in X-Kaged-Auth-Nonce; SidecarNonceFile is a file with it,
	// of 16 bytes or more, relative to the configuration file and read at the start.
	SidecarNonce     string `toml:"sidecar_nonce"`
	SidecarNonceFile string `toml:"sidecar_nonce_file"`
	// CSRFSameSite is the SameSite of the CSRF cookie: "lax" or "strict".
	CSRFSameSite string `toml:"csrf_same_site"`
	// SecretMaxAge is how soon a secret that another gateway has rotated is worthless here.
	SecretMaxAge config.Duration `toml:"secret_max_age"`

	// BodyLimit is the largest body of a request, HeaderLimit the largest header.
	BodyLimit   int64 `toml:"body_limit"`
	HeaderLimit int   `toml:"header_limit"`
	// Bodies is how many bodies may be received at once: with more, the oldest of the operator with most bodies is
	// given up. BodyTimeout is how long one may take. A request counts towards Requests once its body is there.
	Bodies      int             `toml:"bodies"`
	BodyTimeout config.Duration `toml:"body_timeout"`
	// Answers is how many answers may be on their way to clients at once: with more, the oldest of the operator with
	// most answers is broken off. A request does not count towards Requests while its answer is written.
	Answers int `toml:"answers"`
	// Requests is how many are served at once.
	Requests int `toml:"requests"`
	// RequestTimeout is how long one may take, ReadTimeout how long a client may take to send it.
	RequestTimeout config.Duration `toml:"request_timeout"`
	ReadTimeout    config.Duration `toml:"read_timeout"`
	// WriteTimeout is how long a client may take to read its answer.
	WriteTimeout config.Duration `toml:"write_timeout"`
	// KeepAlive is how long a connection may be idle between requests.
	KeepAlive config.Duration `toml:"keep_alive"`

	// ShutdownTimeout is how long requests may take that are served when the gateway stops, HealthTimeout how long
	// session-manager may take to say that it works.
	ShutdownTimeout config.Duration `toml:"shutdown_timeout"`
	HealthTimeout   config.Duration `toml:"health_timeout"`
	// AuditQueue is how many audit records may wait for session-manager. Of refusals AuditDenials are recorded in each
	// AuditWindow, and the rest counted.
	AuditQueue   int             `toml:"audit_queue"`
	AuditDenials int             `toml:"audit_denials"`
	AuditWindow  config.Duration `toml:"audit_window"`

	// Sockets is how many there may be at once.
	Sockets int `toml:"sockets"`
	// FrameLimit is the largest frame of a socket's client.
	FrameLimit int64 `toml:"frame_limit"`
	// ClientFrames is how many frames a socket's client may send each second on average, pings included, and
	// ClientBurst how many at once; with more the socket is closed with 1008 rate_limited.
	ClientFrames int `toml:"client_frames"`
	ClientBurst  int `toml:"client_burst"`
	// ClientBytes is how many bytes of a socket's client are read each second on average, framing included, and
	// ClientByteBurst how many at once; the rest waits on the client's side.
	ClientBytes     int `toml:"client_bytes"`
	ClientByteBurst int `toml:"client_byte_burst"`
	// ReplayRate is how much of stored frames a socket is sent each second on average, and ReplayBurst how much at
	// once. Live frames do not count.
	ReplayRate  int `toml:"replay_rate"`
	ReplayBurst int `toml:"replay_burst"`
	// OutputBuffer, EventsBuffer and ControlBuffer are how much may wait for a slow client of a socket, by channel;
	// every channel but output and control may have as much as events.
	OutputBuffer  int `toml:"output_buffer"`
	EventsBuffer  int `toml:"events_buffer"`
	ControlBuffer int `toml:"control_buffer"`
	// Terminals is how many terminals a socket may show at once. PtyBuffer is how much of one may wait for a slow
	// client, which is told of the gap; PtyInput is how much input may wait for a process that does not read.
	Terminals int `toml:"terminals"`
	PtyBuffer int `toml:"pty_buffer"`
	PtyInput  int `toml:"pty_input"`
	// IdleTimeout is how long a socket's client may be silent; it is pinged three times as often.
	IdleTimeout config.Duration `toml:"idle_timeout"`
	// ProbeTimeout is how soon a socket's client must answer while another socket asks for its session;
	// session-manager's attach_wait is longer.
	ProbeTimeout config.Duration `toml:"probe_timeout"`
	// FlushWindow is a client's time between the closing frame and the close, ClosingTimeout how long the closing
	// frame may take to reach a client that reads slowly.
	FlushWindow    config.Duration `toml:"flush_window"`
	ClosingTimeout config.Duration `toml:"closing_timeout"`
	// AttachTimeout is how long an upgrade waits for the session's holder.
	AttachTimeout config.Duration `toml:"attach_timeout"`
	// SocketMaxAge is how long a socket behind a sign-in proxy lasts: then it is closed with 1001, and the client comes
	// back through the proxy, which knows whether the person is still signed in.
	SocketMaxAge config.Duration `toml:"socket_max_age"`
	// Grace is how long a socket is kept while the session's holder or the bus is away.
	Grace config.Duration `toml:"grace"`
	// StoredTimeout is how long a frame that was published may take to be stored.
	StoredTimeout config.Duration `toml:"stored_timeout"`
}

// DefaultConfig returns the defaults, which are the API specification's where it names a number.
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
		StoredTimeout:   config.Duration(2 * time.Second),
	}
}

// Validate fails with bad_request for nonsensical values.
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
