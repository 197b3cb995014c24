package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/ident"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/testkit"
	"kaged.dev/pkg/testkit/bustest"
	"kaged.dev/pkg/testkit/pgtest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/database/migrations"
	"kaged.dev/services/session-manager/internal/sessions/core/lease"
)

// session-manager can be built and dropped, runs, stops on request, twice on the same data, and leaves no goroutine
// behind.
func TestLifecycle(t *testing.T) {
	nats := bustest.Server(t)
	owner, app := pgtest.URLs(t)
	dir := t.TempDir()
	testkit.Lifecycle(t, Module, func() host.Options {
		o := testkit.Options(t)
		o.DataDir = testkit.Own(t, dir)
		o.Database = host.Database{OwnerURL: owner, URL: app}
		o.NATS = host.NATS{InProcess: nats}
		return o
	})
}

// A daemon with an embedded Postgres opens fewer connections to it, unless the configuration names a number, and ends
// those that are not used.
func TestConnectionsToAnEmbeddedPostgres(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		database host.Database
		want     int
	}{{host.Database{Embedded: true}, 3}, {host.Database{}, 4}} {
		if got := defaults(&host.Env{Database: c.database}).DatabaseConns; got != c.want {
			t.Errorf("embedded %t: got %d connections, want %d", c.database.Embedded, got, c.want)
		}
		s := &Service{cfg: Config{DatabaseConns: c.want}, deps: Deps{Sparing: c.database.Embedded}}
		if cfg := s.database(); (cfg.Idle > 0) != c.database.Embedded || cfg.MaxConns != int32(c.want) {
			t.Errorf("embedded %t: got up to %d connections that end when unused for %s", c.database.Embedded, cfg.MaxConns,
				cfg.Idle)
		}
	}
}

// If its stores are unreachable, session-manager runs, refuses requests with the name of the missing store, and
// stops on request.
func TestStoresAway(t *testing.T) {
	t.Parallel()
	w := &world{t: t, harness: newHarness(t), tools: &toolRunner{}}
	service := w.service("postgres:///nothing?host=/nowhere", "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	conn, _ := serve(t, service.Register)
	if err := service.Ready(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("ready: %v", err)
	}
	_, err := sessionmanagerv1.NewSessionServiceClient(conn).
		GetSession(as(t, "ada"), &apiv1.GetSessionRequest{Id: ident.New()})
	if f := refused(t, err, fault.Unavailable); f.Details["subsystem"] != "storage" {
		t.Errorf("details = %v", f.Details)
	}
	stream, err := sessionmanagerv1.NewAttachServiceClient(conn).
		Attach(as(t, "ada"), &sessionmanagerv1.AttachRequest{SessionId: ident.New()})
	if err == nil {
		_, err = stream.Recv()
	}
	refused(t, err, fault.Unavailable)
	service.Drain(t.Context())
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the service ended with %v", err)
	}
}

// service returns a session-manager without NATS.
func (w *world) service(owner, app string) *Service {
	w.t.Helper()
	service, err := New(DefaultConfig(), Deps{
		Log: w.log("a"), Self: lease.Holder{Instance: ident.New(), Node: "a"}, DatabaseURL: owner, AppURL: app,
		NATS:    bus.Config{URL: "nats://127.0.0.1:1"},
		Harness: w.harness.conn(w.t), ToolRunner: w.workspaces(), DialAddress: w.dial,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return service
}

// spoilt returns a service whose database was migrated and then changed by a statement.
func spoilt(t *testing.T, statement string) *Service {
	t.Helper()
	owner, app := pgtest.URLs(t)
	pool, err := postgres.Open(t.Context(), postgres.Config{OwnerURL: owner, URL: app}, migrations.Files,
		migrations.Schema)
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	w := &world{t: t, harness: newHarness(t), tools: &toolRunner{}}
	admin := w.connect(owner)
	if _, err := admin.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	admin.Close(t.Context())
	return w.service(owner, app)
}

// If the database has a newer schema, the service ends with an error instead of waiting.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	err := spoilt(t, "update session_manager.schema_version "+
		"set (version, compatible_from) = (version + 1, version + 1)").Run(t.Context())
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("the service ended with %v", err)
	}
}

// If preparing the database fails for any reason but an unreachable database, the service ends with the cause.
func TestBootFails(t *testing.T) {
	t.Parallel()
	err := spoilt(t, "drop function session_manager.audit_ensure_partitions").Run(t.Context())
	if !errors.Is(err, fault.Internal) || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "audit_ensure_partitions") {
		t.Errorf("the service ended with %v", err)
	}
}

// An invalid setting is refused with its key.
func TestConfig(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for key, change := range map[string]func(*Config){
		"lease_ttl":      func(c *Config) { c.LeaseTTL = config.Duration(time.Millisecond) },
		"frame_batch":    func(c *Config) { c.FrameBatch = 2 << 20 },
		"frame_buffer":   func(c *Config) { c.FrameBuffer = 0 },
		"resume_limit":   func(c *Config) { c.ResumeLimit = -1 },
		"database_conns": func(c *Config) { c.DatabaseConns = 1 },
		"hold_back":      func(c *Config) { c.HoldBack = -1 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
		if _, err := New(c, Deps{}); err == nil {
			t.Errorf("%s: a service was built", key)
		}
	}
}
