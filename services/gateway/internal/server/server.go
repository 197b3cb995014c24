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

// Info describes this gateway. It does not change while it runs.
type Info struct {
	// Version is the daemon's.
	Version string
	// Shared says that several operators share the deployment.
	Shared bool
	// AuthMode is how operators are recognised.
	AuthMode access.Mode
	// NoSandbox is whether cages are off.
	NoSandbox bool
}

// deployment is user or system.
func (i Info) deployment() string {
	if i.Shared {
		return "system"
	}
	return "user"
}

// The warnings of a daemon that protects less than it could.
const (
	warningInsecure  = "insecure-mode"
	warningNoSandbox = "no-sandbox"
)

// Warnings lists the warnings of every answer; it is never nil.
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

// Limits bound requests.
type Limits struct {
	// Body is the largest body in bytes.
	Body int64
	// Bodies is how many bodies may be on their way, and BodyTime how long one may take.
	Bodies int
	// Answers is how many answers may be on their way to their clients.
	Answers  int
	BodyTime time.Duration
	// Requests is how many are served at once.
	Requests int
	// Time is how long one may take.
	Time time.Duration
	// Age is how long a stream of events lasts, 0 for any time.
	Age time.Duration
	// Missing is how long published frames may take to be stored.
	Missing time.Duration
}

// Sockets serves the sockets of sessions.
type Sockets interface {
	// Upgrade makes a socket of a request with a checked caller and CSRF token, and returns when it has one; it
	// fails with the request's refusal, before the first write. signedOut calls end when the caller is signed out.
	Upgrade(w http.ResponseWriter, r *http.Request, sessionID string, signedOut func(end func()) (stop func())) error
}

// Deps are the dependencies of a [Server].
type Deps struct {
	Log   *slog.Logger
	Info  Info
	Gate  *access.Gate
	Hosts *access.Hosts
	Audit access.Audit
	// Rates are the rate limits of operators; it may be nil.
	Rates *rates.Limiter
	// SessionManager is the connection of the gateway's own calls.
	SessionManager grpc.ClientConnInterface
	// Backend returns the connection to a module that answers routes of the contract.
	Backend  func(module string) grpc.ClientConnInterface
	Launcher *Launcher
	// Renew replaces the copy of the secret of cookies.
	Renew   func(secret []byte)
	Sockets Sockets
	// Frames are the published frames of sessions, and Watch watches one.
	Frames Frames
	Watch  func(session string) Watch
	// Logs has the readers of projects' logs, and Noticing fails while no notices come.
	Logs     *logtail.Hub
	Noticing func() error
	// SystemSocket makes a system socket of a request with a checked caller and CSRF token; it fails before the
	// first write.
	SystemSocket func(w http.ResponseWriter, r *http.Request, signedOut func(end func()) (stop func())) error
	// Ready says whether requests can be served.
	Ready  func(context.Context) error
	Limits Limits
	// CSRFCookie is the SameSite of the CSRF cookie.
	CSRFCookie http.SameSite
}

// Server is the HTTP surface. Make one with [New].
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
	// description returns the API's description, made when it is first asked for.
	description func() ([]byte, error)
}

// New returns a server. It fails with fault.Internal if the contract's routes cannot be registered.
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

// Drain makes the server refuse new requests with fault.Unavailable. Those it works on are finished.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.drain()
}
