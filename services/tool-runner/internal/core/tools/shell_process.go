package tools

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/pkg/toolcall"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/processes"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed shell_process.md
var shellProcessText string

//go:embed process.md
var processText string

// ProcessLimits are the limits of shell.process.
type ProcessLimits struct {
	// OutputRunes is the maximum number of characters of output in the answer of a poll.
	OutputRunes int
	// PollWait is the default time that a poll waits for output, MaxWait the maximum time.
	PollWait, MaxWait time.Duration
	// SignalWait is the time to wait for the end after a signal that ends most programs.
	SignalWait time.Duration
	// InputBytes is the maximum size of one write.
	InputBytes int
}

type shellProcessParams struct {
	Action    string      `json:"action" enum:"list,status,poll,input,signal,kill" doc:"What to do."`
	ProcessID string      `json:"process_id,omitempty" doc:"The process, as shell.exec named it. Required for everything but list."`
	Input     string      `json:"input,omitempty" doc:"For input: what to write to standard input."`
	EOF       bool        `json:"eof,omitempty" doc:"For input: close standard input, after what is written."`
	Signal    string      `json:"signal,omitempty" doc:"For signal: its name, such as SIGTERM."`
	Wait      *schema.Int `json:"wait,omitempty" doc:"For poll: milliseconds to wait for output if there is nothing new. Default: 1000; at most 60000."`
	Offset    *schema.Int `json:"offset,omitempty" doc:"For poll: read from this byte of all output on, instead of what is new."`
}

// processParams are the parameters of the flat name, which has four actions.
type processParams struct {
	Action    string `json:"action" enum:"status,input,signal,poll" doc:"What to do."`
	ProcessID string `json:"process_id" doc:"The process, as exec named it."`
	Input     string `json:"input,omitempty" doc:"For input: what to write to standard input."`
	Signal    string `json:"signal,omitempty" doc:"For signal: its name, such as SIGTERM."`
}

type shellProcessResult struct {
	ProcessID string `json:"process_id,omitempty"`
	Status    string `json:"status,omitempty" enum:"running,exited,lost"`
	Note      string `json:"note,omitempty"`
	Command   string `json:"command,omitempty"`
	Cwd       string `json:"cwd,omitempty"`
	StartedAt int64  `json:"started_at,omitempty"`
	EndedAt   int64  `json:"ended_at,omitempty"`
	ExitCode  *int   `json:"exit_code,omitempty"`
	Signal    string `json:"signal,omitempty"`
	Reason    string `json:"reason,omitempty"`
	TimedOut  bool   `json:"timed_out,omitempty"`
	// Fields of a poll.
	Output       *string `json:"output,omitempty"`
	Offset       *int64  `json:"offset,omitempty"`
	NextOffset   *int64  `json:"next_offset,omitempty"`
	OmittedBytes int64   `json:"omitted_bytes,omitempty"`
	UnreadBytes  *int64  `json:"unread_bytes,omitempty"`
	// Fields of a list.
	Processes *[]processEntry `json:"processes,omitempty"`
}

type processEntry struct {
	ProcessID   string `json:"process_id"`
	Status      string `json:"status"`
	Command     string `json:"command"`
	Cwd         string `json:"cwd"`
	Agent       string `json:"agent"`
	StartedAt   int64  `json:"started_at"`
	EndedAt     int64  `json:"ended_at,omitempty"`
	ExitCode    *int   `json:"exit_code,omitempty"`
	Reason      string `json:"reason,omitempty"`
	UnreadBytes int64  `json:"unread_bytes"`
}

func shellProcess(d Deps) *tool.Entry {
	limits := d.Limits.Shell.Process
	return tool.Define(tool.Spec[shellProcessParams, shellProcessResult]{
		Name: "shell.process", Description: shellProcessText, Category: tool.Write, OwnTimeout: true,
		// A poll without an offset consumes the new output: of two simultaneous polls each would miss a part.
		ReadWhen: toolcall.When{
			{{Parameter: "action", Values: []string{"list", "status"}}},
			{{Parameter: "action", Values: []string{"poll"}}, {Parameter: "offset"}},
		},
		WaitWhen: toolcall.When{{{Parameter: "action", Values: []string{"list", "status", "poll"}}}},
		Requires: []tool.Requirement{tool.Can("shell")},
		Commands: func(p *shellProcessParams) []tool.Command {
			if p.Action != "input" || p.Input == "" {
				return nil
			}
			return []tool.Command{{Shell: p.Input, Typed: true, MaxBytes: limits.InputBytes}}
		},
		Effect: func(p *shellProcessParams) tool.Effect {
			if slices.Contains([]string{"list", "status", "poll"}, p.Action) {
				return tool.Effect{Category: tool.Read}
			}
			return tool.Effect{Category: tool.Write}
		},
		Preview: func(_ context.Context, _ *tool.Call, p *shellProcessParams) (string, error) {
			return "", limits.check(p)
		},
		Aliases: []tool.Alias{
			tool.AliasOf("process", processText, func(p processParams) shellProcessParams {
				return shellProcessParams{Action: p.Action, ProcessID: p.ProcessID, Input: p.Input, Signal: p.Signal}
			}).Reading(toolcall.When{{{Parameter: "action", Values: []string{"status"}}}}),
		},
		Limits: []tool.Limit{
			tool.InNumber("process_output_chars", limits.OutputRunes, "characters of output of a poll"),
			tool.InTime("process_poll_wait", limits.PollWait, "that a poll waits whose caller does not say"),
			tool.InTime("process_max_wait", limits.MaxWait, "that a poll waits at most"),
			tool.InBytes("process_input_bytes", limits.InputBytes, "of input at once"),
		},
		Run: d.runProcess,
	})
}

// runProcess executes one action on a background process.
func (d Deps) runProcess(ctx context.Context, call *tool.Call, p *shellProcessParams) (shellProcessResult, error) {
	if err := d.Limits.Shell.Process.check(p); err != nil {
		return shellProcessResult{}, err
	}
	result, err := d.handle(ctx, call, p)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return shellProcessResult{}, ctx.Err()
	case errors.Is(err, fault.Unavailable), errors.Is(err, fault.Internal):
		return shellProcessResult{}, tool.Infrastructure(err)
	}
	return shellProcessResult{}, err
}

func (d Deps) handle(ctx context.Context, call *tool.Call, p *shellProcessParams) (shellProcessResult, error) {
	session, agent := call.From.SessionID, call.From.Agent
	switch p.Action {
	case "list":
		list, err := d.Processes.List(ctx, session, agent)
		return d.listed(call, list), err
	case "poll":
		return d.poll(ctx, call, p)
	case "input":
		if err := d.input(ctx, call, p); err != nil {
			return shellProcessResult{}, err
		}
	case "signal":
		return d.signal(ctx, call, p)
	case "kill":
		process, err := d.Processes.End(ctx, session, agent, p.ProcessID)
		return d.described(call, process), err
	}
	process, err := d.Processes.Status(ctx, session, agent, p.ProcessID)
	return d.described(call, process), err
}

// poll reads the new output, or the output from an offset.
func (d Deps) poll(ctx context.Context, call *tool.Call, p *shellProcessParams) (shellProcessResult, error) {
	limits := d.Limits.Shell.Process
	var page processes.Page
	var err error
	if p.Offset != nil {
		if *p.Offset < 0 {
			return shellProcessResult{}, fault.New(fault.InvalidParams, "offset is %d; the first byte is number 0.", *p.Offset).
				With("field", "offset")
		}
		page, err = d.Processes.ReadAt(ctx, call.From.SessionID, call.From.Agent, p.ProcessID, int64(*p.Offset),
			limits.OutputRunes)
	} else {
		page, err = d.Processes.Poll(ctx, call.From.SessionID, call.From.Agent, p.ProcessID, limits.OutputRunes,
			clamp(p.Wait, limits.PollWait, 0, limits.MaxWait), func(s string) { call.Emit("stdout", s) })
	}
	if err != nil {
		return shellProcessResult{}, err
	}
	result := d.described(call, page.Process)
	result.Output, result.Offset, result.NextOffset, result.OmittedBytes = &page.Output, &page.From, &page.Next,
		page.Omitted
	return result, nil
}

// check refuses values that the schema cannot exclude.
func (l ProcessLimits) check(p *shellProcessParams) error {
	switch {
	case p.Action != "list" && p.ProcessID == "":
		return fault.New(fault.InvalidParams, "process_id is required for the action %s.", p.Action).
			With("field", "process_id")
	case p.Action == "input" && p.Input == "" && !p.EOF:
		return fault.New(fault.InvalidParams, "input is required for the action input, or eof.").With("field", "input")
	}
	return nil
}

// input writes to a process's standard input.
func (d Deps) input(ctx context.Context, call *tool.Call, p *shellProcessParams) error {
	return d.Processes.Input(ctx, call.From.SessionID, call.From.Agent, p.ProcessID, []byte(p.Input), p.EOF)
}

// ending are the signals that end most programs.
var ending = []string{"SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT", "SIGABRT"}

// signal sends a signal. If the signal ends the process, signal waits a short time for the end.
func (d Deps) signal(ctx context.Context, call *tool.Call, p *shellProcessParams) (shellProcessResult, error) {
	name := strings.ToUpper(p.Signal)
	switch {
	case name == "":
		return shellProcessResult{}, fault.New(fault.InvalidParams, "signal is required for the action signal.").
			With("field", "signal")
	case !strings.HasPrefix(name, "SIG"):
		name = "SIG" + name
	}
	if err := d.Processes.Signal(ctx, call.From.SessionID, call.From.Agent, p.ProcessID, name); err != nil {
		return shellProcessResult{}, err
	}
	wait := d.Limits.Shell.Process.SignalWait
	if !slices.Contains(ending, name) {
		wait = 0
	}
	process, err := d.Processes.Wait(ctx, call.From.SessionID, call.From.Agent, p.ProcessID, wait)
	return d.described(call, process), err
}

// notes explain statuses that are not clear from their names.
var notes = map[processes.Status]string{
	processes.Lost: "The service that ran it was restarted, which ended it; how it ended is not known and its output " +
		"is gone.",
}

// note returns the explanation of a process's status or of the reason for its end.
func note(call *tool.Call, p processes.Process) string {
	if text := notes[p.Status]; text != "" {
		return text
	}
	return sandbox.Explain(contract.ReasonOf(string(p.Reason)), call.From.Cage)
}

// recordEnd records the end of a process, in the first call that gets to know it.
func (d Deps) recordEnd(call *tool.Call, p processes.Process) {
	if p.News {
		r := d.Limits.Shell.EndRecord(p)
		call.Record(r.Type, r.Payload)
	}
}

// EndRecord returns the record of a process's end, for the call that started the process.
func (l ShellLimits) EndRecord(p processes.Process) contract.Record {
	r := contract.Record{Type: audit.ProcessLost, At: p.EndedAt, Agent: p.Agent, Payload: map[string]any{
		"process_id": p.ID, "command": l.recorded(p.Command), "cwd": p.Cwd,
	}}
	if p.Status != processes.Lost {
		r.Type, r.Payload = audit.ShellExecuted, audit.Command{
			Line: l.recorded(p.Command), Cwd: p.Cwd, ExitCode: &p.ExitCode, TimedOut: p.Reason == processes.TimedOut,
			Timeout:  p.Timeout,
			Duration: time.Duration(p.EndedAt-p.StartedAt) * time.Millisecond, Process: p.ID,
			Killed: contract.ReasonOf(string(p.Reason)).Word(),
		}.Fields()
	}
	for name, value := range map[string]string{
		"session_id": p.Session, "run_id": p.Run, "call_id": p.Call, "caller": p.Agent,
	} {
		r.Payload[name] = value
	}
	return r
}

// described returns a process in the form for the model, an empty result for none.
func (d Deps) described(call *tool.Call, p processes.Process) shellProcessResult {
	if p.ID == "" {
		return shellProcessResult{}
	}
	d.recordEnd(call, p)
	return shellProcessResult{
		ProcessID: p.ID, Status: string(p.Status), Note: note(call, p), Command: p.Command, Cwd: p.Cwd,
		StartedAt: p.StartedAt, EndedAt: p.EndedAt,
		ExitCode: exitCode(p), Signal: p.Signal, Reason: string(p.Reason), TimedOut: p.Reason == processes.TimedOut,
		UnreadBytes: &p.Unread,
	}
}

// exitCode returns nil for a process without an exit code.
func exitCode(p processes.Process) *int {
	if p.Status != processes.Exited {
		return nil
	}
	return &p.ExitCode
}

func (d Deps) listed(call *tool.Call, list []processes.Process) shellProcessResult {
	entries := make([]processEntry, 0, len(list))
	for _, p := range list {
		d.recordEnd(call, p)
		entries = append(entries, processEntry{
			ProcessID: p.ID, Status: string(p.Status), Command: p.Command, Cwd: p.Cwd, Agent: p.Agent, StartedAt: p.StartedAt,
			EndedAt:  p.EndedAt,
			ExitCode: exitCode(p), Reason: string(p.Reason), UnreadBytes: p.Unread,
		})
	}
	return shellProcessResult{Processes: &entries}
}
