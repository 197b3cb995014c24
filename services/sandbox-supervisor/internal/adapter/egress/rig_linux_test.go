package egress

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/services/sandbox-supervisor/internal/netns/netnstest"
)

func TestMain(m *testing.M) {
	if netnstest.Invoked() {
		netnstest.Main()
	}
	goleak.VerifyTestMain(m)
}

// world is the simulated network outside of a cage: names with addresses, and servers at addresses.
type world struct {
	mu      sync.Mutex // guards the fields below
	names   map[string][]netip.Addr
	servers map[netip.AddrPort]string // real address of each simulated one
	lookups []string
	dialled []netip.AddrPort
}

func newWorld() *world {
	return &world{names: map[string][]netip.Addr{}, servers: map[netip.AddrPort]string{}}
}

// at gives a name an address, and starts the server at it.
func (w *world) at(name, address string, server net.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := netip.MustParseAddrPort(address)
	if name != "" {
		w.names[name] = []netip.Addr{at.Addr()}
	}
	w.servers[at] = server.String()
}

func (w *world) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups = append(w.lookups, host)
	if addrs, ok := w.names[host]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, to)
	server, ok := w.servers[to]
	w.mu.Unlock()
	if !ok {
		return nil, errors.New("nobody is there")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func (w *world) asked() ([]string, []netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lookups), slices.Clone(w.dialled)
}

// journal records the attempts reported by a gate.
type journal struct {
	mu       sync.Mutex // guards the fields below
	attempts []contract.Attempt
	changed  chan struct{} // closed at the next attempt
}

func (j *journal) add(a contract.Attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.attempts = append(j.attempts, a)
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// next is closed at the next attempt.
func (j *journal) next() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return j.changed
}

// has reports whether an attempt at target was reported with that verdict and with why in its rule.
func (j *journal) has(target string, allowed bool, why string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.attempts, func(a contract.Attempt) bool {
		return a.Target == target && a.Allowed == allowed && strings.Contains(a.Rule, why)
	})
}

// expect fails the test unless has becomes true: an attempt may be reported after its program has seen the outcome.
func (j *journal) expect(t testing.TB, target string, allowed bool, why string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		next := j.next()
		if j.has(target, allowed, why) {
			return
		}
		select {
		case <-next:
		case <-limit:
			j.mu.Lock()
			defer j.mu.Unlock()
			t.Errorf("no attempt at %s, allowed %t, because %q, in %+v", target, allowed, why, j.attempts)
			return
		}
	}
}

// limits are the limits of tests: the defaults, with times that no test reaches on a busy machine.
func limits() Limits {
	return Limits{
		Connections: 256, ResolveTimeout: time.Minute, ConnectTimeout: time.Minute, HelloTimeout: time.Minute,
		IdleTimeout: time.Minute, BodyBytes: 1 << 20,
	}
}

// guarded is a cage's network with its gate.
type guarded struct {
	*netnstest.Space
	*journal
	gate *Gate
	stop func() // ends the gate and returns when it has ended
}

// guard makes a network for rules and serves it until the test ends. change may change the gate's options.
func guard(t testing.TB, way netnstest.Way, w *world, rules []string, change func(*Options)) *guarded {
	t.Helper()
	g := &guarded{journal: &journal{}}
	opts := Options{
		Limits: limits(), Outside: Outside{Lookup: w.lookup, Dial: w.dial}, Attempt: g.add,
		Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&opts)
	}
	g.gate = New(parse(t, rules...), opts)
	g.Space = netnstest.Open(t, way, g.gate.Plan())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.gate.Serve(ctx, g.Sockets) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the gate ended with %v", err)
		}
	})
	t.Cleanup(g.stop)
	return g
}

// parse parses rules.
func parse(t testing.TB, texts ...string) (rules []cage.Rule) {
	t.Helper()
	for _, text := range texts {
		rule, err := cage.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, rule)
	}
	return rules
}

// web is a server that answers with its greeting.
func web(t testing.TB, greeting string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, greeting+" "+req.Host+req.URL.Path)
	}))
	t.Cleanup(server.Close)
	return server
}

// files counts this process's open descriptors.
func files(t testing.TB) int {
	t.Helper()
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	n, buf := 0, make([]byte, 8192)
	for {
		got, err := unix.ReadDirent(dir, buf)
		if err != nil {
			t.Fatal(err)
		}
		if got == 0 {
			return n
		}
		_, names, _ := unix.ParseDirent(buf[:got], -1, nil)
		n += names
	}
}

// quiet is a log for servers whose clients misbehave.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
