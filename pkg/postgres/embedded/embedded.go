package embedded

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
)

// The database and its logins.
const (
	database   = "kaged"
	ownerLogin = "kaged_owner"
	appLogin   = "kaged_app"
	superuser  = "postgres"
	port       = "5432" // Names the socket only.
)

// Options are the data directory and settings of a server.
type Options struct {
	// DataDir is kaged's data directory. Its postgres and log folders are used.
	DataDir string
	// Log gets the events of the server; the server's own log is a file. nil discards them.
	Log *slog.Logger
	// NoSync leaves writes to the operating system. A power cut can then destroy the database; the end of a process loses
	// no data. It is for tests.
	NoSync bool
	// Getenv reads KAGED_PG_BIN and PATH; nil means os.Getenv.
	Getenv func(string) string
}

// Server is a running server. Its methods may be called from any goroutine.
type Server struct {
	paths paths
	creds credentials
	proc  *process
	locks *locks

	released sync.Once
}

// Start starts the server and returns when it accepts connections. ctx limits the start, not the server's life. If
// another server for the same data is still shutting down, Start waits for it. The caller calls Stop.
//
// It returns fault.Unavailable if PostgreSQL is not installed or does not start, and fault.Conflict if the data is in
// use, belongs to another user, or to another major version; each message gives the next step.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	dir, err := filepath.Abs(opts.DataDir)
	if err != nil || opts.DataDir == "" {
		return nil, failed(err, "The data directory %q is not a path.", opts.DataDir)
	}
	s := &Server{paths: pathsIn(dir)}
	if err := s.paths.make(); err != nil {
		return nil, err
	}
	if s.locks, err = takeLocks(ctx, s.paths); err != nil {
		return nil, err
	}
	if err := s.start(ctx, opts); err != nil {
		s.locks.release()
		return nil, err
	}
	return s, nil
}

// Look finds the PostgreSQL that Start would use and returns its version and the folder of its programs. It starts no
// server. Without PostgreSQL it fails as Start does.
func Look(ctx context.Context, opts Options) (version, bin string, err error) {
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	dir, err := filepath.Abs(opts.DataDir)
	if err != nil {
		return "", "", failed(err, "The data directory %q is not a path.", opts.DataDir)
	}
	found, err := findInstallation(ctx, opts.Getenv, pathsIn(dir))
	return found.version, found.bin, err
}

func (s *Server) start(ctx context.Context, opts Options) error {
	began := time.Now()
	install, err := findInstallation(ctx, opts.Getenv, s.paths)
	if err != nil {
		return err
	}
	c := cluster{install: install, paths: s.paths, locks: s.locks, noSync: opts.NoSync}
	if s.creds, err = c.prepare(ctx, opts.Log); err != nil {
		return err
	}
	if s.proc, err = c.launch(); err != nil {
		return err
	}
	s.locks.handOver()
	if err := s.proc.waitReady(ctx, s.paths); err != nil {
		s.proc.kill()
		return err
	}
	opts.Log.Info(
		"PostgreSQL is ready",
		"version",
		install.version,
		"pid",
		s.proc.pid(),
		"took",
		time.Since(began).Round(time.Millisecond),
	)
	return nil
}

// OwnerURL connects as the owner of the database, who may create schemas, roles and databases and is not a superuser.
// It holds a password: do not log it.
func (s *Server) OwnerURL() string { return s.url(ownerLogin, s.creds.Owner) }

// URL connects as kaged_app, the role of the services. It holds a password: do not log it.
func (s *Server) URL() string { return s.url(appLogin, s.creds.App) }

func (s *Server) url(user, password string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password), Path: "/" + database,
		RawQuery: url.Values{"host": {s.paths.run}, "port": {port}, "sslmode": {"disable"}}.Encode(),
	}
	return u.String()
}

// PID returns the process id of the server.
func (s *Server) PID() int { return s.proc.pid() }

// Processes returns the ids of the server and its children, as far as the system reports them.
func (s *Server) Processes() []int {
	var pids []int
	for _, h := range holdersOf(s.paths.server) {
		pids = append(pids, h.pid)
	}
	return pids
}

// Done is closed when the server has ended, by Stop or on its own.
func (s *Server) Done() <-chan struct{} { return s.proc.done }

// Err is the reason why the server ended on its own; it is nil before Done is closed and after a successful Stop.
func (s *Server) Err() error {
	select {
	case <-s.proc.done:
		return s.proc.failure()
	default:
		return nil
	}
}

// Stop ends the server: it refuses new connections, rolls open transactions back and writes all data to disk. When ctx
// ends first, the server is killed; it loses no committed data, and its next start takes longer. Stop returns when the
// server has ended, with fault.Unavailable if it failed. A second Stop has no effect.
func (s *Server) Stop(ctx context.Context) error {
	err := s.proc.stop(ctx)
	s.released.Do(func() {
		s.endChildren()
		s.locks.release()
		s.paths.removeShort()
	})
	return err
}

// endChildren ends the remaining processes of a killed server. Its children end by themselves, unless they are stopped
// or wait for a disk.
func (s *Server) endChildren() {
	f, err := lockFile(context.Background(), s.paths.server, childPatience, nil)
	if err != nil {
		killHolders(s.paths)
		return
	}
	_ = f.Close()
}

// failed returns an error of the embedded server.
func failed(err error, format string, args ...any) *fault.Error {
	return fault.Wrap(err, fault.Unavailable, format, args...).With("subsystem", "storage")
}

func conflict(err error, format string, args ...any) *fault.Error {
	return fault.Wrap(err, fault.Conflict, format, args...).With("subsystem", "storage")
}

// ended returns an error that names the end of ctx during a start.
func ended(ctx context.Context, what string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fault.From(ctx.Err())
	}
	return failed(ctx.Err(), "%s", what)
}
