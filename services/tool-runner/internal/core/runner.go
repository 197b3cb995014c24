// Package core is tool-runner without its transports: a catalogue of tools, the dispatcher that runs their calls, and
// the memory between the calls of a session.
package core

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/late"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/pkg/shellguard"
	"kaged.dev/pkg/syntax"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/calls"
	"kaged.dev/services/tool-runner/internal/core/catalogue"
	"kaged.dev/services/tool-runner/internal/core/changes"
	"kaged.dev/services/tool-runner/internal/core/clitools"
	"kaged.dev/services/tool-runner/internal/core/debugging"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/language"
	"kaged.dev/services/tool-runner/internal/core/memories"
	"kaged.dev/services/tool-runner/internal/core/processes"
	"kaged.dev/services/tool-runner/internal/core/project"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/runs"
	"kaged.dev/services/tool-runner/internal/core/tool"
	"kaged.dev/services/tool-runner/internal/core/tools"
	"kaged.dev/services/tool-runner/internal/core/tracker"
)

// Options are the limits of all parts; the service's configuration sets them.
type Options struct {
	Dispatch dispatch.Options
	Calls    calls.Options
	Tools    tools.Limits
	CLI      clitools.Limits
	Project  project.Options
	Rules    paths.Rules
	// Safety are the rules for commands and paths that need an operator's approval, or are refused.
	Safety shellguard.Rules
	// Sessions and Files are the limits of the read records.
	Sessions, Files int
	// Processes are the limits of the table of background processes.
	Processes processes.Options
	// Changes are the limits of the images of changed files. Images is the folder of the images, empty for no images.
	Changes changes.Limits
	Images  string
	// Journal is the folder of the journal of file changes; it may be empty.
	Journal string
	// Records is the file of the late records that no watcher has acknowledged; empty for memory only.
	Records string
	// LateEvery is the interval at which watchers receive the processes that ended between runs.
	LateEvery time.Duration
	// KeepRuns is the time for which a handed over run is kept for its next harness.
	KeepRuns time.Duration
	// Changed receives each file that a tool changes; it may be nil.
	Changed change.Observer
}

// Deps are the core's dependencies.
type Deps struct {
	Log *slog.Logger
	// Sniff returns the content type of a file.
	Sniff text.Sniffer
	// Commands runs the tools' commands, Background the commands that outlive their calls.
	Commands   sandbox.Runner
	Background sandbox.Background
	// Cages makes the cages of agents, Inventory lists running commands.
	Cages     sandbox.Cages
	Inventory sandbox.Inventory
	// Servers sends queries to language servers.
	Servers language.Servers
	// Tracker stores issues; without it the tools that need it fail.
	Tracker tracker.Tracker
	// Debuggers debug programs.
	Debuggers debugging.Debuggers
	// NoSandbox is true if cages are switched off: commands of caged agents run without a cage.
	NoSandbox bool
	// CagesOnly refuses callers without a cage.
	CagesOnly bool
	// Languages are the required grammars.
	Languages []*syntax.Language
	// LookupEnv reads the process's own environment.
	LookupEnv func(string) (string, bool)
	// ToolsFile is the name of the operator's file of commands, Tools the file's content.
	ToolsFile string
	Tools     []byte
}

// Runner runs tools. It is safe for concurrent use.
type Runner struct {
	catalogue  []*tool.Entry
	dispatcher *dispatch.Dispatcher
	calls      *calls.Calls
	reads      *reads.Records
	told       *language.Told
	servers    language.Servers
	commands   sandbox.Runner
	cages      sandbox.Cages
	inventory  sandbox.Inventory
	processes  *processes.Table
	runs       *runs.Runs
	debuggers  *debugging.Runs
	records    *late.Log     // of debug sessions and language servers
	leaving    chan struct{} // closed at the begin of Drain
	draining   chan struct{} // closed when Drain has waited for the runs
	runEnded   chan struct{} // gets a token when the last run of a session has ended
	watchers   atomic.Int64  // streams of sessions
	harnesses  atomic.Int64  // streams of processes that run agents
	lateEvery  time.Duration
	keepRuns   time.Duration
	held       heldCages
	announce   func() // closes leaving
	drain      func()
	parsers    *syntax.Parsers
	project    project.Options
	files      *change.Writer
	images     *changes.Images
	rules      paths.Rules
	lookupEnv  func(string) (string, bool)
	sniff      text.Sniffer
	journal    *change.Journal // may be nil
	languages  []*syntax.Language
	journalDir string // may be ""
	log        *slog.Logger
	cagesOnly  bool
	// shell has the limits of the records of commands.
	shell tools.ShellLimits
}

// New returns a runner of the whole catalogue. It starts no goroutine and touches no file; see [Runner.Start].
func New(opts Options, deps Deps) (*Runner, error) {
	records := late.New(opts.Records, deps.Log)
	r := &Runner{
		records: records,
		calls:   calls.New(opts.Calls), reads: reads.New(opts.Sessions, opts.Files), told: new(language.Told),
		servers: deps.Servers, commands: deps.Commands, project: opts.Project,
		cagesOnly: deps.CagesOnly,
		cages:     deps.Cages, inventory: deps.Inventory, shell: opts.Tools.Shell,
		processes: processes.New(deps.Background, deps.Log, opts.Processes), runs: runs.New(),
		debuggers: debugging.NewRuns(deps.Debuggers, records),
		leaving:   make(chan struct{}), draining: make(chan struct{}), runEnded: make(chan struct{}, 1),
		lateEvery: opts.LateEvery, keepRuns: opts.KeepRuns,
		parsers:   syntax.NewParsers(opts.Tools.Syntax.Parsers),
		languages: deps.Languages, journalDir: opts.Journal, log: deps.Log,
		images: changes.NewImages(
			opts.Images, opts.Changes, deps.Log,
		), rules: opts.Rules, lookupEnv: deps.LookupEnv, sniff: deps.Sniff,
	}
	r.announce = sync.OnceFunc(func() { close(r.leaving) })
	r.drain = sync.OnceFunc(func() { close(r.draining) })
	if opts.Journal != "" {
		r.journal = change.NewJournal(opts.Journal)
	}
	r.files = change.NewWriter(r.journal, opts.Changed)
	builtin := tools.Catalogue(tools.Deps{
		Files: r.files, Images: r.images, Reads: r.reads, Sniff: deps.Sniff, Commands: deps.Commands,
		Processes: r.processes, Languages: deps.Servers, Told: r.told, Tracker: deps.Tracker, LookupEnv: deps.LookupEnv,
		Debuggers: r.debuggers,
		NoSandbox: deps.NoSandbox, Parsers: r.parsers, Limits: opts.Tools,
		Notes: memories.NewShelf(opts.Tools.Memory.Notes, deps.Sniff, nil),
	})
	declared, warnings, err := clitools.Load(deps.ToolsFile, deps.Tools, builtin, clitools.Deps{
		Commands: deps.Commands, LookupEnv: deps.LookupEnv, NoSandbox: deps.NoSandbox, Limits: opts.CLI,
	})
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		deps.Log.Warn("the operator's tools: " + w)
	}
	if r.catalogue, err = catalogue.Join(builtin, declared); err != nil {
		return nil, err
	}
	for _, e := range r.catalogue {
		if !e.OwnTimeout {
			e.Limits = append(e.Limits, tool.InTime("tool_timeout", opts.Dispatch.Timeout, "of one call"))
		}
	}
	if opts.Dispatch.Guard, err = shellguard.New(opts.Safety); err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "services.tool-runner: %s.", err)
	}
	opts.Dispatch.Log, opts.Dispatch.Rules = deps.Log, opts.Rules
	r.dispatcher, err = dispatch.New(r.catalogue, opts.Dispatch)
	return r, err
}

// Start prepares the runner for its first call. It tests every grammar, and undoes changes of files that an earlier
// process left unfinished, so that no call sees them. It fails with internal if a grammar does not work, because
// without its parsers the service would give wrong answers.
func (r *Runner) Start(ctx context.Context) error {
	if err := syntax.SelfTest(ctx, r.languages); err != nil {
		return fault.Wrap(err, fault.Internal, "The self-test of structural search failed: %v.", err)
	}
	r.processes.Open()
	r.records.Load()
	if r.journalDir != "" {
		change.Recover(r.journalDir, r.log)
	}
	return nil
}

// Catalogue returns the tools in canonical order. The caller must not change it.
func (r *Runner) Catalogue() []*tool.Entry { return r.catalogue }

// Available returns, for each tool of the catalogue, the reason why the caller cannot use it, nil if the caller can;
// see [dispatch.Dispatcher.Available].
func (r *Runner) Available(from contract.Caller) ([]*fault.Error, error) {
	return r.dispatcher.Available(from, r.catalogue)
}

// Run runs a call once and returns its outcome; see [calls.Calls.Do]. The failure of a tool is an outcome too. Run
// replaces call.Emit: show receives the output.
func (r *Runner) Run(
	ctx context.Context, call *tool.Call, show func(stream, text string) error,
) (dispatch.Outcome, error) {
	if call.ID == "" || call.From.SessionID == "" {
		return dispatch.Outcome{}, fault.New(fault.BadRequest, "A call needs a call_id and a session_id.")
	}
	if r.cagesOnly && call.From.Cage == nil {
		return dispatch.Outcome{}, contract.CageRequired(call.From.Agent)
	}
	run := runs.Run{Session: call.From.SessionID, ID: call.From.RunID}
	if err := r.runs.Check(run); err != nil {
		return dispatch.Outcome{}, err
	}
	key := calls.Key{
		Session: call.From.SessionID, Invocation: call.From.InvocationID, Run: run.ID, ID: call.ID, Input: digest(call),
	}
	return r.calls.Do(ctx, key, func(ctx context.Context, emit func(stream, text string)) (dispatch.Outcome, error) {
		call.Emit = emit
		return r.dispatcher.Dispatch(ctx, call)
	}, show)
}

// Cancel cancels a call; see [calls.Calls.Cancel].
func (r *Runner) Cancel(session, invocation, id string) error {
	return r.calls.Cancel(session, invocation, id)
}

// digest identifies a call's request and caller: the agent, run, project and parameters. A grant and the cage of the
// call's commands are not included.
func digest(call *tool.Call) calls.Digest {
	sum := sha256.New()
	for _, part := range []string{call.Name, call.From.RunID, call.From.InvocationID, call.From.Agent, call.From.Root} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		sum.Write(length[:])
		io.WriteString(sum, part)
	}
	sum.Write(call.Input)
	return calls.Digest(sum.Sum(nil))
}

// HoldRun holds a caller's run until ctx ends, and then ends the run's calls, unless the run is kept and held again
// within KeepRuns. It calls opened when the run is held, and then tell with the events of the run's debug sessions.
func (r *Runner) HoldRun(
	ctx context.Context, from contract.Caller, opened func() error, tell func(contract.DebugEvent) error,
) error {
	if from.SessionID == "" || from.RunID == "" {
		return fault.New(fault.BadRequest, "A run needs a session_id and a run_id.")
	}
	release := r.runs.Hold(runs.Run{Session: from.SessionID, ID: from.RunID})
	err := opened()
	if err == nil {
		var draining bool
		if draining, err = r.attend(ctx, from, tell); draining {
			// The run continues without this process, and its calls have the time that the host gives them.
			return fault.New(fault.Unavailable, "The tool runner is stopping.").With("subsystem", "tool-runner")
		}
	}
	r.awaitNext(r.runs.Awaited(runs.Run{Session: from.SessionID, ID: from.RunID}))
	ended, last := release()
	if !ended {
		return err
	}
	r.calls.EndRun(from.SessionID, from.RunID)
	// The caller has left; the run's commands and cages have to end nevertheless.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endRunTimeout)
	defer cancel()
	// The debug sessions end first, so that attached programs are released.
	if failed := r.debuggers.End(ending, from.SessionID, from.RunID); failed != nil {
		r.log.WarnContext(ctx, "the debug pool was not told of the end of a run", "run_id", from.RunID,
			"error", failed)
	}
	if failed := r.commands.EndRun(ending, from.RunID); failed != nil {
		r.log.WarnContext(ctx, "the sandbox could not be told of the end of a run", "run_id", from.RunID, "error", failed)
	}
	if last {
		select {
		case r.runEnded <- struct{}{}:
		default:
		}
	}
	return err
}

// attend reports the events of a run's debug sessions until ctx ends, the process drains, or tell fails.
//
// Goroutines: one that receives events of the pool; it ends before attend returns.
func (r *Runner) attend(
	ctx context.Context, from contract.Caller, tell func(contract.DebugEvent) error,
) (draining bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan contract.DebugEvent)
	var listening sync.WaitGroup
	listening.Go(func() {
		_ = r.tellDebug(ctx, from, func(e contract.DebugEvent) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}) // it fails when ctx ends
	})
	defer listening.Wait()
	defer cancel()
	for {
		select {
		case e := <-events:
			if err := tell(e); err != nil {
				return false, err
			}
		case <-ctx.Done():
			return false, nil
		case <-r.draining:
			return true, nil
		}
	}
}

// endRunTimeout is the time limit for the sandbox to end a run's commands and cages.
const endRunTimeout = 30 * time.Second

// HoldCage creates the cage of a caller's invocation and holds it until ctx or the cage ends; see [sandbox.Cages]. If
// checked is true, that event comes first. It fails with bad_request for a caller without a cage.
func (r *Runner) HoldCage(
	ctx context.Context, id string, from contract.Caller, checked bool, event func(contract.CageEvent) error,
) error {
	if id == "" || from.SessionID == "" || from.Cage == nil {
		return fault.New(fault.BadRequest, "A cage needs a cage_id, a session_id and a policy.")
	}
	of := agentOf{runs.Run{Session: from.SessionID, ID: from.RunID}, from.InvocationID, from.Agent}
	id = r.held.enter(of, id)
	defer r.held.leave(of, id)
	life, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	defer context.AfterFunc(ctx, func() {
		r.awaitNext(r.held.awaited(of, id))
		leave()
	})()
	return r.cages.Hold(life, contract.CageSpec{
		ID: id, Policy: from.Cage, Root: from.Root, TellChecked: checked,
		Owner: contract.Owner{SessionID: from.SessionID, RunID: from.RunID, ProjectID: from.ProjectID, Agent: from.Agent},
	}, func(e contract.CageEvent) error {
		if e.Opened != nil {
			r.held.join(of, id)
		}
		if ctx.Err() != nil {
			return nil // the next harness is told by its own stream
		}
		return event(e)
	})
}

// ReleaseCage releases a cage and returns its findings; see [sandbox.Cages].
func (r *Runner) ReleaseCage(ctx context.Context, id, session string) ([]contract.Finding, error) {
	return r.cages.Release(ctx, id, session)
}

// Running returns the running commands of a session, or of all sessions for "".
func (r *Runner) Running(ctx context.Context, session string) (contract.Running, error) {
	return r.inventory.Running(ctx, session)
}

// SignalProcess sends a signal to a command of a session; see [sandbox.Inventory].
func (r *Runner) SignalProcess(ctx context.Context, session, id, name string) error {
	return r.inventory.SignalRunning(ctx, session, id, name)
}

// ReadProject reads files of a project; see [project.Read].
func (r *Runner) ReadProject(ctx context.Context, req project.Request) (string, []project.File, error) {
	opts := r.project
	opts.Rules = r.rules
	return project.Read(ctx, opts, req)
}

// WriteProject writes a file of a project; see [project.Write].
func (r *Runner) WriteProject(ctx context.Context, w project.Writing) (sha256 string, err error) {
	opts := r.project
	opts.Rules = r.rules
	return project.Write(ctx, opts, r.files, r.dispatcher.Hold, w)
}

// ListFolder lists a folder of a project for people; see [project.List].
func (r *Runner) ListFolder(root, folder, after string, limit int) ([]project.Entry, bool, error) {
	return project.List(root, r.rules, folder, after, limit)
}

// ReadFile passes the content of a project's file to send; see [project.Stream].
func (r *Runner) ReadFile(
	ctx context.Context, root, name string, send func(size, modifiedAt int64, data []byte) error,
) error {
	return project.Stream(ctx, root, r.rules, name, send)
}

// Changes returns the files that a session has changed; see [changes.Images.List].
func (r *Runner) Changes(ctx context.Context, root, session, path string, since int64) (changes.Found, error) {
	return r.images.List(ctx, changes.Query{
		Root: root, Rules: r.rules, Session: session, Since: since, Path: path, LookupEnv: r.lookupEnv, Sniff: r.sniff,
	})
}

// EndSession cancels a session's calls, removes its read records and ends its commands, including those in the
// background. It returns the records of unreported ends; see [processes.Table.EndSession].
func (r *Runner) EndSession(ctx context.Context, session string) ([]contract.Record, error) {
	r.calls.EndSession(session)
	r.reads.EndSession(session)
	r.told.EndSession(session)
	if err := r.debuggers.End(ctx, session, ""); err != nil {
		r.log.WarnContext(ctx, "the debug pool was not told of the end of a session", "session_id", session,
			"error", err)
	}
	var found []contract.Finding
	ended, err := r.processes.EndSession(ctx, session, func(ctx context.Context) (err error) {
		found, err = r.commands.EndSession(ctx, session)
		return err
	})
	records := make([]contract.Record, len(ended))
	for i, p := range ended {
		records[i] = r.shell.EndRecord(p)
	}
	if len(found) > 0 {
		records = append(records, foundRecord(session, found))
	}
	for _, l := range r.records.Take(func(l late.Record) bool { return l.Session == session && l.Project == "" }) {
		records = append(records, l.Record)
	}
	return records, err
}

// foundRecord returns the record of files that cages without a holder created and that tools outside cages run.
func foundRecord(session string, found []contract.Finding) contract.Record {
	payload := audit.Found(found)
	payload["session_id"] = session
	return contract.Record{Type: audit.CageFound, At: time.Now().UnixMilli(), Payload: payload}
}

// Stop cancels every call and returns when all calls have ended.
func (r *Runner) Stop() {
	r.calls.Stop()
	r.parsers.Close()
	r.journal.Close()
}
