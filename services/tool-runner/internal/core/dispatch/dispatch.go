package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
	"kaged.dev/pkg/shellguard"
	"kaged.dev/pkg/workspace/cageview"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// Options are the dispatcher's limits and the operator's boundaries.
type Options struct {
	// Log gets panics.
	Log *slog.Logger
	// Rules are the operator's path boundaries.
	Rules paths.Rules
	// Forbidden are kaged's own paths, which no cage can grant.
	Forbidden []ownpath.Path
	// Memory is the folder of the remembered paths of repositories, or "".
	Memory string
	// Guard judges commands and knows the system paths; nil means no rules.
	Guard *shellguard.Guard
	// LockWait is the maximum wait for another call that uses a path.
	LockWait time.Duration
	// Timeout limits tools without their own time limit, and every tool's preview. The operator's time to answer counts
	// towards neither.
	Timeout time.Duration
	// AuditValue is the maximum size in bytes of a value recorded in full.
	AuditValue int
}

// Dispatcher runs calls of the tools of one catalogue. It is safe for concurrent use.
type Dispatcher struct {
	opts   Options
	byName map[string]bound
	views  *cageview.Views
	held   *locks
}

// bound is an entry with all behaviours around it.
type bound struct {
	entry *tool.Entry
	tool  tool.Tool
}

// behaviour wraps a tool with a rule common to all tools.
type behaviour func(*tool.Entry, tool.Tool) tool.Tool

// New returns a dispatcher for a catalogue. Two tools or aliases with the same name are an error.
func New(catalogue []*tool.Entry, opts Options) (*Dispatcher, error) {
	d := &Dispatcher{
		opts: opts, byName: map[string]bound{}, views: cageview.NewViews(opts.Forbidden, opts.Memory), held: newLocks(),
	}
	if opts.Guard == nil {
		var err error
		if opts.Guard, err = shellguard.New(shellguard.Rules{}); err != nil {
			return nil, err
		}
	}
	around := []behaviour{
		recording(opts.AuditValue), guarding(opts.Log), validating, scoping, giving, permitting(opts.Rules, d.views),
		approving(opts.Guard, opts.Timeout),
		bounding(opts.Timeout), finishing, locking(d.held, opts.LockWait),
	}
	for _, entry := range catalogue {
		var t tool.Tool = entry.Tool
		for _, wrap := range slices.Backward(around) {
			t = wrap(entry, t)
		}
		names := []string{entry.Name()}
		for _, a := range entry.Aliases {
			names = append(names, a.Name)
		}
		for _, name := range names {
			if _, taken := d.byName[name]; taken {
				return nil, fmt.Errorf("dispatch: two tools are called %s", name)
			}
			d.byName[name] = bound{entry, t}
		}
	}
	return d, nil
}

// Outcome is the result of a call with its record.
type Outcome struct {
	// Result is the text for the model; Fault is its failure, nil for a success.
	Result tool.Result
	Fault  *fault.Error
	// Approval is set for a call that was not made because it needs an operator's approval; then there is no result.
	Approval *contract.Subject
	// Records are the call's audit records.
	Records []contract.Record
	// Tool is the canonical name, empty if the call named no tool.
	Tool string
	// Duration is the duration of the call.
	Duration time.Duration
	// Acted means that the tool ran and may have changed state.
	Acted bool
	// CageOver means that the call was ended with the caller's cage.
	CageOver bool
}

// Dispatch runs a call to its end. A returned error is one of the infrastructure, not of the call. The outcome then
// still has the records, and, for a call cancelled after its tool was reached, the fault.
func (d *Dispatcher) Dispatch(ctx context.Context, call *tool.Call) (Outcome, error) {
	began := time.Now()
	var out Outcome
	entry, t := d.resolve(call)
	if entry != nil {
		out.Tool = entry.Name()
	}
	result, err := t.Run(ctx, call)
	out.Records, out.Duration, out.CageOver = call.Records, time.Since(began), call.CageOver
	out.Acted = call.Acted && entry != nil && !entry.OnlyLooks(call.Name, call.Input)
	if err == nil {
		out.Result = result
		return out, nil
	}
	var needs *tool.NeedsApproval
	if errors.As(err, &needs) {
		out.Approval = &needs.Approval
		return out, nil
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) ||
		tool.IsInfrastructure(err) {
		f := fault.From(err)
		if call.Acted && f.Code == fault.Cancelled {
			out.Fault = shown(f)
			out.Result = failure(out.Fault)
		}
		return out, f
	}
	out.Fault = shown(fault.From(err))
	out.Result = failure(out.Fault)
	return out, nil
}

// shown returns f with a valid UTF-8 message, because a path in it may not be UTF-8.
func shown(f *fault.Error) *fault.Error {
	if utf8.ValidString(f.Msg) {
		return f
	}
	valid := *f
	valid.Msg = strings.ToValidUTF8(f.Msg, "\uFFFD")
	return &valid
}

// resolve finds the tool of a call. An unknown tool and one that is not enabled for this agent give the same error.
func (d *Dispatcher) resolve(call *tool.Call) (*tool.Entry, tool.Tool) {
	b, ok := d.byName[call.Name]
	if ok && b.entry.GivenBy(call.From.Tools) {
		return b.entry, b.tool
	}
	err := noTool(call.Name)
	none := wrapped{run: func(context.Context, *tool.Call) (tool.Result, error) { return tool.Result{}, err }}
	return nil, recording(d.opts.AuditValue)(nil, none)
}

func noTool(name string) *fault.Error {
	return fault.New(fault.ToolNotFound, "There is no tool %.80q for this agent.", name).With("tool", name)
}

// wrapped is a tool with its Run replaced.
type wrapped struct {
	tool.Tool
	run func(context.Context, *tool.Call) (tool.Result, error)
}

func (w wrapped) Run(ctx context.Context, call *tool.Call) (tool.Result, error) {
	return w.run(ctx, call)
}

// failure is the result of a call that failed.
func failure(f *fault.Error) tool.Result {
	return tool.Result{Content: f.ToolError(), IsError: true}
}
