package processes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/command"
	"kaged.dev/services/tool-runner/internal/core/processes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host runs nothing: its processes do what the test says.
type host struct {
	mu        sync.Mutex // guards what follows
	processes map[string]*ran
	refuse    error // what starts fail with
	away      error // what everything fails with
	silent    bool  // nothing is answered before the caller leaves
	listed    int   // how often all were asked for
}

type ran struct {
	session string
	output  string
	start   int64 // the first byte that is kept
	exit    *command.Exit
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

func (h *host) Start(ctx context.Context, id string, spec command.Spec) error {
	err := h.wait(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		err = h.refuse
	}
	if err == nil || h.silent { // who does not answer may have started it
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

func (h *host) known(id string, r *ran) command.Process {
	return command.Process{ID: id, Exit: r.exit, Start: r.start, End: int64(len(r.output))}
}

func (h *host) Attach(ctx context.Context, id string, from int64, follow bool, output func(int64, []byte) error) (command.Process, error) {
	for {
		r, err := h.find(ctx, id)
		if err != nil {
			return command.Process{}, err
		}
		h.mu.Lock()
		at := min(max(from, r.start), int64(len(r.output)))
		data, known, changed := r.output[at:], h.known(id, r), r.changed
		h.mu.Unlock()
		for len(data) > 0 { // in small pieces, cut anywhere
			n := min(len(data), 3)
			if err := output(at, []byte(data[:n])); err != nil {
				return command.Process{}, err
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
			return command.Process{}, ctx.Err()
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

func (h *host) End(ctx context.Context, id string) (command.Process, error) {
	if _, err := h.find(ctx, id); err != nil {
		return command.Process{}, err
	}
	h.exits(id, command.Exit{Code: 143, Signal: "SIGTERM", Reason: command.Cancelled})
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known(id, h.processes[id]), nil
}

func (h *host) Processes(ctx context.Context, session string) ([]command.Process, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listed++
	var list []command.Process
	for id, r := range h.processes {
		if r.session == session {
			list = append(list, h.known(id, r))
		}
	}
	return list, nil
}

// prints has a process print, of which the last keep bytes are kept.
func (h *host) prints(id, text string, keep int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.processes[id]
	r.output += text
	r.start = max(r.start, int64(len(r.output)-keep))
	close(r.changed)
	r.changed = make(chan struct{})
}

func (h *host) exits(id string, exit command.Exit) {
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
	return processes.New(h, slog.New(slog.NewTextHandler(io.Discard, nil)), opts)
}

// begin starts a process of the root agent in session s.
func begin(t testing.TB, table *processes.Table, call string) string {
	t.Helper()
	p, err := table.Start(t.Context(), entry(call), command.Spec{Owner: command.Owner{SessionID: "s"}})
	if err != nil || p.Status != processes.Running || len(p.ID) != 26 {
		t.Fatalf("started is %+v, %v", p, err)
	}
	return p.ID
}

func entry(call string) processes.Process {
	return processes.Process{Session: "s", Call: call, Agent: "primary", Command: "do " + call, Cwd: "./", Timeout: time.Minute}
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

// Every way to end has its status, reason and code; the first who learns of it is told that it is news (T-T20-PROC-02).
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exit   command.Exit
		status processes.Status
		reason processes.Reason
		code   int
	}{
		"itself":  {command.Exit{Code: 3}, processes.Exited, "", 3},
		"signal":  {command.Exit{Code: 143, Signal: "SIGTERM"}, processes.Exited, "", 143},
		"time":    {command.Exit{Code: 143, Signal: "SIGTERM", Reason: command.TimedOut}, processes.Exited, processes.TimedOut, 137},
		"told":    {command.Exit{Code: 137, Reason: command.Cancelled}, processes.Exited, processes.Killed, 137},
		"session": {command.Exit{Code: 137, Reason: command.OwnerEnded}, processes.Exited, processes.SessionEnded, 137},
		"lost":    {command.Exit{Code: 137, Reason: command.Lost}, processes.Lost, "", 0},
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
				h.set(func() { clear(h.processes) }) // forgotten by its host, and still known
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

// What its host does not know, it has lost, whoever asks by whatever (P14).
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

// A host that is away or does not answer is unavailable, which says nothing of a process; a caller who leaves is neither.
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
			_, errs["start"] = table.Start(ctx, entry("other"), command.Spec{})
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

// A start that fails leaves nothing in the table, and nothing that runs where it may have come about nevertheless.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		table := open(h, "")
		h.refuse = fault.New(fault.ShellSpawnFailed, "No shell.")
		if _, err := table.Start(t.Context(), entry("c"), command.Spec{}); !errors.Is(err, fault.ShellSpawnFailed) {
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
		if _, err := table.Start(ctx, entry("c"), command.Spec{Owner: command.Owner{SessionID: "s"}}); !errors.Is(err, context.Canceled) {
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
		if id := begin(t, table, "c"); id == "" { // the same call may try again
			t.Error("no id")
		}
	})
}

// The same call of an agent makes one process, also for another table on the same folder.
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

// What a poll shows follows what the one before showed, in characters, at most so many of them, the last ones; and what is
// read by offsets is all of it, whatever was printed in whatever pieces.
func TestPollProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHost()
		table := open(h, "")
		p, err := table.Start(context.Background(), entry("c"), command.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		keep := rapid.IntRange(1, 60).Draw(t, "keep")
		valid := true
		var printed, polled, shown strings.Builder
		at := int64(0)
		look := func(ended bool) {
			page, err := table.Poll(context.Background(), "s", "primary", p.ID, limit, 0, func(s string) { shown.WriteString(s) })
			if err != nil {
				t.Fatal(err)
			}
			runes := len([]rune(page.Output))
			if runes > limit || page.From < at || page.Next < page.From || page.Omitted != page.From-at || page.Unread != int64(printed.Len())-page.Next {
				t.Fatalf("after %d: %+v", at, page)
			}
			if page.Output != string([]rune(printed.String()[page.From:page.Next])) {
				t.Fatalf("bytes %d to %d of %q are %q", page.From, page.Next, printed.String(), page.Output)
			}
			if behind := int64(printed.Len()) - page.Next; behind > 3 || ended && behind > 0 {
				t.Fatalf("%d bytes are held back of %q", behind, printed.String())
			}
			at = page.Next
			polled.WriteString(page.Output)
		}
		for range rapid.IntRange(1, 8).Draw(t, "times") {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "😀", "\xf0\x9f", "\xff", "\n", "0123456789"}), 0, 8).Draw(t, "text"), "")
			valid = valid && utf8.ValidString(text)
			printed.WriteString(text)
			h.prints(p.ID, text, keep)
			look(false)
		}
		h.exits(p.ID, command.Exit{})
		look(true)
		if limit >= printed.Len() && keep >= printed.Len() && polled.String() != string([]rune(printed.String())) {
			t.Fatalf("%q was polled as %q", printed.String(), polled.String())
		}
		// By offsets, from anywhere.
		start := max(0, printed.Len()-keep)
		var read strings.Builder
		from := int64(rapid.IntRange(0, printed.Len()).Draw(t, "from"))
		for next := from; next < int64(printed.Len()); {
			page, err := table.ReadAt(context.Background(), "s", "primary", p.ID, next, limit)
			if err != nil || page.From < next || page.Next <= next || len([]rune(page.Output)) > limit || page.Omitted != page.From-next {
				t.Fatalf("from %d of %q: %+v, %v", next, printed.String(), page, err)
			}
			if page.From > next && page.From > int64(start+3) {
				t.Fatalf("from %d of %q, kept from %d: %+v", next, printed.String(), start, page)
			}
			if page.Output != string([]rune(printed.String()[page.From:page.Next])) {
				t.Fatalf("bytes %d to %d of %q are %q", page.From, page.Next, printed.String(), page.Output)
			}
			next = page.Next
			read.WriteString(page.Output)
		}
		if all := printed.String(); valid && from == 0 && !strings.HasSuffix(all, read.String()) {
			t.Fatalf("%q reads %q", all, read.String())
		}
	})
}

// A poll that finds nothing waits for output, gathers what comes with it, and does not wait for more than that; or for the
// end; or its time.
func TestPollWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		table := open(h, "")
		id := begin(t, table, "c")
		wait := func(most time.Duration, want string, status processes.Status, took time.Duration) {
			t.Helper()
			began := time.Now()
			page, err := table.Poll(t.Context(), "s", "primary", id, 100, most, func(string) {})
			if err != nil || page.Output != want || page.Status != status || time.Since(began) != took {
				t.Errorf("%+v, %v after %s", page, err, time.Since(began))
			}
		}
		wait(time.Minute, "", processes.Running, time.Minute)
		wait(0, "", processes.Running, 0)
		go func() {
			time.Sleep(time.Second)
			h.prints(id, "a", 100)
			time.Sleep(10 * time.Millisecond)
			h.prints(id, "b", 100)
			time.Sleep(time.Second)
			h.prints(id, "c", 100)
		}()
		wait(time.Minute, "ab", processes.Running, time.Second+50*time.Millisecond)
		wait(time.Minute, "c", processes.Running, time.Second+10*time.Millisecond)
		go func() {
			time.Sleep(time.Second)
			h.prints(id, "d", 100)
			h.exits(id, command.Exit{Code: 1})
		}()
		wait(time.Minute, "d", processes.Exited, time.Second)
		wait(time.Minute, "", processes.Exited, 0)
		// Wait waits for the end alone.
		id = begin(t, table, "d")
		go func() {
			time.Sleep(time.Second)
			h.prints(id, "x", 100)
			time.Sleep(time.Second)
			h.exits(id, command.Exit{})
		}()
		began := time.Now()
		if p, err := table.Wait(t.Context(), "s", "primary", id, time.Minute); err != nil || p.Status != processes.Exited || time.Since(began) != 2*time.Second || p.Unread != 1 {
			t.Errorf("%+v, %v after %s", p, err, time.Since(began))
		}
		id = begin(t, table, "e")
		if p, err := table.Wait(t.Context(), "s", "primary", id, time.Second); err != nil || p.Status != processes.Running {
			t.Errorf("%+v, %v", p, err)
		}
		h.exits(id, command.Exit{})
	})
}

// On a terminal lines end as in text, also where a poll comes between the two characters of a line's end.
func TestPollOfATerminal(t *testing.T) {
	t.Parallel()
	h := newHost()
	table := open(h, "")
	e := entry("c")
	e.Terminal = true
	p, err := table.Start(t.Context(), e, command.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	h.prints(p.ID, "one\r\ntwo\r", 100)
	if page := poll(t, table, p.ID, 100); page.Output != "one\ntwo" || page.Next != 8 {
		t.Errorf("%+v", page)
	}
	h.prints(p.ID, "\n10%\r20%", 100)
	if page := poll(t, table, p.ID, 100); page.Output != "\n10%\r20%" {
		t.Errorf("%+v", page)
	}
	h.prints(p.ID, strings.Repeat("\r", 10_000), 20_000)
	if page := poll(t, table, p.ID, 20_000); page.Next != 17+10_000 {
		t.Errorf("nothing but returns: up to %d", page.Next)
	}
}

// A restart repeats what the last poll showed, for nobody knows whether it arrived, and no more than that.
func TestRestartRepeatsTheLastPoll(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	table := open(h, dir)
	id := begin(t, table, "c")
	for i := range 3 {
		h.prints(id, fmt.Sprint("line ", i, "\n"), 1000)
		if page := poll(t, table, id, 100); page.Output != fmt.Sprint("line ", i, "\n") {
			t.Errorf("%+v", page)
		}
	}
	if page := poll(t, open(h, dir), id, 100); page.Output != "line 2\n" {
		t.Errorf("after a restart: %+v", page)
	}
}

// Ended processes are remembered up to a number, those that run always; sessions are held in memory up to a number and come
// back from their files; old files go.
func TestBounds(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	table := open(h, dir, func(o *processes.Options) { o.Sessions = 2 })
	running := begin(t, table, "first")
	var ended []string
	for i := range 6 {
		id := begin(t, table, fmt.Sprint(i))
		h.exits(id, command.Exit{})
		status(t, table, id)
		ended = append(ended, id)
	}
	for _, session := range []string{"s1", "s2", "s3", "../../x", ""} {
		e := entry("c")
		e.Session = session
		if _, err := table.Start(t.Context(), e, command.Spec{Owner: command.Owner{SessionID: session}}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := table.List(t.Context(), "s", "primary")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list {
		got = append(got, p.ID)
	}
	if want := append([]string{running}, ended[3:]...); !slices.Equal(got, want) {
		t.Errorf("remembered are %v, want %v", got, want)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 6 {
		t.Fatalf("files: %v, %v", files, err)
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, f := range files[:2] {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "new-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open(h, dir)
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 5 {
		t.Errorf("left are %v", left)
	}
	if info, err := os.Stat(files[2]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}

// A file that cannot be read is as none, and so is a folder that cannot be written: agents work on.
func TestBrokenStore(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	id := begin(t, open(h, dir), "c")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "{", string(whole[:len(whole)/2]), "null", "[]", `{"session":"other"}`, `{"session":"s","processes":[null]}`, `{"session":"s","processes":[{"id":7}]}`} {
		if err := os.WriteFile(files[0], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		table := open(h, dir)
		if list, err := table.List(t.Context(), "s", "primary"); err != nil || len(list) > 0 {
			t.Errorf("%q: %v, %v", content, list, err)
		}
		begin(t, table, "d")
	}
	if err := os.WriteFile(files[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := status(t, open(h, dir), id); p.Status != processes.Running || p.Command != "do c" {
		t.Errorf("the whole file: %+v", p)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	table := open(h, filepath.Join(blocked, "below"))
	if p := status(t, table, begin(t, table, "c")); p.Status != processes.Running {
		t.Errorf("%+v", p)
	}
}

// Whatever a session does at once, and whatever is forgotten meanwhile, no process goes missing.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	h, dir := newHost(), t.TempDir()
	table := open(h, dir, func(o *processes.Options) { o.Sessions, o.Ended = 1, 1000 })
	var all sync.WaitGroup
	var mu sync.Mutex
	made := map[string]string{}
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				e := entry(fmt.Sprint(i, ".", j))
				e.Session = fmt.Sprint("s", j%3)
				p, err := table.Start(t.Context(), e, command.Spec{Owner: command.Owner{SessionID: e.Session}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				made[p.ID] = e.Session
				mu.Unlock()
				h.prints(p.ID, "x", 10)
				if _, err := table.Poll(t.Context(), e.Session, "primary", p.ID, 10, 0, func(string) {}); err != nil {
					t.Error(err)
				}
				if _, err := table.List(t.Context(), e.Session, "primary"); err != nil {
					t.Error(err)
				}
				if _, err := table.End(t.Context(), e.Session, "primary", p.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := map[string]string{}
	for i := range 3 {
		session := fmt.Sprint("s", i)
		list, err := open(h, dir).List(t.Context(), session, "primary")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			got[p.ID] = session
			if p.Status != processes.Exited {
				t.Errorf("%+v", p)
			}
		}
	}
	if !maps.Equal(got, made) {
		t.Errorf("%d processes of %d are known", len(got), len(made))
	}
}

// The end of a session is asked for once, and what became of its processes is known afterwards; one without processes needs
// no more than that.
func TestEndSession(t *testing.T) {
	t.Parallel()
	h := newHost()
	table := open(h, "")
	asked := 0
	end := func(context.Context) error {
		asked++
		for id := range h.processes {
			h.exits(id, command.Exit{Code: 137, Reason: command.OwnerEnded})
		}
		return nil
	}
	if err := table.EndSession(t.Context(), "s", end); err != nil || asked != 1 || h.listed != 0 {
		t.Errorf("without processes: %v, asked %d, listed %d", err, asked, h.listed)
	}
	id := begin(t, table, "c")
	if err := table.EndSession(t.Context(), "s", end); err != nil {
		t.Error(err)
	}
	h.set(func() { clear(h.processes) })
	if p := status(t, table, id); p.Status != processes.Exited || p.Reason != processes.SessionEnded {
		t.Errorf("%+v", p)
	}
	failed := errors.New("no")
	if err := table.EndSession(t.Context(), "s", func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("EndSession says %v", err)
	}
}
