// Package core is tool-runner without its wires: a catalogue of tools, the dispatcher they are called through, and what is
// remembered between calls of a session.
package core

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/calls"
	"kaged.dev/services/tool-runner/internal/core/catalogue"
	"kaged.dev/services/tool-runner/internal/core/clitools"
	"kaged.dev/services/tool-runner/internal/core/command"
	"kaged.dev/services/tool-runner/internal/core/dispatch"
	"kaged.dev/services/tool-runner/internal/core/paths"
	"kaged.dev/services/tool-runner/internal/core/processes"
	"kaged.dev/services/tool-runner/internal/core/project"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/shellguard"
	"kaged.dev/services/tool-runner/internal/core/syntax"
	"kaged.dev/services/tool-runner/internal/core/text"
	"kaged.dev/services/tool-runner/internal/core/tool"
	"kaged.dev/services/tool-runner/internal/core/tools"
)

// Options are the limits of every part; the service's configuration fills them.
type Options struct {
	Dispatch dispatch.Options
	Calls    calls.Options
	Tools    tools.Limits
	CLI      clitools.Limits
	Project  project.Options
	Rules    paths.Rules
	// Safety says which commands and paths need an operator's approval, or are refused.
	Safety shellguard.Rules
	// Sessions and Files bound the read records.
	Sessions, Files int
	// Processes bounds the table of background processes.
	Processes processes.Options
	// Journal is the folder where changes of files are noted while they are made, empty for none.
	Journal string
}

// Deps are what the core needs from outside.
type Deps struct {
	Log *slog.Logger
	// Sniff names a file's content type.
	Sniff text.Sniffer
	// Commands runs what tools want run, Background what outlives the call that started it.
	Commands   command.Runner
	Background command.Background
	// Cages makes the cages of agents, Inventory knows what runs.
	Cages     command.Cages
	Inventory command.Inventory
	// NoSandbox says that cages are switched off: commands of caged agents run without.
	NoSandbox bool
	// Languages are those whose grammars have to work.
	Languages []*syntax.Language
	// LookupEnv reads the process's own environment.
	LookupEnv func(string) (string, bool)
	// ToolsFile is what declares the operator's commands, Tools its content.
	ToolsFile string
	Tools     []byte
}

// Runner runs tools. It is safe for concurrent use.
type Runner struct {
	catalogue  []*tool.Entry
	dispatcher *dispatch.Dispatcher
	calls      *calls.Calls
	reads      *reads.Records
	commands   command.Runner
	cages      command.Cages
	inventory  command.Inventory
	processes  *processes.Table
	parsers    *syntax.Parsers
	project    project.Options
	journal    *paths.Journal // nil for none
	// shell bounds what is recorded of commands.
	shell tools.ShellLimits
}

// New returns a runner of the whole catalogue. What an earlier process left half changed it takes back first, so that no call
// ever sees it.
func New(opts Options, deps Deps) (*Runner, error) {
	// Without its parsers the service would answer wrongly; it does not start.
	if err := syntax.SelfTest(context.Background(), deps.Languages); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "The self-test of structural search failed: %v.", err)
	}
	r := &Runner{
		calls: calls.New(opts.Calls), reads: reads.New(opts.Sessions, opts.Files), commands: deps.Commands, project: opts.Project,
		cages: deps.Cages, inventory: deps.Inventory, shell: opts.Tools.Shell,
		processes: processes.New(deps.Background, deps.Log, opts.Processes),
		parsers:   syntax.NewParsers(opts.Tools.Syntax.Parsers),
	}
	if opts.Journal != "" {
		paths.Recover(opts.Journal, deps.Log)
		r.journal = paths.NewJournal(opts.Journal)
		opts.Rules.Journal = r.journal
	}
	builtin := tools.Catalogue(tools.Deps{
		Reads: r.reads, Sniff: deps.Sniff, Commands: deps.Commands, Processes: r.processes, LookupEnv: deps.LookupEnv,
		NoSandbox: deps.NoSandbox, Parsers: r.parsers, Limits: opts.Tools,
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

// Catalogue returns the tools in canonical order. The caller must not change it.
func (r *Runner) Catalogue() []*tool.Entry { return r.catalogue }

// Available says of each tool of the catalogue whether a caller can use it; see [dispatch.Dispatcher.Available].
func (r *Runner) Available(from tool.Caller) ([]*fault.Error, error) {
	return r.dispatcher.Available(from, r.catalogue)
}

// Run runs a call once and returns what came of it; see [calls.Calls.Do]. A tool that fails is an outcome. call.Emit is
// replaced: output goes to show.
func (r *Runner) Run(ctx context.Context, call *tool.Call, show func(stream, text string) error) (dispatch.Outcome, error) {
	if call.ID == "" || call.From.SessionID == "" {
		return dispatch.Outcome{}, fault.New(fault.BadRequest, "A call needs a call_id and a session_id.")
	}
	key := calls.Key{Session: call.From.SessionID, ID: call.ID, Input: digest(call)}
	return r.calls.Do(ctx, key, func(ctx context.Context, emit func(stream, text string)) (dispatch.Outcome, error) {
		call.Emit = emit
		return r.dispatcher.Dispatch(ctx, call)
	}, show)
}

// Cancel cancels a call; see [calls.Calls.Cancel].
func (r *Runner) Cancel(session, id string) error { return r.calls.Cancel(session, id) }

// digest stands for what a call asks for.
func digest(call *tool.Call) calls.Digest {
	sum := sha256.New()
	io.WriteString(sum, call.Name)
	sum.Write([]byte{0})
	sum.Write(call.Input)
	return calls.Digest(sum.Sum(nil))
}

// HoldCage makes the cage of a caller's invocation and holds it until ctx or the cage ends; see [command.Cages]. It fails with
// bad_request for a caller without a cage.
func (r *Runner) HoldCage(ctx context.Context, id string, from tool.Caller, event func(command.CageEvent) error) error {
	if id == "" || from.SessionID == "" || from.Cage == nil {
		return fault.New(fault.BadRequest, "A cage needs a cage_id, a session_id and a policy.")
	}
	return r.cages.Hold(ctx, command.CageSpec{
		ID: id, Policy: from.Cage, Root: from.Root,
		Owner: command.Owner{SessionID: from.SessionID, RunID: from.RunID, ProjectID: from.ProjectID, Agent: from.Agent},
	}, event)
}

// ReleaseCage lets go of a cage and returns what it leaves; see [command.Cages].
func (r *Runner) ReleaseCage(ctx context.Context, id, session string) ([]command.Finding, error) {
	return r.cages.Release(ctx, id, session)
}

// Running returns what runs for a session, or for all where it is empty.
func (r *Runner) Running(ctx context.Context, session string) (command.Running, error) {
	return r.inventory.Running(ctx, session)
}

// ReadProject reads files of a project; see [project.Read].
func (r *Runner) ReadProject(ctx context.Context, req project.Request) (string, []project.File, error) {
	return project.Read(ctx, r.project, req)
}

// EndSession cancels a session's calls, forgets what it read and ends its commands, those in the background too. It returns
// the records of those whose end nobody was told of; see [processes.Table.EndSession].
func (r *Runner) EndSession(ctx context.Context, session string) ([]audit.Record, error) {
	r.calls.EndSession(session)
	r.reads.EndSession(session)
	var found []command.Finding
	ended, err := r.processes.EndSession(ctx, session, func(ctx context.Context) (err error) {
		found, err = r.commands.EndSession(ctx, session)
		return err
	})
	records := make([]audit.Record, len(ended))
	for i, p := range ended {
		records[i] = r.shell.EndRecord(p)
	}
	if len(found) > 0 {
		records = append(records, foundRecord(session, found))
	}
	return records, err
}

// foundRecord is the record of what was made in cages that nobody held any more and that tools outside run.
func foundRecord(session string, found []command.Finding) audit.Record {
	list := make([]any, len(found))
	for i, f := range found {
		list[i] = map[string]any{"kind": f.Kind, "path": f.Path, "text": f.Text}
	}
	return audit.Record{Type: audit.CageFound, At: time.Now().UnixMilli(), Payload: map[string]any{"session_id": session, "level": "warning", "found": list}}
}

// Stop cancels every call and returns when all have ended.
func (r *Runner) Stop() {
	r.calls.Stop()
	r.parsers.Close()
	r.journal.Close()
}
