package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/telemetry"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/adapter/apitokens"
	"kaged.dev/services/gateway/internal/adapter/auditlog"
	"kaged.dev/services/gateway/internal/adapter/edits"
	"kaged.dev/services/gateway/internal/adapter/frames"
	"kaged.dev/services/gateway/internal/adapter/holder"
	"kaged.dev/services/gateway/internal/adapter/holderconn"
	"kaged.dev/services/gateway/internal/adapter/notices"
	"kaged.dev/services/gateway/internal/adapter/ratetokens"
	"kaged.dev/services/gateway/internal/adapter/registry"
	"kaged.dev/services/gateway/internal/adapter/secretcache"
	"kaged.dev/services/gateway/internal/adapter/terminals"
	"kaged.dev/services/gateway/internal/core/access"
	"kaged.dev/services/gateway/internal/core/logtail"
	"kaged.dev/services/gateway/internal/core/rates"
	"kaged.dev/services/gateway/internal/server"
	"kaged.dev/services/gateway/internal/server/socket"
	"kaged.dev/services/gateway/internal/server/systemsocket"
)

// Deps are the dependencies of a [Service]. Only UIURL and Telemetry are optional.
type Deps struct {
	Log     *slog.Logger
	Version string
	// Listen is the TCP address, host:port. Port 0 picks a free port.
	Listen string
	// UIURL is the base URL that people open; empty means the listener's URL.
	UIURL string
	// Insecure turns sign-in off. NoSandbox means that cages are off; the gateway only reports it.
	Insecure, NoSandbox bool
	// RateLimitsOff turns rate limits off.
	RateLimitsOff bool
	// Operator is the user id of the operator in loopback mode.
	Operator string
	// System configures a deployment that operators share.
	System config.System
	// Dial returns the connection to a module, by its name in package backends. DialAddress returns the connection to
	// one process of a module, by the address that a lease names.
	Dial        func(module string) grpc.ClientConnInterface
	DialAddress func(service, address string) (grpc.ClientConnInterface, error)
	// DialSupervisor returns a connection to the sandbox-supervisor of a workspace.
	DialSupervisor func(workspace string) (grpc.ClientConnInterface, error)
	// NATS configures the connection to the bus.
	NATS bus.Config
	// Telemetry has the process's traces and metrics. It may be nil.
	Telemetry *telemetry.Kit
}

// secretMinAge is the minimum interval between two queries for the current secret.
const secretMinAge = time.Second

// Service is the gateway. Make one with [New].
type Service struct {
	cfg     Config
	deps    Deps
	conn    *holderconn.Conn
	info    server.Info
	gate    *access.Gate
	audit   *auditlog.Log
	frames  *frames.Frames
	hub     *socket.Hub
	system  *systemsocket.Hub
	tails   *logtail.Hub
	rates   *rates.Limiter // nil if rate limits are off
	control *server.Control

	listening chan struct{} // closed once the fields below are set
	address   string        // of the listener
	http      *server.Server
}

// New returns a gateway and starts no goroutine. It fails with fault.BadRequest for an invalid UI URL or listen
// address, and for an auth mode that [system] does not allow.
func New(cfg Config, deps Deps) (*Service, error) {
	if _, err := access.NewHosts(deps.Listen, deps.UIURL); err != nil {
		return nil, err
	}
	if deps.System.Enabled && authMode(cfg, deps) != access.Sidecar {
		return nil, fault.New(fault.BadRequest, `[system] enabled needs a sign-in proxy: `+
			`[services.gateway] auth must be "sidecar", not %q.`, authMode(cfg, deps))
	}
	conn := holding(deps, sessionManager)
	operators := sessionmanagerv1.NewOperatorServiceClient(conn)
	secrets := secretcache.New(operators, cfg.SecretMaxAge.D(), secretMinAge)
	s := &Service{
		cfg: cfg, deps: deps, conn: conn,
		info: server.Info{
			Version: deps.Version, Shared: deps.System.Enabled, AuthMode: authMode(cfg, deps), NoSandbox: deps.NoSandbox,
		},
		audit: auditlog.New(sessionmanagerv1.NewAuditServiceClient(conn), deps.Log, auditlog.Limits{
			Queue: cfg.AuditQueue, Denials: cfg.AuditDenials, Window: cfg.AuditWindow.D(),
		}),
		frames:    frames.New(deps.NATS),
		tails:     logtail.NewHub(),
		listening: make(chan struct{}),
	}
	s.gate = &access.Gate{
		Mode: s.info.AuthMode, Operator: deps.Operator, Nonce: cfg.SidecarNonce, Secrets: secrets,
		Tokens: apitokens.Tokens{Operators: operators}, AdminGroup: deps.System.AdminGroup,
	}
	if !deps.RateLimitsOff {
		s.rates = rates.New(ratetokens.Tokens{Operators: operators}, deps.Log)
	}
	limits := s.socketDeps()
	s.hub = socket.New(limits)
	s.system = systemsocket.New(systemsocket.Deps{
		Log: deps.Log, Version: deps.Version, Ready: s.frames.Ready, Count: notices.Count(conn), Limits: limits.Limits,
	})
	deps.Telemetry.Observe(telemetry.Sockets, func() float64 { return float64(s.hub.Count() + s.system.Count()) })
	s.control = &server.Control{
		Info: s.info, Operators: operators, Audit: s.audit, Renew: secrets.Set, Listener: s.BaseURL,
		Launcher: &server.Launcher{Operators: operators, Base: s.uiURL},
	}
	return s, nil
}

// sessionManager is the module that answers the gateway's own calls.
const sessionManager = "session-manager"

// backend returns the connection to a module with routes of the contract.
func (s *Service) backend(module string) grpc.ClientConnInterface {
	if module == sessionManager {
		return s.conn
	}
	return edits.New(registry.New(holding(s.deps, module), s.conn), s.audit)
}

// holding returns a connection to a module that repeats a call at the lease holder if another process has the
// lease.
func holding(deps Deps, module string) *holderconn.Conn {
	return holderconn.New(deps.Dial(module), func(address string) (grpc.ClientConnInterface, error) {
		return deps.DialAddress(module, address)
	})
}

func authMode(cfg Config, deps Deps) access.Mode {
	switch {
	case deps.Insecure:
		return access.Insecure
	case cfg.Auth != "":
		return access.Mode(cfg.Auth)
	case deps.System.Enabled:
		return access.Sidecar
	}
	return access.Loopback
}

func (s *Service) socketDeps() socket.Deps {
	return socket.Deps{
		Log:       s.deps.Log,
		Attach:    holder.New(s.conn).Attach,
		Follow:    s.frames.Follow,
		Stored:    s.frames.Stored,
		Terminals: terminals.New(s.conn, s.deps.DialSupervisor).Open,
		Ready:     s.frames.Ready,
		Warnings:  s.info.Warnings(),
		Since:     time.Now(),
		Limits: socket.Limits{
			Sockets: s.cfg.Sockets, Frame: s.cfg.FrameLimit, Frames: s.cfg.ClientFrames, FrameBurst: s.cfg.ClientBurst,
			Bytes: s.cfg.ClientBytes, ByteBurst: s.cfg.ClientByteBurst,
			Replay: s.cfg.ReplayRate, ReplayBurst: s.cfg.ReplayBurst,
			Output: s.cfg.OutputBuffer, Events: s.cfg.EventsBuffer, Control: s.cfg.ControlBuffer,
			Terminals: s.cfg.Terminals, Pty: s.cfg.PtyBuffer, Typed: s.cfg.PtyInput,
			Age: s.socketAge(), Idle: s.cfg.IdleTimeout.D(), Probe: s.cfg.ProbeTimeout.D(), Flush: s.cfg.FlushWindow.D(),
			Closing: s.cfg.ClosingTimeout.D(),
			Attach:  s.cfg.AttachTimeout.D(), Grace: s.cfg.Grace.D(), Missing: s.cfg.StoredTimeout.D(),
		},
	}
}

// socketAge is the maximum age of sockets and streams, 0 for no limit.
func (s *Service) socketAge() time.Duration {
	if s.info.AuthMode != access.Sidecar {
		return 0
	}
	return s.cfg.SocketMaxAge.D()
}

// Register implements host.Service.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	gatewayv1.RegisterGatewayServiceServer(r, s.control)
}

// Run implements host.Service: it listens and serves until ctx ends. It fails with fault.Unavailable if it cannot
// listen.
func (s *Service) Run(ctx context.Context) error {
	listener, err := listen(s.deps.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	if s.info.AuthMode == access.Insecure {
		s.deps.Log.Warn("authentication is off: everyone who can reach the address is the operator", "address",
			listener.Addr())
	}
	if err := s.open(listener.Addr().String()); err != nil {
		return err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	var audit, others sync.WaitGroup
	auditing, stopAudit := context.WithCancel(work)
	audit.Go(func() { s.audit.Run(auditing) })
	others.Go(func() { s.frames.Run(work, listeners{s.hub, s.system, s.tails, s.deps.Log}) })
	others.Go(func() { s.system.Run(work) })
	others.Go(func() { s.hub.Run(work) })
	others.Go(func() { s.watchSecret(work) })
	err = s.serve(ctx, listener)
	stop()
	others.Wait()
	// The audit log stops last, because the other goroutines still write records while they stop.
	stopAudit()
	audit.Wait()
	return err
}

// watchSecret queries the secret at an interval until ctx ends. A change closes the sockets that were opened under
// the replaced secret, also if another gateway has rotated it.
func (s *Service) watchSecret(ctx context.Context) {
	if s.info.AuthMode != access.Loopback {
		return
	}
	tick := time.NewTicker(max(s.cfg.SecretMaxAge.D(), secretMinAge))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = s.gate.Secrets.Current(ctx) // on failure the cached secret stays in use
		case <-ctx.Done():
			return
		}
	}
}

// listeners passes on messages of the bus: frames to session sockets, notices to system sockets, log entries to
// readers of logs.
type listeners struct {
	*socket.Hub
	system *systemsocket.Hub
	tails  *logtail.Hub
	log    *slog.Logger
}

// Connected implements [frames.Listener].
func (l listeners) Connected(ctx context.Context, conn *bus.Conn) error {
	return notices.Listen(ctx, conn, l.log, l.system.Tell, l.tails)
}

// Missed implements [frames.Listener].
func (l listeners) Missed(storeLost bool) {
	l.Hub.Missed(storeLost)
	l.system.Missed()
	l.tails.Missed()
}

// listen opens the HTTP listener. It fails with fault.Unavailable and the operating system's reason.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	why := "not an address of this machine"
	var errno syscall.Errno
	if errors.As(err, &errno) {
		why = errno.Error()
	}
	return nil, fault.Wrap(err, fault.Unavailable,
		"The gateway cannot listen on %s: %s. Choose another address with --listen; port 0 picks a free one.", address, why)
}

// open creates the HTTP server. It needs the listener's address, for the check of Host and Origin.
func (s *Service) open(address string) error {
	hosts, err := access.NewHosts(address, s.deps.UIURL)
	if err != nil {
		return err
	}
	s.http, err = server.New(server.Deps{
		Log: s.deps.Log, Info: s.info, Gate: s.gate, Hosts: hosts, Audit: s.audit, Rates: s.rates,
		SessionManager: s.conn, Backend: s.backend,
		Launcher: s.control.Launcher, Renew: s.control.Renew, Sockets: s.hub, SystemSocket: s.system.Upgrade,
		Frames: s.frames, Logs: s.tails, Noticing: s.frames.Ready,
		Watch: func(ctx context.Context, session string) (server.Watch, error) {
			return s.hub.Watch(ctx, session)
		}, Ready: s.works, CSRFCookie: s.cfg.csrfCookie(),
		Limits: server.Limits{
			Body: s.cfg.BodyLimit, Bodies: s.cfg.Bodies, Answers: s.cfg.Answers,
			BodyTime: s.cfg.BodyTimeout.D(), Requests: s.cfg.Requests, Time: s.cfg.RequestTimeout.D(), Age: s.socketAge(),
			Missing: s.cfg.StoredTimeout.D(),
		},
	})
	if err != nil {
		return err
	}
	s.address = address
	close(s.listening)
	return nil
}

// serve serves HTTP until ctx ends, then waits up to ShutdownTimeout for the requests in progress.
func (s *Service) serve(ctx context.Context, listener net.Listener) error {
	srv := &http.Server{
		Handler:                      s.http,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            s.cfg.ReadTimeout.D(),
		ReadTimeout:                  s.cfg.ReadTimeout.D(),
		// net/http counts it from the end of the header, so it includes the time to read and to serve the request.
		WriteTimeout:   (s.cfg.ReadTimeout + s.cfg.RequestTimeout + s.cfg.WriteTimeout).D(),
		IdleTimeout:    s.cfg.KeepAlive.D(),
		MaxHeaderBytes: s.cfg.HeaderLimit,
		ErrorLog:       slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	select {
	case err := <-failed:
		return fault.Wrap(err, fault.Unavailable, "The gateway cannot accept connections on %s any more.", s.address)
	case <-ctx.Done():
	}
	s.http.Drain()
	s.hub.Close()
	s.system.Close()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownTimeout.D())
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		s.deps.Log.Warn("requests were cut off", "error", err)
		_ = srv.Close() // Only closing the listener can fail, and Shutdown has closed it.
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fault.Wrap(err, fault.Unavailable, "The gateway could not accept connections on %s.", s.address)
	}
	return nil
}

// Drain implements host.Drainer. It refuses new requests, closes all sockets, and returns when the clients of
// session sockets have gone or ctx ends.
func (s *Service) Drain(ctx context.Context) {
	select {
	case <-s.listening:
		s.http.Drain()
	default:
	}
	s.hub.Close()
	s.system.Close()
	s.hub.Wait(ctx)
}

// Ready implements host.Readier.
func (s *Service) Ready(ctx context.Context) error {
	select {
	case <-s.listening:
	default:
		return fault.New(fault.Unavailable, "The gateway does not listen yet.").With("subsystem", "gateway")
	}
	if !s.gate.Configured() {
		return fault.New(fault.Unavailable, "The gateway waits for a sidecar_nonce.").With("subsystem", "gateway")
	}
	return s.works(ctx)
}

// works fails while the bus or session-manager is unavailable.
func (s *Service) works(ctx context.Context) error {
	if err := s.frames.Ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HealthTimeout.D())
	defer cancel()
	var trailer metadata.MD
	resp, err := healthpb.NewHealthClient(s.conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
	if err != nil {
		return err
	}
	if resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		why := "session-manager is not ready."
		if said := trailer.Get(rpc.HealthReason); len(said) > 0 {
			why = said[0]
		}
		return fault.New(fault.Unavailable, "%s", why).With("subsystem", "session-manager")
	}
	return nil
}

// BaseURL returns the base URL of the listener. It waits until the gateway listens, and fails with ctx's fault.
func (s *Service) BaseURL(ctx context.Context) (string, error) {
	select {
	case <-s.listening:
	case <-ctx.Done():
		return "", fault.From(ctx.Err())
	}
	addr, err := netip.ParseAddrPort(s.address)
	if err != nil || !addr.Addr().IsUnspecified() {
		return "http://" + s.address, nil
	}
	// From this machine, a listener on all addresses is reached at 127.0.0.1.
	return "http://" + netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), addr.Port()).String(), nil
}

// uiURL returns the base URL that people open.
func (s *Service) uiURL(ctx context.Context) (string, error) {
	if s.deps.UIURL != "" {
		return strings.TrimRight(s.deps.UIURL, "/"), nil
	}
	return s.BaseURL(ctx)
}

// LaunchURL returns a URL that signs a browser in once. It waits until the gateway listens and session-manager
// answers. In other modes than loopback, which have no launch tokens, it returns the base URL. It fails with ctx's
// fault or with session-manager's.
func (s *Service) LaunchURL(ctx context.Context) (string, error) {
	if s.info.AuthMode != access.Loopback {
		return s.uiURL(ctx)
	}
	return s.control.Launcher.Issue(ctx)
}
