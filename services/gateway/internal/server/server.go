package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/core/access"
	"kaged.dev/services/gateway/internal/core/logtail"
	"kaged.dev/services/gateway/internal/core/rates"
	"kaged.dev/services/gateway/internal/openapi"
	"kaged.dev/services/gateway/web"
)

// Info describes this gateway. It does not change.
type Info struct {
	// Version is the daemon's version.
	Version string
	// Shared means that several operators share the deployment.
	Shared bool
	// AuthMode is the auth mode.
	AuthMode access.Mode
	// NoSandbox means that cages are off.
	NoSandbox bool
}

// deployment returns the deployment mode.
func (i Info) deployment() string {
	if i.Shared {
		return "system"
	}
	return "user"
}

// The warnings of a daemon with reduced protection.
const (
	warningInsecure  = "insecure-mode"
	warningNoSandbox = "no-sandbox"
)

// Warnings returns the warnings that every answer carries. It is never nil.
func (i Info) Warnings() []string {
	list := []string{}
	if i.AuthMode == access.Insecure {
		list = append(list, warningInsecure)
	}
	if i.NoSandbox {
		list = append(list, warningNoSandbox)
	}
	return list
}

// Limits bounds requests.
type Limits struct {
	// Body is the maximum size of a body in bytes.
	Body int64
	// Bodies is the maximum number of bodies that are received at once. BodyTime is the time for one body.
	Bodies int
	// Answers is the maximum number of answers that are sent at once.
	Answers  int
	BodyTime time.Duration
	// Requests is the maximum number of requests that are served at once.
	Requests int
	// Time is the time to serve a request.
	Time time.Duration
	// Age is the maximum age of a stream of events, 0 for no limit.
	Age time.Duration
	// Missing is the time for a published frame to be stored.
	Missing time.Duration
}

// Sockets serves the sockets of sessions.
type Sockets interface {
	// Upgrade upgrades a request with a checked caller and CSRF token, and returns once the socket works. It fails
	// before anything is written. signedOut registers end, to be called when the caller is signed out.
	Upgrade(w http.ResponseWriter, r *http.Request, sessionID string, signedOut func(end func()) (stop func())) error
}

// Deps are the dependencies of a [Server].
type Deps struct {
	Log   *slog.Logger
	Info  Info
	Gate  *access.Gate
	Hosts *access.Hosts
	Audit access.Audit
	// Rates are the rate limits of operators. It may be nil.
	Rates *rates.Limiter
	// SessionManager is the connection for the gateway's own calls.
	SessionManager grpc.ClientConnInterface
	// Backend returns the connection to a module with routes of the contract.
	Backend  func(module string) grpc.ClientConnInterface
	Launcher *Launcher
	// Renew replaces the cached secret of cookies.
	Renew   func(secret []byte)
	Sockets Sockets
	// Frames reads the published frames of sessions. Watch returns the live batches of one session, or
	// fails with unavailable.
	Frames Frames
	Watch  func(ctx context.Context, session string) (Watch, error)
	// Logs has the readers of projects' logs. Noticing fails while notices cannot arrive.
	Logs     *logtail.Hub
	Noticing func() error
	// SystemSocket upgrades a request with a checked caller and CSRF token to a system socket. It fails before
	// anything is written. signedOut registers end, to be called when the caller is signed out.
	SystemSocket func(w http.ResponseWriter, r *http.Request, signedOut func(end func()) (stop func())) error
	// Ready fails while requests cannot be served.
	Ready  func(context.Context) error
	Limits Limits
	// CSRFCookie is the SameSite attribute of the CSRF cookie.
	CSRFCookie http.SameSite
}

// Server handles the HTTP requests of the gateway. Make one with [New].
type Server struct {
	deps      Deps
	operators sessionmanagerv1.OperatorServiceClient
	handler   http.Handler
	inFlight  atomic.Int64
	draining  atomic.Bool
	streaming *arrivals
	stopping  chan struct{} // closed by Drain
	drain     func()
	arriving  *arrivals
	departing *arrivals
	console   *web.Console
	// description returns the API's description. It is built at the first call.
	description func() ([]byte, error)
}

// New returns a server. It fails with fault.Internal if the contract's routes cannot be registered or the console's
// files cannot be read.
func New(deps Deps) (*Server, error) {
	s := &Server{
		deps: deps, operators: sessionmanagerv1.NewOperatorServiceClient(deps.SessionManager),
		arriving:  newArrivals(deps.Limits.Bodies),
		departing: newArrivals(deps.Limits.Answers), streaming: newArrivals(maxStreams),
	}
	s.stopping = make(chan struct{})
	s.drain = sync.OnceFunc(func() { close(s.stopping) })
	s.description = sync.OnceValues(func() ([]byte, error) { return openapi.Document(deps.Info.Version, false) })
	var err error
	if s.console, err = web.Load(); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "The files of the console in this binary cannot be read.")
	}
	routes, err := s.routes()
	if err != nil {
		return nil, err
	}
	s.handler = around(routes, s.every()...)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Drain makes the server refuse new requests with fault.Unavailable and ends its streams. Other requests in
// progress are finished.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.drain()
}
