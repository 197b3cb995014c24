package processes_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/services/tool-runner/internal/core/processes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a fake that runs no processes. The test sets their states.
type host struct {
	mu        sync.Mutex // guards the fields below
	processes map[string]*ran
	refuse    error // the error of every start
	away      error // the error of every method
	silent    bool  // calls are not answered while the caller waits
	listed    int   // the number of requests for all processes
}

type ran struct {
	session string
	output  string
	start   int64 // the first kept byte
	exit    *contract.Exit
	changed chan struct{}
}

func newHost() *host { return &host{processes: map[string]*ran{}} }

func (h *host) wait(ctx context.Context) error {
	h.mu.Lock()
	silent, away := h.silent, h.away
	h.mu.Unlock()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return away
}

func (h *host) Start(ctx context.Context, id string, spec sandbox.Spec) error {
	err := h.wait(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		err = h.refuse
	}
	if err == nil || h.silent { // a silent host may have started the process
		h.processes[id] = &ran{session: spec.Owner.SessionID, changed: make(chan struct{})}
	}
	return err
}

func (h *host) find(ctx context.Context, id string) (*ran, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.processes[id]; r != nil {
		return r, nil
	}
	return nil, fault.New(fault.ProcessNotFound, "No such process.")
}

func (h *host) known(id string, r *ran) contract.Process {
	return contract.Process{
		RunningProcess: contract.RunningProcess{ID: id},
		Exit:           r.exit,
		OutputStart:    r.start,
		OutputEnd:      int64(len(r.output)),
	}
}

func (h *host) Attach(
	ctx context.Context,
	id string,
	from int64,
	follow bool,
	output func(int64, []byte) error,
) (contract.Process, error) {
	for {
		r, err := h.find(ctx, id)
		if err != nil {
			return contract.Process{}, err
		}
		h.mu.Lock()
		at := min(max(from, r.start), int64(len(r.output)))
		data, known, changed := r.output[at:], h.known(id, r), r.changed
		h.mu.Unlock()
		for len(data) > 0 { // in small pieces with arbitrary ends
			n := min(len(data), 3)
			if err := output(at, []byte(data[:n])); err != nil {
				return contract.Process{}, err
			}
			at, data = at+int64(n), data[n:]
			from = at
		}
		if !follow || known.Exit != nil {
			return known, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return contract.Process{}, ctx.Err()
		}
	}
}

func (h *host) Input(ctx context.Context, id string, data []byte, end bool) error {
	return h.Signal(ctx, id, string(data))
}

func (h *host) Signal(ctx context.Context, id, _ string) error {
	r, err := h.find(ctx, id)
	if err == nil && r.exit != nil {
		err = fault.New(fault.ProcessEnded, "It has ended.")
	}
	return err
}

func (h *host) End(ctx context.Context, id string) (contract.Process, error) {
	if _, err := h.find(ctx, id); err != nil {
		return contract.Process{}, err
	}
	h.exits(id, contract.Exit{Code: 143, Signal: "SIGTERM", Reason: contract.ReasonCancelled})
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known(id, h.processes[id]), nil
}

func (h *host) Processes(ctx context.Context, session string) ([]contract.Process, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listed++
	var list []contract.Process
	for id, r := range h.processes {
		if r.session == session {
			list = append(list, h.known(id, r))
		}
	}
	return list, nil
}

// prints makes a process print text; only the last keep bytes stay.
func (h *host) prints(id, text string, keep int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.processes[id]
	r.output += text
	r.start = max(r.start, int64(len(r.output)-keep))
	close(r.changed)
	r.changed = make(chan struct{})
}

func (h *host) exits(id string, exit contract.Exit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.processes[id]; r.exit == nil {
		r.exit = &exit
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

func (h *host) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func open(h *host, dir string, change ...func(*processes.Options)) *processes.Table {
	opts := processes.Options{Dir: dir, KeptFor: time.Hour, Ended: 3, Sessions: 100, Patience: 10 * time.Second}
	for _, c := range change {
		c(&opts)
	}
	table := processes.New(h, slog.New(slog.NewTextHandler(io.Discard, nil)), opts)
	table.Open()
	return table
}

// begin starts a process of the root agent in session s.
func begin(t testing.TB, table *processes.Table, call string) string {
	t.Helper()
	p, err := table.Start(t.Context(), entry(call), sandbox.Spec{Owner: contract.Owner{SessionID: "s"}})
	if err != nil || p.Status != processes.Running || len(p.ID) != 26 {
		t.Fatalf("started is %+v, %v", p, err)
	}
	return p.ID
}

func entry(call string) processes.Process {
	return processes.Process{
		Session: "s",
		Call:    call,
		Agent:   "primary",
		Command: "do " + call,
		Cwd:     "./",
		Timeout: time.Minute,
	}
}

func status(t testing.TB, table *processes.Table, id string) processes.Process {
	t.Helper()
	p, err := table.Status(t.Context(), "s", "primary", id)
	if err != nil {
		t.Fatalf("the status: %v", err)
	}
	return p
}

func poll(t testing.TB, table *processes.Table, id string, limit int) processes.Page {
	t.Helper()
	page, err := table.Poll(t.Context(), "s", "primary", id, limit, 0, func(string) {})
	if err != nil {
		t.Fatalf("a poll: %v", err)
	}
	return page
}

// Every kind of end has its status, reason and code, and its first report is marked as news (T-T20-PROC-02).
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exit   contract.Exit
		status processes.Status
		reason processes.Reason
		code   int
	}{
		"itself": {contract.Exit{Code: 3}, processes.Exited, "", 3},
		"signal": {contract.Exit{Code: 143, Signal: "SIGTERM"}, processes.Exited, "", 143},
		"time": {
			contract.Exit{Code: 143, Signal: "SIGTERM", Reason: contract.ReasonTimeout},
			processes.Exited, processes.TimedOut,
			137,
		},
		"told": {contract.Exit{Code: 137, Reason: contract.ReasonCancelled}, processes.Exited, processes.Killed, 137},
		"session": {
			contract.Exit{Code: 137, Reason: contract.ReasonOwnerEnded}, processes.Exited, processes.SessionEnded, 137,
		},
		"memory": {contract.Exit{Code: 137, Reason: contract.ReasonOOM}, processes.Exited, processes.OutOfMemory, 137},
		"pids":   {contract.Exit{Code: 137, Reason: contract.ReasonPIDs}, processes.Exited, processes.TooManyProcesses, 137},
		"agent":  {contract.Exit{Code: 143, Reason: contract.ReasonWalltime}, processes.Exited, processes.OutOfTime, 143},
		"disk":   {contract.Exit{Code: 137, Reason: contract.ReasonDisk}, processes.Exited, processes.DiskFull, 137},
		"calls":  {contract.Exit{Code: 159, Reason: contract.ReasonSeccomp}, processes.Exited, processes.BadSystemCall, 159},
		"lost":   {contract.Exit{Code: 137, Reason: contract.ReasonLost}, processes.Lost, "", 0},
	} {
		h, dir := newHost(), t.TempDir()
		table := open(h, dir)
		id := begin(t, table, "c")
		if p := status(t, table, id); p.Status != processes.Running || p.News || p.EndedAt != 0 {
			t.Errorf("%s: while it runs: %+v", name, p)
		}
		c.exit.Duration = time.Second
		h.exits(id, c.exit)
		for i, look := range []func() processes.Process{
			func() processes.Process { return status(t, table, id) },
			func() processes.Process { return poll(t, table, id, 10).Process },
			func() processes.Process {
				h.set(func() { clear(h.processes) }) // unknown to its host, still in the table
				return status(t, open(h, dir), id)
			},
		} {
			p := look()
			if p.Status != c.status || p.Reason != c.reason || p.ExitCode != c.code || p.News != (i == 0) || p.EndedAt == 0 ||
				c.status == processes.Exited && p.EndedAt != p.StartedAt+1000 {
				t.Errorf("%s: look %d: %+v", name, i, p)
			}
		}
	}
}

// A process unknown to its host is lost, for every caller and method (P14).
func TestLost(t *testing.T) {
	t.Parallel()
	ask := map[string]func(*processes.Table, string) (processes.Status, error){
		"status": func(table *processes.Table, id string) (processes.Status, error) {
			p, err := table.Status(t.Context(), "s", "primary", id)
			return p.Status, err
		},
		"wait": func(table *processes.Table, id string) (processes.Status, error) {
			p, err := table.Wait(t.Context(), "s", "primary", id, time.Minute)
			return p.Status, err
		},
		"poll": func(table *processes.Table, id string) (processes.Status, error) {
			p, err := table.Poll(t.Context(), "s", "primary", id, 10, time.Minute, func(string) {})
			return p.Status, err
		},
		"read": func(table *processes.Table, id string) (processes.Status, error) {
			p, err := table.ReadAt(t.Context(), "s", "primary", id, 0, 10)
			return p.Status, err
		},
		"end": func(table *processes.Table, id string) (processes.Status, error) {
			p, err := table.End(t.Context(), "s", "primary", id)
			return p.Status, err
		},
		"list": func(table *processes.Table, id string) (processes.Status, error) {
			list, err := table.List(t.Context(), "s", "primary")
			return list[0].Status, err
		},
		"signal": func(table *processes.Table, id string) (processes.Status, error) {
			err := table.Signal(t.Context(), "s", "primary", id, "SIGTERM")
			if !errors.Is(err, fault.ProcessEnded) || fault.From(err).Details["status"] != "lost" {
				return "", err
			}
			return processes.Lost, nil
		},
	}
	for name, f := range ask {
		h, dir := newHost(), t.TempDir()
		id := begin(t, open(h, dir), "c")
		h.set(func() { clear(h.processes) })
		for range 2 {
			if got, err := f(open(h, dir), id); got != processes.Lost || err != nil {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		}
	}
}

// A host that is stopped or does not answer is reported as unavailable, and the process's state stays as it is. A
// caller that leaves early changes nothing.
func TestHostAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		table := open(h, "")
		id := begin(t, table, "c")
		all := func(ctx context.Context) map[string]error {
			errs := map[string]error{}
			_, errs["status"] = table.Status(ctx, "s", "primary", id)
			_, errs["wait"] = table.Wait(ctx, "s", "primary", id, time.Minute)
			_, errs["poll"] = table.Poll(ctx, "s", "primary", id, 10, time.Minute, func(string) {})
			_, errs["read"] = table.ReadAt(ctx, "s", "primary", id, 0, 10)
			_, errs["list"] = table.List(ctx, "s", "primary")
			_, errs["end"] = table.End(ctx, "s", "primary", id)
			errs["signal"] = table.Signal(ctx, "s", "primary", id, "SIGTERM")
			errs["input"] = table.Input(ctx, "s", "primary", id, []byte("x"), true)
			_, errs["start"] = table.Start(ctx, entry("other"), sandbox.Spec{})
			return errs
		}
		h.set(func() { h.silent = true })
		for name, err := range all(t.Context()) {
			if !errors.Is(err, fault.Unavailable) {
				t.Errorf("without an answer, %s: %v", name, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for name, err := range all(ctx) {
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fault.Unavailable) {
				t.Errorf("a caller who leaves, %s: %v", name, err)
			}
		}
		h.set(func() { h.silent, h.away = false, fault.New(fault.Unavailable, "Away.") })
		for name, err := range all(t.Context()) {
			if !errors.Is(err, fault.Unavailable) {
				t.Errorf("away, %s: %v", name, err)
			}
		}
		h.set(func() { h.away = nil })
		if p := status(t, table, id); p.Status != processes.Running {
			t.Errorf("back again it is %+v", p)
		}
	})
}

// After a failed start the table has no entry, and a process that was started nevertheless is ended.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		table := open(h, "")
		h.refuse = fault.New(fault.ShellSpawnFailed, "No shell.")
		if _, err := table.Start(t.Context(), entry("c"), sandbox.Spec{}); !errors.Is(err, fault.ShellSpawnFailed) {
			t.Errorf("Start says %v", err)
		}
		h.refuse = nil
		ctx, cancel := context.WithCancel(t.Context())
		h.silent = true
		go func() {
			time.Sleep(time.Second)
			cancel()
			h.set(func() { h.silent = false })
		}()
		if _, err := table.Start(ctx, entry("c"), sandbox.Spec{Owner: contract.Owner{SessionID: "s"}}); !errors.Is(
			err,
			context.Canceled,
		) {
			t.Errorf("Start says %v", err)
		}
		list, err := table.List(t.Context(), "s", "primary")
		if err != nil || len(list) > 0 {
			t.Errorf("listed: %v, %v", list, err)
		}
		for id, r := range h.processes {
			if r.exit == nil {
				t.Errorf("%s runs", id)
			}
		}
		if id := begin(t, table, "c"); id == "" { // the same call may start the process again
			t.Error("no id")
		}
	})
}

// The same call of an agent starts one process, even with another table on the same folder.
func TestCallStartsOnce(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	first := begin(t, open(h, dir), "c")
	table := open(h, dir)
	if again := begin(t, table, "c"); again != first || len(h.processes) != 1 {
		t.Errorf("asked again it is %s, %d run", again, len(h.processes))
	}
	if other := begin(t, table, "d"); other == first {
		t.Error("another call was given the same")
	}
}
