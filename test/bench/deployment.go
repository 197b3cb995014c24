package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/mtls/authority"
	"kaged.dev/pkg/postgres/embedded"
)

// workspace are the services of a deployment without replicas, control those with replicas.
var (
	workspace = mtls.WorkspaceServices()
	control   = slices.DeleteFunc(mtls.Services(), func(s string) bool { return slices.Contains(workspace, s) })
)

// deployment is kaged with a process for each service and replica, which talk over mTLS, and with processes of its own
// for Postgres and NATS. Its daemon is a client of all gateways.
type deployment struct {
	daemon
	dir      string
	shared   []string // the environment of all processes
	ca       *authority.CA
	postgres *embedded.Server
	nats     *barePeer
	spread   []*spreader
	running  map[string][]*exec.Cmd // by service
	probes   []string               // the addresses of /readyz
	ended    bool
}

// hosts is the number of loopback addresses that deployments of this process have used: each process has its own, so
// that no other connection takes its port.
var hosts atomic.Uint32

func ownAddress() string {
	n := hosts.Add(1)
	return fmt.Sprintf("127.%d.%d.%d:7000", 60+n/250, os.Getpid()%250, 1+n%250)
}

// deploy starts a deployment with a number of replicas, signs in, and loads the project. keys are further variables.
func (w *world) deploy(ctx context.Context, replicas int, keys ...string) (_ *deployment, err error) {
	dir, err := os.MkdirTemp(w.dir, "deployment-")
	if err != nil {
		return nil, err
	}
	d := &deployment{dir: dir, running: map[string][]*exec.Cmd{}}
	defer func() {
		if err != nil {
			d.end()
		}
	}()
	if d.postgres, err = embedded.Start(ctx, embedded.Options{DataDir: dir}); err != nil {
		return nil, err
	}
	if d.nats, err = startPeer(ctx, "nats", filepath.Join(dir, "nats")); err != nil {
		return nil, err
	}
	if err := d.certify(); err != nil {
		return nil, err
	}
	d.shared = append(environ(dir), "KAGED_CONFIG="+filepath.Join(w.dir, "local.toml"),
		"KAGED_DATABASE_URL="+d.postgres.OwnerURL(), "KAGED_DATABASE_APP_URL="+d.postgres.URL(),
		"KAGED_NATS_URL="+d.nats.NATS)
	d.shared = append(d.shared, keys...)
	if err := d.startAll(filepath.Dir(w.kaged), replicas); err != nil {
		return nil, err
	}
	if err := d.ready(ctx); err != nil {
		return nil, err
	}
	d.client, err = client.SignIn(ctx, host.SocketPath(filepath.Join(dir, "gateway-0"), "gateway"))
	if err != nil {
		return nil, err
	}
	return d, d.load(ctx, w.project)
}

func (d *deployment) certify() error {
	folder := filepath.Join(d.dir, "ca")
	err := authority.Init(folder, time.Hour, time.Now())
	if err == nil {
		d.ca, err = authority.Open(folder)
	}
	return err
}

// startAll starts the services. A service with replicas is reached through a spreader; one gateway is reached directly.
func (d *deployment) startAll(bin string, replicas int) error {
	at := map[string][]string{}
	for _, name := range workspace {
		at[name] = []string{ownAddress()}
		d.shared = append(d.shared, config.EnvName("services", name, "address")+"="+at[name][0])
	}
	for _, name := range control {
		for range replicas {
			at[name] = append(at[name], ownAddress())
		}
		address := at[name][0]
		if replicas > 1 {
			s, err := newSpreader(at[name])
			if err != nil {
				return err
			}
			d.spread = append(d.spread, s)
			address = s.Addr().String()
		}
		if name == "gateway" {
			d.shared = append(d.shared, "KAGED_UI_URL=http://"+address)
		} else {
			d.shared = append(d.shared, config.EnvName("services", name, "address")+"="+address)
		}
	}
	for _, name := range append(workspace[:len(workspace):len(workspace)], control...) {
		// One certificate for all replicas: a second one would replace the files while the first process reads them.
		identity := mtls.Identity{Service: name}
		made, _, err := d.ca.Issue(authority.Request{Identity: identity, Valid: time.Hour}, time.Now())
		if err != nil {
			return err
		}
		for i, address := range at[name] {
			if err := d.start(filepath.Join(bin, name), made, name, i, address); err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts a process with the certificate in a folder.
func (d *deployment) start(program, certificate, name string, n int, address string) error {
	probe := ownAddress()
	d.probes = append(d.probes, probe)
	cmd := exec.Command(program)
	data := filepath.Join(d.dir, fmt.Sprintf("%s-%d", name, n))
	cmd.Env = append(append([]string{}, d.shared...), "KAGED_DATA_DIR="+data,
		"KAGED_PROBE_LISTEN="+probe, "KAGED_TLS_CA_FILE="+filepath.Join(certificate, authority.CACert),
		"KAGED_TLS_CERT_FILE="+filepath.Join(certificate, authority.Cert),
		"KAGED_TLS_KEY_FILE="+filepath.Join(certificate, authority.CertKey))
	if name == "gateway" {
		cmd.Env = append(cmd.Env, "KAGED_LISTEN="+address)
	} else {
		cmd.Env = append(cmd.Env, config.EnvName("services", name, "listen")+"="+address,
			config.EnvName("services", name, "address")+"="+address)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	d.running[name] = append(d.running[name], cmd)
	return nil
}

// ready waits until each process is ready.
func (d *deployment) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*startLimit)
	defer cancel()
	for _, probe := range d.probes {
		for {
			resp, err := http.Get("http://" + probe + "/readyz")
			if err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					break
				}
			}
			select {
			case <-ctx.Done():
				return errors.New("a service of the deployment did not become ready")
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// end stops everything, in the opposite order of the start.
func (d *deployment) end() {
	if d.ended {
		return
	}
	d.ended = true
	if d.client != nil {
		d.client.Close()
	}
	for _, list := range d.running {
		for _, cmd := range list {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, list := range d.running {
		for _, cmd := range list {
			_ = cmd.Wait()
		}
	}
	for _, s := range d.spread {
		s.close()
	}
	if d.nats != nil {
		d.nats.end()
	}
	if d.postgres != nil {
		_ = d.postgres.Stop(context.Background())
	}
	_ = os.RemoveAll(d.dir)
}

// usage is CPU time: of kaged's services, and of Postgres and NATS.
type usage struct{ services, stores time.Duration }

func (u usage) since(before usage) usage {
	return usage{u.services - before.services, u.stores - before.stores}
}

// used returns the CPU time of all processes so far.
func (d *deployment) used() (u usage, err error) {
	of := func(pid int) time.Duration {
		tree, treeErr := processesOf(pid)
		err = errors.Join(err, treeErr)
		var sum time.Duration
		for _, p := range tree {
			sum += p.used
		}
		return sum
	}
	for _, list := range d.running {
		for _, cmd := range list {
			u.services += of(cmd.Process.Pid)
		}
	}
	u.stores = of(d.postgres.PID()) + of(d.nats.cmd.Process.Pid)
	return u, err
}

// rss returns the memory of the processes of a service, in bytes.
func (d *deployment) rss(service string) (sum int64, err error) {
	for _, cmd := range d.running[service] {
		n, err := memoryOf(cmd.Process.Pid, "VmRSS")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// spreader is the address of a service: its connections go to the replicas in turns.
//
// Goroutines: one that accepts, and two for each connection, until close.
type spreader struct {
	net.Listener
	backends []string
	next     atomic.Uint32
	passing  sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	open   map[net.Conn]bool
	closed bool
}

func newSpreader(backends []string) (*spreader, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &spreader{Listener: l, backends: backends, open: map[net.Conn]bool{}}
	s.passing.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.passing.Go(func() { s.pass(c) })
		}
	})
	return s, nil
}

// keep remembers a connection for close. It reports whether there is time for it.
func (s *spreader) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = true
	return !s.closed
}

func (s *spreader) drop(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	c.Close()
}

func (s *spreader) pass(from net.Conn) {
	defer s.drop(from)
	to, err := net.Dial("tcp", s.backends[int(s.next.Add(1))%len(s.backends)])
	if err != nil {
		return
	}
	defer s.drop(to)
	if !s.keep(from) || !s.keep(to) {
		return
	}
	s.passing.Go(func() { copyUntil(to, from) })
	copyUntil(from, to)
}

// copyUntil copies until one side ends, and closes both.
func copyUntil(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	to.Close()
	from.Close()
}

func (s *spreader) close() {
	s.Listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.passing.Wait()
}
