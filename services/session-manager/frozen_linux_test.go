package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/pgtest"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

func shortStall(c *Config) { c.DatabaseStall = config.Duration(300 * time.Millisecond) }

// freezable returns a world on a database server of its own.
func freezable(t *testing.T) (*pgtest.Private, *world) {
	t.Helper()
	server := pgtest.Server(t)
	w := newWorld(t)
	w.owner, w.app = server.OwnerURL(), server.URL()
	return server, w
}

// While the database does not answer, every waiting request ends, new ones are refused at once, and the service can
// stop. Once the database answers again, all work continues.
func TestFrozenDatabase(t *testing.T) {
	t.Parallel()
	server, w := freezable(t)
	n := w.start("a", shortStall)
	s := n.session("ada")
	n.run("ada", s, n.post("ada", s, "Go.").GetRunId())
	server.Freeze()
	defer func() {
		if server.Server != nil {
			server.Thaw()
		}
	}()
	const crowd = 40 // more than the number of connections
	answers := make(chan error, crowd)
	for i := range crowd {
		go func() {
			ctx, cancel := context.WithTimeout(as(t, "ada"), deadline)
			defer cancel()
			var err error
			if content := "Hi."; i%2 == 0 {
				_, err = n.Sessions.ListMessages(ctx, &apiv1.ListMessagesRequest{SessionId: s})
			} else {
				_, err = n.Sessions.PostMessage(ctx, &apiv1.PostMessageRequest{SessionId: s, Content: &content})
			}
			answers <- err
		}()
	}
	for range crowd {
		if err := <-answers; !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Conflict) {
			t.Errorf("got %v while the database is frozen, want unavailable", err)
		}
	}
	began := n.pools()
	for range crowd {
		_, err := n.Sessions.GetSession(as(t, "ada"), &apiv1.GetSessionRequest{Id: s})
		refused(t, err, fault.Unavailable)
	}
	if got := n.pools(); got != began {
		t.Errorf("got %d requests for a connection while the database is known to be frozen, want none", got-began)
	}
	if _, err := sessionmanagerv1.NewOperatorServiceClient(n.conn).
		GetOperator(as(t, "ada"), &sessionmanagerv1.GetOperatorRequest{}); err != nil {
		t.Errorf("got %v for the operator's configuration, want it as it needs no database", err)
	}
	if err := n.Ready(t.Context()); !errors.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v from Ready, want that the database does not answer", err)
	}
	server.Thaw()
	eventually(t, "the session works again", func() error {
		_, err := n.Sessions.GetSession(as(t, "ada"), &apiv1.GetSessionRequest{Id: s})
		return err
	})
	eventually(t, "a message is taken", func() error {
		content := "Again."
		posted, err := n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: s, Content: &content})
		if err == nil {
			n.run("ada", s, posted.GetRunId())
		}
		return err
	})
	server.Freeze()
	n.Stop() // fails the test if it takes longer than the deadline
}

// A message is refused, and does not wait, if the database freezes while the conversation is being read after a run.
func TestFrozenWhileAConversationIsRead(t *testing.T) {
	t.Parallel()
	server, w := freezable(t)
	n := w.start("a", shortStall)
	s := n.session("ada")
	admin := w.connect(w.owner)
	defer admin.Close(context.WithoutCancel(t.Context()))
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "lock table session_manager.compaction_spans in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	n.post("ada", s, "Go.")
	eventually(t, "the conversation is being read", func() error {
		var waiting int
		err := tx.QueryRow(t.Context(), "select count(*) from pg_locks where not granted").Scan(&waiting)
		if err == nil && waiting == 0 {
			err = errors.New("nothing waits for the lock")
		}
		return err
	})
	server.Freeze()
	defer server.Thaw()
	ctx, cancel := context.WithTimeout(as(t, "ada"), deadline)
	defer cancel()
	content := "Hi."
	_, err = n.Sessions.PostMessage(ctx, &apiv1.PostMessageRequest{SessionId: s, Content: &content})
	refused(t, err, fault.Unavailable)
}

// pools returns the number of requests for a connection.
func (n *node) pools() int64 {
	pool, err := n.pool.Get()
	if err != nil {
		n.w.t.Fatal(err)
	}
	return pool.Stat().AcquireCount() + pool.Stat().CanceledAcquireCount()
}

// The service reports a database that answers but refuses writes, until it accepts writes again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("a", shortStall)
	s := n.session("ada")
	admin := w.connect(w.owner)
	defer admin.Close(context.WithoutCancel(t.Context()))
	exec := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("set search_path to session_manager")
	exec(`create function full_disk() returns trigger language plpgsql as $$
		begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$`)
	for _, table := range []string{"messages", "frame_outbox"} {
		exec(fmt.Sprintf("create trigger full_disk before insert on %s for each row execute function full_disk()", table))
	}
	if err := n.Ready(t.Context()); err != nil {
		t.Errorf("got %v before a write was refused, want none", err)
	}
	content := "Hi."
	_, err := n.Sessions.PostMessage(as(t, "ada"), &apiv1.PostMessageRequest{SessionId: s, Content: &content})
	refused(t, err, fault.Unavailable)
	if err := n.Ready(t.Context()); !errors.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "its disk is full") {
		t.Errorf("got %v from Ready, want that the disk is full", err)
	}
	n.get("ada", s) // reading works
	for _, table := range []string{"messages", "frame_outbox"} {
		exec("drop trigger full_disk on " + table)
	}
	eventually(t, "the service is ready again", func() error { return n.Ready(t.Context()) })
	n.run("ada", s, n.post("ada", s, "Hi.").GetRunId())
}
