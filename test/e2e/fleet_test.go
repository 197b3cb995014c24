package e2e_test

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/rpc"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/certs"
	"kaged.dev/pkg/testkit/fakellm"
	"kaged.dev/test/e2e/kagedtest"
)

// fleet is a deployment with several replicas of each service but those of the workspace: each is a process with a
// certificate, a data directory and an address of its own, and others reach them at the address of the service.
type fleet struct {
	*kagedtest.World
	hosts  *hosts
	relays map[string]*relay
	shared []string
	mu     sync.Mutex // guards the map
	live   map[string]*kagedtest.Process
}

// relay is the address of a service: each connection goes to the next replica that is there.
type relay struct {
	net.Listener
	next     atomic.Uint32
	backends []string
}

func newRelay(t *testing.T, backends ...string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, backends: backends}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.pass(c) })
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return r
}

func (r *relay) pass(from net.Conn) {
	defer from.Close()
	first := int(r.next.Add(1))
	for i := range r.backends {
		to, err := net.Dial("tcp", r.backends[(first+i)%len(r.backends)])
		if err != nil {
			continue
		}
		defer to.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			io.Copy(to, from)
			to.Close()
		}()
		io.Copy(from, to)
		from.Close()
		<-done
		return
	}
}

// startFleet starts the workspace, and the first replica of each other service. toml is added to the configuration.
func startFleet(t *testing.T, llm *fakellm.Server, replicas int, toml string) *fleet {
	t.Helper()
	f := &fleet{
		World:  kagedtest.NewWorld(t, kagedtest.FakeModels(llm, "anthropic")+toml),
		relays: map[string]*relay{}, live: map[string]*kagedtest.Process{},
	}
	f.hosts = &hosts{World: f.World, ca: certs.New(t), addresses: map[string]string{}}
	f.shared = append(append([]string{}, f.Env...), databaseEnv(t)...)
	f.shared = append(f.shared, "KAGED_NATS_URL="+natsURL(t))
	for _, name := range serviceNames {
		if mtls.InWorkspace(name) {
			f.hosts.addresses[name] = testkit.Address()
			f.shared = append(f.shared, config.EnvName("services", name, "address")+"="+f.hosts.addresses[name])
			continue
		}
		var backends []string
		for i := range replicas {
			id := replicaOf(name, i)
			f.hosts.addresses[id] = testkit.Address()
			backends = append(backends, f.hosts.addresses[id])
		}
		f.relays[name] = newRelay(t, backends...)
		if name != "gateway" {
			f.shared = append(f.shared, config.EnvName("services", name, "address")+"="+f.relays[name].Addr().String())
		}
	}
	f.shared = append(f.shared, "KAGED_UI_URL=http://"+f.relays["gateway"].Addr().String())
	for _, name := range serviceNames {
		if mtls.InWorkspace(name) {
			f.start(t, name, name)
		} else {
			f.start(t, name, replicaOf(name, 0))
		}
	}
	for id := range f.live {
		f.serves(t, id)
	}
	return f
}

func replicaOf(name string, i int) string { return name + "-" + string(rune('a'+i)) }

// start starts a process of a service.
func (f *fleet) start(t *testing.T, name, id string) {
	t.Helper()
	env := append(append([]string{}, f.shared...), certs.Env(f.hosts.ca.Issue(name))...)
	env = append(env, "KAGED_DATA_DIR="+filepath.Join(f.Dir, "data-"+id))
	if name == "gateway" {
		env = append(env, "KAGED_LISTEN="+f.hosts.addresses[id])
	} else {
		env = append(env, config.EnvName("services", name, "listen")+"="+f.hosts.addresses[id],
			config.EnvName("services", name, "address")+"="+f.hosts.addresses[id])
	}
	p := kagedtest.Command(t, name, env)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[id] = p
}

// serves waits until a process serves.
func (f *fleet) serves(t *testing.T, id string) {
	t.Helper()
	name := serviceOf(id)
	var conn *grpc.ClientConn
	if name == "gateway" {
		var err error
		if conn, err = grpc.NewClient("unix:"+f.socket(id), rpc.DialOptions()...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	} else {
		conn = f.hosts.at(t, mtls.Debug, name, f.hosts.addresses[id])
	}
	health := grpc_health_v1.NewHealthClient(conn)
	kagedtest.Eventually(t, id+" serves", func() bool {
		resp, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err == nil && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	})
}

// stopping reports whether a process has begun to stop.
func (f *fleet) stopping(t *testing.T, id string) bool {
	conn := f.hosts.at(t, mtls.Debug, serviceOf(id), f.hosts.addresses[id])
	defer conn.Close()
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	return err != nil || resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING
}

func (f *fleet) socket(id string) string {
	return host.SocketPath(filepath.Join(f.Dir, "data-"+id), "gateway")
}

func serviceOf(id string) string {
	for _, name := range serviceNames {
		if id == name || len(id) == len(name)+2 && id[:len(name)+1] == name+"-" {
			return name
		}
	}
	return ""
}

// add starts further replicas.
func (f *fleet) add(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		f.start(t, serviceOf(id), id)
	}
	for _, id := range ids {
		f.serves(t, id)
	}
}

// drain ends a process with SIGTERM and waits for its end.
func (f *fleet) drain(t *testing.T, id string) {
	t.Helper()
	p := f.process(id)
	p.Signal(syscall.SIGTERM)
	if _, code := p.Rest(t); code != 0 {
		t.Errorf("%s ended with %d: %s", id, code, p.Stderr.Tail(5))
	}
}

// kill ends a process without a word.
func (f *fleet) kill(id string) {
	p := f.process(id)
	p.Kill()
	<-p.Done()
}

func (f *fleet) process(id string) *kagedtest.Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live[id]
}

// signIn returns a signed-in client, whose connections go to any gateway.
func (f *fleet) signIn(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.SignIn(t.Context(), f.socket(replicaOf("gateway", 0)))
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	t.Cleanup(c.Close)
	return kagedtest.Checked(t, c)
}
