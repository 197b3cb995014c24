package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/telemetry"
)

// Module is a service that a process can run.
type Module struct {
	// Name is the service's folder name, such as tool-runner.
	Name string
	// Needs are the services that it calls. A cycle of needs is refused.
	Needs []string
	// Direct means that services of the same process call this one without a transport. It is worthwhile for streams of
	// thousands of small messages, or of large messages. Between processes it has no effect.
	Direct bool
	// Defaults is its configuration with default values, for the reference page.
	Defaults any
	// Files are the configured files that no agent may see or change.
	Files []OperatorFile
	// Schema is its Postgres schema, if any.
	Schema Schema
	// New builds the service. It starts no goroutine and does not use the network.
	New func(*Env) (Service, error)
}

// Schema is a schema of Postgres and its migrations.
type Schema struct {
	Name  string
	Files fs.FS
}

// OperatorFile is a file that a service reads on the operator's order.
type OperatorFile struct {
	// Key is the key of the service's configuration with the file's path.
	Key string
	// Default is the file's name beside the operator's configuration if the key is unset.
	Default string
}

// Service is a built service.
type Service interface {
	// Register registers the service's gRPC services; it is called once, before Run.
	Register(grpc.ServiceRegistrar)
	// Run works until ctx ends and returns when every goroutine of the service has ended: nil after a clean stop. An error
	// stops the whole process.
	Run(ctx context.Context) error
}

// Starter is a Service with work before its first call, such as the recovery of files. Start is called once, after
// Register and before the first request. An error stops the whole process.
type Starter interface {
	Start(ctx context.Context) error
}

// Drainer is a Service with work to finish before its streams are cut. Drain is called once when the service stops,
// while all its needs still work. It returns when the service has no long stream left, or when ctx, the drain grace,
// ends.
type Drainer interface{ Drain(ctx context.Context) }

// Readier is a Service with a readiness check: the gRPC health service reports NOT_SERVING while Ready fails.
type Readier interface {
	Ready(ctx context.Context) error
}

// Database is the address of Postgres.
type Database struct {
	// OwnerURL connects as the owner of the schemas. If it is empty, services do not migrate and wait until another
	// process has.
	OwnerURL string
	// URL connects as the services' role; empty means that they connect as the owner and switch to that role.
	URL string
	// Embedded means that this process started Postgres for itself.
	Embedded bool
}

// Named fails with bad_request if no database is configured, because a service in its own process has no embedded
// Postgres.
func (d Database) Named() error {
	if d.OwnerURL == "" && d.URL == "" {
		return fault.New(fault.BadRequest, "Where Postgres is must be said: [database] url in the configuration, or "+
			"KAGED_DATABASE_URL.")
	}
	return nil
}

// NATS is the address of NATS.
type NATS struct {
	// URL is its address, empty for one in this process.
	URL string
	// Files are the files of the configuration; [New] sets them.
	Files NATSFiles
	// InProcess connects to a server in this process, nil for another process.
	InProcess interface{ InProcessConn() (net.Conn, error) }
}

// Named fails with bad_request if no server is configured, because a service in its own process has no embedded NATS.
func (n NATS) Named() error {
	if n.URL == "" && n.InProcess == nil {
		return fault.New(fault.BadRequest, "Where NATS is must be said: [nats] url in the configuration, or KAGED_NATS_URL.")
	}
	return nil
}

// Options configure a process.
type Options struct {
	// File is the operator's configuration, ConfigPath its path.
	File       *config.File
	ConfigPath ownpath.Path
	// DataDir is the data directory; it may be the zero Path.
	DataDir ownpath.Path
	// Log is the process's log.
	Log *slog.Logger
	// Version is the version to show.
	Version string
	// Listen is the gateway's TCP address, UIURL its address for browsers.
	Listen, UIURL string
	// Insecure disables sign-in, InsecureAnywhere permits that on an address reachable from other machines, NoSandbox
	// disables cages.
	Insecure, InsecureAnywhere, NoSandbox bool
	// RateLimitsOff disables the rate limits of the API.
	RateLimitsOff bool
	// Private means that the process works for one command: only this process can call its services, despite configured
	// addresses, and a service starts programs only when they are needed.
	Private bool
	// Database and NATS are the addresses of the stores.
	Database Database
	NATS     NATS
	// DrainGrace is the time limit for draining; zero means the file's value, or 10 s.
	DrainGrace time.Duration
	// Hurry is closed to cut off running work at once after ctx has ended; nil means never.
	Hurry <-chan struct{}
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
	// Telemetry are the process's traces and metrics, or nil.
	Telemetry *telemetry.Kit
	// GRPC are additional options for servers, Dial for clients.
	GRPC []grpc.ServerOption
	Dial []grpc.DialOption
}

// Host runs modules. Create it with [New]; Run it once.
type Host struct {
	opts    Options
	limits  limits
	token   string // the service token, "" without one
	tls     *mtls.Material
	modules []*running // in start order: needs come first
	conns   conns
}

// New builds the modules and their services. It fails on a cycle of needs, on a duplicate name, and with the error of a
// module's New.
func New(opts Options, modules ...Module) (*Host, error) {
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if opts.File == nil {
		opts.File = &config.File{}
	}
	limits, err := limitsOf(opts)
	if err != nil {
		return nil, err
	}
	ordered, err := order(modules)
	if err != nil {
		return nil, err
	}
	if kit := opts.Telemetry; kit != nil {
		opts.GRPC = append(slices.Clip(opts.GRPC), kit.Server...)
		opts.Dial = append(slices.Clip(opts.Dial), kit.Client...)
	}
	h := &Host{opts: opts, limits: limits}
	h.conns.host = h
	if !opts.Private {
		if h.token, err = serviceToken(opts.File, opts.Getenv); err != nil {
			return nil, err
		}
		if h.tls, err = loadTLS(opts.File, opts.Getenv, opts.Log); err != nil {
			return nil, err
		}
	}
	if err := checkSystem(opts); err != nil {
		return nil, err
	}
	if opts.NATS.InProcess == nil {
		opts.NATS.Files = natsFiles(opts.File, opts.Getenv)
	}
	own, err := Own(opts.File, opts.ConfigPath, opts.DataDir, opts.Getenv, modules...)
	if err != nil {
		return nil, err
	}
	node, instance, err := identity(opts.DataDir)
	if err != nil {
		return nil, err
	}
	for _, m := range ordered {
		r, err := newRunning(h, m)
		if err != nil {
			return nil, err
		}
		h.modules = append(h.modules, r)
	}
	for _, r := range h.modules {
		env := &Env{
			Log: opts.Log.With("service", r.Name), DataDir: opts.DataDir, Own: own, Node: node, Instance: instance,
			Database: opts.Database, NATS: opts.NATS, Version: opts.Version, NoSandbox: opts.NoSandbox,
			RateLimitsOff: opts.RateLimitsOff,
			Insecure:      opts.Insecure, InsecureAnywhere: opts.InsecureAnywhere, Private: opts.Private, File: opts.File,
			ConfigPath: opts.ConfigPath, Listen: opts.Listen, UIURL: opts.UIURL,
			Telemetry: opts.Telemetry, host: h, module: r,
		}
		if r.service, err = r.New(env); err != nil {
			h.conns.close()
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	return h, nil
}

// Service returns the built service of a module, nil for one that is not in this process. It is for main functions that
// need more than an RPC, such as the service's address.
func (h *Host) Service(name string) Service {
	if r := h.find(name); r != nil {
		return r.service
	}
	return nil
}

// Dial returns a connection to a service, as [Env.Dial] does.
func (h *Host) Dial(name string) grpc.ClientConnInterface { return h.conns.to(name) }

// Run starts every module after its needs, calls started (if not nil), and works until ctx ends or a service fails.
// Then it stops them in the reverse order and returns when all have stopped: nil after a clean stop.
func (h *Host) Run(ctx context.Context, started func()) error {
	defer h.conns.close()
	defer h.watchTLS()()
	probes, stopProbes, err := h.startProbes()
	if err != nil {
		return err
	}
	defer stopProbes()
	failed := make(chan error, len(h.modules))
	var up []*running
	var firstErr error
	for _, r := range h.modules {
		if err := r.start(ctx, failed); err != nil {
			firstErr = err
			break
		}
		up = append(up, r)
	}
	if firstErr == nil {
		probes.enter(serving)
		if started != nil {
			started()
		}
		select {
		case <-ctx.Done():
			h.opts.Log.Info("stopping", "grace", h.limits.drainGrace)
		case firstErr = <-failed:
			h.opts.Log.Error("stopping: a service failed", "error", firstErr)
		}
	}
	probes.enter(stopping)
	begun := time.Now()
	if err := h.stop(up); firstErr == nil {
		firstErr = err
	}
	h.opts.Log.Info("stopped", "took", time.Since(begun))
	return firstErr
}

// stop stops modules in the reverse order of their start.
func (h *Host) stop(up []*running) (firstErr error) {
	patience, hurry := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-h.opts.Hurry:
			hurry()
		case <-patience.Done():
		}
	})
	for _, r := range slices.Backward(up) {
		if err := r.stop(patience, h.limits); err != nil && firstErr == nil {
			firstErr = err
		}
	}
	hurry()
	watch.Wait()
	return firstErr
}

func (h *Host) find(name string) *running {
	for _, r := range h.modules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// order sorts modules so that each follows those of its needs that are present.
func order(modules []Module) ([]Module, error) {
	byName := make(map[string]Module, len(modules))
	for _, m := range modules {
		if _, twice := byName[m.Name]; twice {
			return nil, fault.New(fault.BadRequest, "The service %s is listed twice.", m.Name)
		}
		byName[m.Name] = m
	}
	var ordered []Module
	state := map[string]int{} // 1: on the path, 2: done
	var visit func(string) error
	visit = func(name string) error {
		m, present := byName[name]
		switch {
		case !present || state[name] == 2:
			return nil
		case state[name] == 1:
			return fault.New(fault.BadRequest, "The service %s needs itself through others.", name)
		}
		state[name] = 1
		for _, need := range m.Needs {
			if err := visit(need); err != nil {
				return err
			}
		}
		state[name] = 2
		ordered = append(ordered, m)
		return nil
	}
	for _, m := range modules {
		if err := visit(m.Name); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

// conns are the connections to services, created on demand.
type conns struct {
	host   *Host
	mu     sync.Mutex // guards the rest
	open   map[string]*grpc.ClientConn
	closed bool
}

func (c *conns) get(key string, dial func() (*grpc.ClientConn, error)) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("the process is stopping")
	}
	if conn := c.open[key]; conn != nil {
		return conn, nil
	}
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	if c.open == nil {
		c.open = map[string]*grpc.ClientConn{}
	}
	c.open[key] = conn
	return conn, nil
}

func (c *conns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, conn := range c.open {
		errs = append(errs, conn.Close())
	}
	c.open, c.closed = nil, true
	if err := errors.Join(errs...); err != nil {
		c.host.opts.Log.Warn("closing connections", "error", err)
	}
}
