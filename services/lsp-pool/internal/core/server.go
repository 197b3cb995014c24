package core

import (
	"cmp"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/late"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/lsp-pool/internal/lsp"
)

// Spec is the specification of a server's program.
type Spec struct {
	Owner contract.Owner
	Argv  []string
	Dir   string
	Env   map[string]string
	// Cage is the policy of the server's own cage, nil for no cage. Its paths are relative to Root.
	Cage *dsl.Cage
	Root string
}

// Process is a running program of a server. Reads and writes use its standard output and input. Close ends it with
// everything it has started, and returns when it has ended.
type Process interface {
	io.ReadWriteCloser
	PID() int64
	// Log returns the end of its standard error.
	Log() string
	// Exit returns its exit code and the reason for its end. It waits for the end.
	Exit() contract.Exit
}

// Launcher starts programs. It fails with shell_spawn_failed, which has the detail missing for a missing program, and
// with cage_unavailable and cage_policy_invalid.
type Launcher interface {
	Launch(ctx context.Context, spec Spec) (Process, error)
}

// States of a server.
const (
	stateStarting = "starting"
	stateIndexing = "indexing"
	stateReady    = "ready"
	stateStopped  = "stopped"
	stateFailed   = "failed"
)

// server is one entry for one view, running or not.
type server struct {
	pool    *Pool
	id, key string
	view    View // without a session
	entry   Entry
	near    string // the first file that it was asked about

	turn  chan struct{} // holds a token during a start or a stop
	slots chan struct{} // holds a token for each request in progress

	mu       sync.Mutex // guards the fields below
	run      *running   // nil while the server is stopped
	command  []string
	caged    bool
	users    int
	used     time.Time
	restarts int
	crashes  map[string]int // by session
	failed   bool
	log      string
	records  []contract.Record // the records of events between queries
	asked    string            // the session of the last query
}

// running is a running server.
type running struct {
	client  *lsp.Client
	process Process
	tree    *lease
	seen    uint64 // the number of the last change of the tree that the server has received; guarded by syncing
	syncing sync.Mutex
	root    *paths.Root
	started time.Time

	checking sync.Mutex
	checker  *bool // whether the entry's checker is installed, nil while unknown; guarded by checking
}

// over reports whether the connection has ended.
func (r *running) over() bool {
	select {
	case <-r.client.Done():
		return true
	default:
		return false
	}
}

// end ends the connection and the process.
func (r *running) end() {
	r.client.Close()
	_ = r.process.Close()
	r.tree.release()
	r.root.Close()
}

// take returns the running server, and starts it if it is stopped. The caller calls give afterwards. restarted is true
// if the server replaces one that crashed.
func (s *server) take(ctx context.Context, session string) (run *running, restarted bool, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	s.mu.Lock()
	s.asked = session
	old := s.run
	if old != nil && !old.over() {
		s.users++
		s.mu.Unlock()
		return old, false, nil
	}
	s.run = nil
	s.mu.Unlock()
	if old != nil {
		s.crashed(old, session)
		restarted = true
	}
	s.mu.Lock()
	tries := s.crashes[session]
	s.failed = tries > s.pool.opts.Restarts
	s.mu.Unlock()
	if tries > s.pool.opts.Restarts {
		return nil, false, fault.New(fault.LspServerUnavailable,
			"The language server %s crashed %d times in this session and is not started again; the action reload tries anew.",
			s.entry.Lang, tries).With("lang", s.entry.Lang).With("log", s.tail())
	}
	run, err = s.start(ctx)
	if err != nil {
		return nil, restarted, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.users = run, s.users+1
	if restarted {
		s.restarts++
	}
	return run, restarted, nil
}

// give ends the use of the result of take.
func (s *server) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.used = s.pool.now()
}

// crashed records that a server ended without a request to do so.
func (s *server) crashed(run *running, session string) {
	run.end()
	exit := run.process.Exit()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = run.process.Log()
	if exit.Reason == contract.ReasonOwnerEnded {
		s.note("code.lsp.server_stopped", map[string]any{"reason": Unload})
		return
	}
	if len(s.crashes) >= 256 { // most of these sessions ended long ago
		clear(s.crashes)
	}
	s.crashes[session]++
	fields := map[string]any{"exit_code": exit.Code, "restart_count": s.crashes[session]}
	if word := exit.Reason.Word(); word != "" {
		fields["killed"] = word
	}
	s.note("code.lsp.server_crashed", fields)
}

// note stores a record until the next query returns it, or [server.release] is called. s.mu is held.
func (s *server) note(event string, fields map[string]any) {
	fields["language"], fields["project_id"] = s.entry.Lang, s.view.ProjectID
	if len(s.records) < 64 {
		s.records = append(s.records, contract.NewRecord(event, "", fields))
	}
	s.pool.log.Info(event, "language", s.entry.Lang, "project_id", s.view.ProjectID, "root", s.view.Root, "fields", fields)
}

func (s *server) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

// takeRecords returns the records since the last call.
func (s *server) takeRecords() []contract.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.records
	s.records = nil
	return list
}

// release moves the records to the log of late records, because no answer will return them.
func (s *server) release() {
	s.mu.Lock()
	records, session := s.records, s.asked
	s.records = nil
	s.mu.Unlock()
	list := make([]late.Record, len(records))
	for i, r := range records {
		list[i] = late.Record{Session: session, Project: s.view.ProjectID, Record: r}
	}
	s.pool.opts.Records.Add(list...)
}

// start starts the program and connects to it. The files are read while the program starts.
//
// Goroutines: one that reads the files and ends before start returns.
func (s *server) start(ctx context.Context) (*running, error) {
	root, err := paths.OpenRoot(s.view.Root)
	if err != nil {
		return nil, fault.Wrap(err, fault.NotFound, "The project's folder %s cannot be opened.", s.view.Root)
	}
	run := &running{root: root, started: time.Now(), tree: s.pool.lease(root.Path())}
	done := false
	defer func() {
		if !done {
			run.tree.release()
			root.Close()
		}
	}()
	var reading sync.WaitGroup
	reading.Go(func() { run.tree.watch() })
	defer reading.Wait()
	command, err := s.startFirst(ctx, run)
	if err != nil {
		return nil, err
	}
	done = true
	s.mu.Lock()
	s.command = command
	s.note("code.lsp.server_spawned", map[string]any{"command": strings.Join(command, " ")})
	s.mu.Unlock()
	return run, nil
}

// startFirst starts the first command with an installed program and a successful handshake, and returns it. After a
// failed handshake the next command is tried: typescript-language-server does not start if the TypeScript of the
// project is a server itself.
func (s *server) startFirst(ctx context.Context, run *running) (command []string, err error) {
	var failed error
	for _, command = range s.entry.Commands {
		run.process, err = s.launch(ctx, command)
		if err != nil && isMissing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err = s.connect(ctx, run); err == nil {
			return command, nil
		}
		_ = run.process.Close()
		failed = cmp.Or(failed, s.notConnected(ctx, err, run.process, command))
		if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return nil, cmp.Or(failed, s.notStarted(err, command))
}

// connect performs the handshake, once the files are watched: from then on the server may read them.
func (s *server) connect(ctx context.Context, run *running) (err error) {
	run.tree.watch()
	run.seen = run.tree.position()
	starting, cancel := context.WithTimeout(ctx, s.pool.opts.StartTimeout)
	defer cancel()
	opts := lsp.Options{
		Files: files{run.root}, Root: run.root.Path(), Settings: s.entry.Settings, Language: s.entry.language,
		MessageBytes: s.pool.opts.MessageBytes, DocumentBytes: s.pool.opts.DocumentBytes, Documents: s.pool.opts.Documents,
		Quiet: s.pool.opts.Quiet, Pulls: s.entry.Pulls, Versions: s.entry.Versions,
		Status: s.entry.Status, Asks: s.entry.Asks,
	}
	if s.entry.Lists != "" {
		if opts.Lists, err = regexp.Compile(s.entry.Lists); err != nil {
			return err
		}
	}
	if s.entry.Late {
		opts.Shown = func(path string) bool { return shows(s.view, s.entry, path) }
	}
	run.client, err = lsp.Connect(starting, run.process, opts)
	return err
}

func (s *server) launch(ctx context.Context, command []string) (Process, error) {
	policy := s.pool.opts.cageOf(s.view, s.entry)
	s.mu.Lock()
	s.caged = policy != nil
	s.mu.Unlock()
	spec := s.pool.opts.spec(s.view, s.entry, policy, command)
	spec.Dir = s.pool.opts.dir(s.view, s.entry, s.near)
	return s.pool.launcher.Launch(ctx, spec)
}

// isMissing reports whether a program could not be started because it does not exist.
func isMissing(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == fault.ShellSpawnFailed && f.Details["missing"] == true
}

// notStarted returns the reason why the program could not be started.
func (s *server) notStarted(err error, command []string) error {
	if !isMissing(err) {
		return err
	}
	where := "on PATH"
	if s.isCaged() {
		where = "in its cage" // that of the server: its caller may have none
	}
	first := slices.Concat(s.entry.Commands...)
	return fault.Wrap(err, fault.LspServerNotFound,
		"The language server for %s, %s, is not %s. To install it: %s. The other tools work without it.",
		s.entry.Lang, command[0], where, s.entry.Install).
		With("lang", s.entry.Lang).With("command", strings.Join(first[:min(len(first), 8)], " ")).With("install",
		s.entry.Install)
}

func (s *server) isCaged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caged
}

// notConnected returns the reason why the handshake failed, and records a crash.
func (s *server) notConnected(ctx context.Context, err error, process Process, command []string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	exit := process.Exit()
	s.mu.Lock()
	s.log = process.Log()
	s.crashes[""]++
	s.note("code.lsp.server_crashed", map[string]any{"exit_code": exit.Code, "restart_count": s.crashes[""]})
	s.mu.Unlock()
	why := "it ended with exit code " + exitText(exit) + ". Its installation may be incomplete; to install it: " +
		s.entry.Install
	if errors.Is(err, context.DeadlineExceeded) {
		why = "it did not answer within " + s.pool.opts.StartTimeout.String()
	}
	return fault.Wrap(err, fault.LspServerUnavailable, "The language server for %s, %s, could not be started: %s.",
		s.entry.Lang, command[0], why).
		With("lang", s.entry.Lang).With("log", s.tail())
}

// end stops the server, and releases its records.
func (s *server) end(ctx context.Context, reason string) {
	s.stop(ctx, reason)
	s.release()
}

// forgive resets the number of crashes.
func (s *server) forgive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashes, s.failed = map[string]int{}, false
}

// lastSession returns the session of the last query.
func (s *server) lastSession() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// stop stops the server if it runs, and returns when it has ended. It resets the number of crashes. If ctx ends during
// a start of the server, stop does nothing.
func (s *server) stop(ctx context.Context, reason string) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	run := s.run
	s.run = nil
	s.mu.Unlock()
	defer s.forgive()
	if run == nil {
		return
	}
	if run.over() { // it crashed, and no query has noticed
		s.crashed(run, s.lastSession())
		return
	}
	polite, cancel := context.WithTimeout(ctx, s.pool.opts.StopGrace)
	run.client.Shutdown(polite)
	cancel()
	run.end()
	s.mu.Lock()
	s.log = run.process.Log()
	s.note("code.lsp.server_stopped", map[string]any{"reason": reason})
	s.mu.Unlock()
}

// kill ends a server that does not answer. Its open requests fail.
func (s *server) kill(run *running) { run.client.Close() }

func (s *server) info() contract.RunningLanguageServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := contract.RunningLanguageServer{
		ID: s.id, Lang: s.entry.Lang, Command: s.command, State: stateStopped, Restarts: s.restarts,
		ProjectID: s.view.ProjectID, Root: s.view.Root,
		Caged: s.caged, Log: s.log,
	}
	if i.Command == nil {
		i.Command = s.entry.Commands[0]
	}
	switch {
	case s.run != nil && !s.run.over():
		i.State, i.PID, i.Open, i.StartedAt = stateReady, s.run.process.PID(), s.run.client.OpenDocuments(),
			s.run.started.UnixMilli()
		i.Log = s.run.process.Log()
		if len(s.run.client.Tasks()) > 0 {
			i.State = stateIndexing
		}
	case s.failed:
		i.State = stateFailed
	case len(s.turn) > 0:
		i.State = stateStarting
	}
	return i
}
