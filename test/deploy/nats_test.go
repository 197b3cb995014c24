package deploy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/mtls/authority"
	"kaged.dev/pkg/testkit/certs"
)

// natsWithTLS runs NATS with deploy/nats/mtls.conf and returns its URL.
func natsWithTLS(t *testing.T, ca *certs.CA) string {
	t.Helper()
	files := ca.Sign(authority.Request{Store: "nats", Hosts: []string{"127.0.0.1"}, Valid: time.Hour})
	conf := strings.NewReplacer(
		"/run/secrets/tls", filepath.Dir(files.Cert), `"/data"`, `"`+t.TempDir()+`"`,
		"0.0.0.0:4222", "127.0.0.1:-1", `http: "127.0.0.1:8222"`, "",
	).Replace(text(t, "deploy", "nats", "mtls.conf"))
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS does not start")
	}
	return "tls://" + s.Addr().String()
}

// NATS knows a service by its certificate. Each has its own subjects and no other: the gateway
// writes no frame, no service reads another's answers, and a workspace, a debugging certificate and one of another CA
// are not let in.
func TestNATSUsers(t *testing.T) {
	t.Parallel()
	ca := certs.New(t)
	url := natsWithTLS(t, ca)
	connect := func(user string, files mtls.Files) (*bus.Conn, error) {
		c, err := bus.Connect(t.Context(), bus.Config{
			URL: url, User: user, Files: bus.Files{CA: files.CA, Cert: files.Cert, Key: files.Key},
		})
		if err == nil {
			t.Cleanup(c.Close)
		}
		return c, err
	}
	must := func(user string) *bus.Conn {
		t.Helper()
		c, err := connect(user, ca.Issue(user))
		if err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		return c
	}
	manager, gateway, issue := must("session-manager"), must("gateway"), must("issue")

	frames, err := bus.OpenFrames(t.Context(), manager, bus.FramesConfig{})
	if err != nil {
		t.Fatalf("session-manager makes the stream: %v", err)
	}
	read := bus.ReadFrames(gateway)
	seen := make(chan bus.Batch, 10)
	live := read.Live(func(b bus.Batch) { seen <- b }, func() {})
	defer live.Close()
	if _, err := live.Follow(t.Context(), "S1"); err != nil {
		t.Fatalf("the gateway subscribes: %v", err)
	}
	batch := bus.Batch{Session: "S1", Channel: "events", Epoch: 1, Seq: 1, Count: 1, Body: []byte(`{"seq":1}`)}
	if _, err := frames.Publish(t.Context(), batch); err != nil {
		t.Fatalf("session-manager publishes a frame: %v", err)
	}
	if got := <-seen; string(got.Body) != string(batch.Body) {
		t.Errorf("the gateway sees %q", got.Body)
	}
	if _, found, err := read.Tail(t.Context(), "S1", "events"); err != nil || !found {
		t.Errorf("the gateway reads the tail: %t, %v", found, err)
	}
	heard := make(chan string, 10)
	for name, c := range map[string]*bus.Conn{"gateway": gateway, "session-manager": manager} {
		if err := c.Listen(t.Context(), "issues.changed", func(data []byte) {
			heard <- name + " " + string(
				data)
		}); err != nil {
			t.Errorf("%s listens for issues: %v", name, err)
		}
	}
	if err := issue.Notify(t.Context(), "issues.changed", []byte("1")); err != nil {
		t.Errorf("issue tells of a change: %v", err)
	}
	if a, b := <-heard, <-heard; a == b {
		t.Errorf("heard %q and %q, want each once", a, b)
	}

	forged := batch
	forged.Seq, forged.Body = 2, []byte(`{"seq":2}`)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := read.Publish(ctx, forged); err == nil {
		t.Error("the gateway has published a frame")
	}
	if tail, _, err := read.Tail(t.Context(), "S1", "events"); err != nil || tail.Seq != 1 {
		t.Errorf("after a forged frame the tail is %d, %v, want 1", tail.Seq, err)
	}
	for _, who := range []string{"tool-runner", "sandbox-supervisor", "harness", "debug"} {
		if _, err := connect(who, ca.Issue(who)); !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s connects: got %v, want unavailable", who, err)
		}
	}
	foreign := certs.New(t).Issue("session-manager")
	foreign.CA = filepath.Join(ca.Dir, "ca.crt")
	if _, err := connect("session-manager", foreign); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a certificate of another CA connects: got %v, want unavailable", err)
	}
	trusting := ca.Issue("gateway")
	trusting.CA = filepath.Join(certs.New(t).Dir, "ca.crt")
	if _, err := connect("gateway", trusting); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a server of another CA is believed: got %v, want unavailable", err)
	}
	peeks(t, url, ca)
}

// peeks checks that other users' subjects cannot be read.
func peeks(t *testing.T, url string, ca *certs.CA) {
	t.Helper()
	for who, subjects := range map[string]string{
		"issue":           "ws.> live.> system.changed _INBOX.> _INBOX.gateway.>",
		"gateway":         "ws.> _INBOX.> _INBOX.session-manager.> >",
		"session-manager": "_INBOX.gateway.> >",
	} {
		files := ca.Issue(who)
		refused := make(chan error, 10)
		nc, err := nats.Connect(url, nats.ClientCert(files.Cert, files.Key), nats.RootCAs(files.CA),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
		if err != nil {
			t.Fatal(err)
		}
		for subject := range strings.FieldsSeq(subjects) {
			if _, err := nc.Subscribe(subject, func(*nats.Msg) {}); err != nil {
				t.Fatal(err)
			}
			if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s subscribes %s: got %v, want a violation", who, subject, err)
			}
		}
		nc.Close()
	}
}
