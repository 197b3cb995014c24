package sessionmanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"kaged.dev/pkg/fault"
)

// A database that stops answering, such as one in a paused container, makes the service unready like an unreachable
// one. The service is ready again once the database answers.
func TestReadyWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.start("one")
	admin := w.admin()
	defer admin.Close(context.Background())
	stopped := map[int]bool{}
	signal := func(pid int, s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("signalling a backend of Postgres: %v", err)
		}
	}
	goOn := func() {
		for pid := range stopped {
			signal(pid, syscall.SIGCONT)
		}
	}
	t.Cleanup(goOn)
	// A busy pool opens further connections, up to its bound, and Ready may use a new one: stop those too.
	eventually(t, "the service is unready", func() error {
		rows, err := admin.Query(t.Context(), "select pid from pg_stat_activity where datname = $1 and pid <> "+
			"pg_backend_pid()", w.database())
		if err != nil {
			return err
		}
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
		if err != nil {
			return err
		}
		for _, pid := range pids {
			stopped[pid] = true
			signal(pid, syscall.SIGSTOP)
		}
		if err := n.Ready(t.Context()); !errors.Is(err, fault.Unavailable) {
			return fmt.Errorf("while the database hangs it says %w, want unavailable", err)
		}
		return nil
	})
	goOn()
	eventually(t, "the service is ready again", func() error { return n.Ready(t.Context()) })
}
