package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/test/bufconn"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/retry"
	"kaged.dev/pkg/rpc"
)

// inProcessBuffer is the buffer between two services of one process, in bytes for each direction.
const inProcessBuffer = 256 << 10

// running is a module with its server.
type running struct {
	Module
	host    *Host
	service Service
	server  *grpc.Server
	health  *health
	memory  *bufconn.Listener
	direct  *direct  // the connection for this process, nil for bufconn
	listen  []string // "unix:PATH" or "host:port"; empty if only this process calls it
	address string   // address for other processes
	sockets []string // socket files to remove

	cancel context.CancelFunc // ends Run's context
	ended  chan struct{}      // closed when Run has returned
	runErr error              // error of Run; read after ended
	serves sync.WaitGroup     // goroutines of the server
}

func newRunning(h *Host, m Module) (*running, error) {
	r := &running{Module: m, host: h, memory: bufconn.Listen(inProcessBuffer)}
	if m.Direct && len(h.opts.GRPC)+len(h.opts.Dial) == 0 {
		r.direct = newDirect(m.Name, h.opts.Log.With("service", m.Name))
	}
	if h.opts.Private {
		return r, nil
	}
	var err error
	if r.listen, r.address, err = place(h.opts.File, m.Name, h.opts.Getenv); err != nil {
		return nil, err
	}
	if err := h.checkListen(m.Name, r.listen, r.address); err != nil {
		return nil, err
	}
	if len(r.listen) == 0 && !h.opts.DataDir.IsZero() {
		r.listen = []string{"unix:" + SocketPath(h.opts.DataDir.String(), m.Name)}
	}
	r.address = told(r.listen, r.address)
	return r, nil
}

func (r *running) dial() (*grpc.ClientConn, error) {
	var d dialer = r.memory
	opts := append(rpc.DialOptions(), r.host.opts.Dial...)
	opts = append(
		opts,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d.DialContext(ctx) }),
	)
	return grpc.NewClient("passthrough:///"+r.Name, opts...)
}

func (r *running) start(ctx context.Context, failed chan<- error) error {
	listeners, err := r.open(ctx)
	if err != nil {
		return err
	}
	log := r.host.opts.Log.With("service", r.Name)
	peers := rpc.Peers{Token: r.host.token, TLS: r.host.tls, Debugged: r.debugged(log), Log: log}
	opts := append(rpc.ServerOptions(log), peers.ServerOptions()...)
	keepalive := r.host.limits.keepalive
	if !slices.ContainsFunc(r.listen, func(at string) bool { return !isUnix(at) }) {
		keepalive.Age = 0
		opts = append(opts, rpc.OneHost()...)
	}
	opts = append(opts, keepalive.Server()...)
	r.server = grpc.NewServer(append(opts, r.host.opts.GRPC...)...)
	r.health = newHealth(r.service, r.host.limits.readyTimeout)
	var served grpc.ServiceRegistrar = r.server
	if r.direct != nil {
		served = both{r.server, r.direct}
	}
	grpc_health_v1.RegisterHealthServer(served, r.health)
	reflection.Register(r.server)
	r.service.Register(served)
	if s, ok := r.service.(Starter); ok {
		if err := s.Start(ctx); err != nil {
			closeAll(listeners)
			return fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	if r.direct != nil {
		r.direct.start()
	}
	r.health.serves(r.server)
	r.serve(r.memory, failed)
	for _, l := range listeners {
		r.serve(l, failed)
	}
	life, cancel := context.WithCancel(context.Background())
	r.cancel, r.ended = cancel, make(chan struct{})
	go func() {
		defer close(r.ended)
		r.runErr = r.service.Run(life)
		if life.Err() == nil {
			err := r.runErr
			if err == nil {
				err = errors.New("it ended by itself")
			}
			failed <- fmt.Errorf("%s: %w", r.Name, err)
		}
	}()
	return nil
}

func (r *running) serve(l net.Listener, failed chan<- error) {
	r.serves.Go(func() {
		if err := r.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			select {
			case failed <- fmt.Errorf("%s: serving: %w", r.Name, err):
			default:
			}
		}
	})
}

// stop stops the service in the order of the package comment. Once patience has ended, it does not wait for long work.
func (r *running) stop(patience context.Context, l limits) error {
	r.health.stop()
	if d, ok := r.service.(Drainer); ok {
		ctx, cancel := context.WithTimeout(patience, l.drainGrace)
		d.Drain(ctx)
		cancel()
	}
	force, cancel := context.WithTimeout(patience, l.stopTimeout)
	unforced := context.AfterFunc(force, r.server.Stop)
	r.server.GracefulStop()
	if r.direct != nil {
		r.direct.stop(force)
	}
	unforced()
	cancel()
	r.cancel()
	<-r.ended
	r.serves.Wait()
	for _, socket := range r.sockets {
		os.Remove(socket)
		if dir := filepath.Dir(socket); dir == shortDir(r.host.opts.DataDir.String()) {
			os.Remove(dir) // the folder stays while another service has its socket in it
		}
	}
	if r.runErr != nil && !errors.Is(r.runErr, context.Canceled) {
		return fmt.Errorf("%s: %w", r.Name, r.runErr)
	}
	return nil
}

// open returns the listeners for other processes.
func (r *running) open(ctx context.Context) (listeners []net.Listener, err error) {
	for _, at := range r.listen {
		l, err := r.openAt(ctx, at)
		if err != nil {
			closeAll(listeners)
			return nil, fault.Wrap(err, fault.Unavailable, "The service %s cannot listen on %s: %s.",
				r.Name, strings.TrimPrefix(at, "unix:"), err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

func (r *running) openAt(ctx context.Context, at string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(at, "unix:")
	if !isUnix {
		return net.Listen("tcp", at)
	}
	l, err := listenUnix(ctx, path, r.host.opts.DataDir.String())
	if err == nil {
		r.sockets = append(r.sockets, path)
	}
	return l, err
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// CheckInsecure refuses to disable sign-in on an address reachable from other machines, unless anywhere permits it. It
// fails with bad_request, details.reason insecure_anywhere.
func CheckInsecure(listen string, insecure, anywhere bool) error {
	if !insecure || anywhere || isLoopback(listen) {
		return nil
	}
	return fault.New(fault.BadRequest, "With --insecure everyone who reaches %s is the operator, and may run commands "+
		"here: listen on a loopback "+
		"address such as %s, or add --insecure-anywhere (KAGED_INSECURE_ANYWHERE).", listen, config.DefaultListen).
		With("reason", insecureAnywhere)
}

// insecureAnywhere is details.reason of the refusals of [CheckInsecure].
const insecureAnywhere = "insecure_anywhere"

func isLoopback(hostport string) bool {
	h, _, err := net.SplitHostPort(hostport)
	ip := net.ParseIP(h)
	return err == nil && (h == "localhost" || ip != nil && ip.IsLoopback())
}

// errAnswers is the refusal of a socket that a process serves.
var errAnswers = errors.New("another process answers there")

// leaving are the attempts to replace a socket that answers. A killed process may leave a child between fork and exec,
// which still has the parent's listener for some milliseconds.
var leaving = retry.Pauses{First: 5 * time.Millisecond, Last: 100 * time.Millisecond, Within: time.Second}

// listenUnix creates a socket that only its owner may use. A socket without a listener is a leftover and is replaced.
func listenUnix(ctx context.Context, path, dataDir string) (l net.Listener, err error) {
	for range leaving.Each(ctx) {
		l, err = tryListenUnix(path, dataDir)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errAnswers) {
			break
		}
	}
	return l, err
}

// tryListenUnix makes one attempt. It fails with fs.ErrNotExist if another service has stopped in the meantime and
// removed the folder.
func tryListenUnix(path, dataDir string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := ownShortDir(filepath.Dir(path), dataDir); err != nil {
		return nil, err
	}
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return nil, errAnswers
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, errors.New("something that is not a socket is there")
	}
	os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(true)
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
