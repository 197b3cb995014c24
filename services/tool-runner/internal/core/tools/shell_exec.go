package tools

import (
	"context"
	_ "embed"
	"math"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/redact"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/processes"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed shell_exec.md
var shellExecText string

//go:embed exec.md
var execText string

// ExecLimits are the limits of shell.exec.
type ExecLimits struct {
	// DefaultTimeout, MinTimeout and MaxTimeout limit the time of a command, in the background too.
	DefaultTimeout, MinTimeout, MaxTimeout time.Duration
	// OutputRunes is the maximum number of characters of output in the answer.
	OutputRunes int
}

type shellExecParams struct {
	Command    string            `json:"command" doc:"Shell command, given to /bin/sh -c."`
	Cwd        string            `json:"cwd,omitempty" default:"." doc:"Working directory relative to the project root. Default: the project root."`
	Env        map[string]string `json:"env,omitempty" doc:"Additional environment variables, at most 64."`
	Background bool              `json:"background,omitempty" doc:"Return at once and let the command run on as a background process; see shell.process."`
	Terminal   bool              `json:"terminal,omitempty" doc:"Give the command a terminal, for programs that want one. Standard output and standard error are then one."`
	Timeout    *schema.Int       `json:"timeout,omitempty" doc:"Milliseconds the command may run. Default: 1800000 (30 minutes); clamped to 10000 to 86400000."`

	field string // the caller's name for cwd
}

// execParams are the parameters of the flat name, with workdir instead of cwd, and seconds.
type execParams struct {
	Command    string            `json:"command" doc:"Shell command, given to /bin/sh -c."`
	Workdir    string            `json:"workdir,omitempty" default:"." doc:"Working directory relative to the project root. Default: the project root."`
	Env        map[string]string `json:"env,omitempty" doc:"Additional environment variables, at most 64."`
	Background bool              `json:"background,omitempty" doc:"Return at once and let the command run on as a background process; see process."`
	Timeout    *schema.Int       `json:"timeout,omitempty" doc:"Seconds the command may run. Default: 1800 (30 minutes); at least 10."`
}

type shellExecResult struct {
	Status         string    `json:"status" enum:"exited,running"`
	ProcessID      string    `json:"process_id,omitempty" doc:"Of a background process: what shell.process takes."`
	Stdout         string    `json:"stdout"`
	Stderr         string    `json:"stderr"`
	ExitCode       *int      `json:"exit_code,omitempty" doc:"Absent while the command runs."`
	TimedOut       bool      `json:"timed_out"`
	Killed         string    `json:"killed,omitempty" enum:"oom,pids,walltime,disk,seccomp" doc:"The limit of the agent's cage that ended the command."`
	Note           string    `json:"note,omitempty" doc:"What that means, in a sentence."`
	NetworkRefused []refusal `json:"network_refused,omitempty" doc:"Connections that the agent's cage refused while the command ran. Commands that run side by side share its network, so one may be another's."`
}

func shellExec(d Deps) *tool.Entry {
	limits := d.Limits.Shell.Exec
	return tool.Define(tool.Spec[shellExecParams, shellExecResult]{
		Name: "shell.exec", Description: shellExecText, Category: tool.Write, OwnTimeout: true,
		Requires: []tool.Requirement{tool.Can("shell"), tool.WorkIn("cwd", tool.CallerPath)},
		Needs: func(p *shellExecParams) []tool.Requirement {
			return []tool.Requirement{tool.Can("shell"), tool.WorkIn(p.cwdField(), p.Cwd)}
		},
		Commands: func(p *shellExecParams) []tool.Command { return d.Limits.Shell.command(p.Command, p.Env) },
		Preview: func(_ context.Context, call *tool.Call, p *shellExecParams) (string, error) {
			return "", d.Limits.Shell.check(call, p.cwdField(), p.Command, call.Paths[0], p.Env)
		},
		Aliases: []tool.Alias{
			tool.AliasOf("exec", execText, func(p execParams) shellExecParams {
				return shellExecParams{
					Command: p.Command, Cwd: p.Workdir, Env: p.Env, Background: p.Background, Timeout: fromSeconds(p.Timeout),
					field: "workdir",
				}
			}),
		},
		Limits: []tool.Limit{
			tool.InTime("exec_timeout", limits.DefaultTimeout, "of a command whose caller does not say"),
			tool.InTime("exec_min_timeout", limits.MinTimeout, "that a caller can ask for at least"),
			tool.InTime("exec_max_timeout", limits.MaxTimeout, "that a caller can ask for at most"),
			tool.InNumber("exec_output_chars", limits.OutputRunes, "characters of output"),
			tool.InBytes("shell_command_bytes", d.Limits.Shell.CommandBytes, "of a command"),
			tool.InNumber("shell_env_entries", d.Limits.Shell.EnvEntries, "variables of a call"),
		},
		Run: d.runExec,
	})
}

func (p *shellExecParams) cwdField() string {
	if p.field != "" {
		return p.field
	}
	return "cwd"
}

// fromSeconds converts a number of seconds to milliseconds, limited to the range of the type.
func fromSeconds(n *schema.Int) *schema.Int {
	if n == nil {
		return nil
	}
	ms := min(max(*n, math.MinInt64/1000), math.MaxInt64/1000) * 1000
	return &ms
}

// runExec runs a command to its end, or starts it as a background process.
func (d Deps) runExec(ctx context.Context, call *tool.Call, p *shellExecParams) (shellExecResult, error) {
	cwd, limits := call.Paths[0], d.Limits.Shell.Exec
	if err := d.Limits.Shell.check(call, p.cwdField(), p.Command, cwd, p.Env); err != nil {
		return shellExecResult{}, err
	}
	job := shellJob{
		command: p.Command, cwd: cwd, env: p.Env, terminal: p.Terminal,
		timeout: clamp(p.Timeout, limits.DefaultTimeout, limits.MinTimeout, limits.MaxTimeout),
	}
	if p.Background {
		return d.startProcess(ctx, call, job)
	}
	stdout := text.NewEnds(limits.OutputRunes, p.Terminal, func(s string) { call.Emit("stdout", s) })
	stderr := text.NewEnds(limits.OutputRunes, p.Terminal, func(s string) { call.Emit("stderr", s) })
	var refused refusals
	job.output, job.stderr, job.refused = stdout.Write, stderr.Write, refused.add
	exit, err := d.execute(ctx, call, job)
	if err != nil {
		return shellExecResult{}, err
	}
	stdout.Finish()
	stderr.Finish()
	result := shellExecResult{
		Status: string(processes.Exited), ExitCode: &exit.Code, TimedOut: exit.Reason == contract.ReasonTimeout,
	}
	result.Stdout, result.Stderr = share(stdout, stderr, limits.OutputRunes)
	result.Killed, result.Note, result.NetworkRefused = exit.Reason.Word(), sandbox.Explain(exit.Reason, call.From.Cage),
		refused
	return result, nil
}

// share returns the ends of two outputs with together at most limit characters, without notes. The longer one is cut
// first.
func share(stdout, stderr *text.Ends, limit int) (string, string) {
	half := limit / 2
	switch out, err := stdout.Len(), stderr.Len(); {
	case out+err <= limit:
		return stdout.Text(limit), stderr.Text(limit)
	case err <= half:
		return stdout.Text(limit - err), stderr.Text(err)
	case out <= half:
		return stdout.Text(out), stderr.Text(limit - out)
	}
	return stdout.Text(half), stderr.Text(limit - half)
}

// startProcess starts a command that outlives the call.
func (d Deps) startProcess(ctx context.Context, call *tool.Call, job shellJob) (shellExecResult, error) {
	shown := redact.Shorten(job.command, commandShown)
	p, err := d.Processes.Start(ctx, processes.Process{
		Session: call.From.SessionID, Run: call.From.RunID, Call: call.ID, Agent: call.From.Agent,
		Command: shown, Cwd: job.cwd.Show, Terminal: job.terminal, Timeout: job.timeout,
	}, d.spec(call, job))
	if err != nil {
		return shellExecResult{}, tool.NotExecuted(ctx, err, "The command", d.Limits.Shell.Grace)
	}
	call.Record(audit.ProcessStarted, map[string]any{
		"process_id": p.ID, "command": d.Limits.Shell.recorded(job.command), "cwd": job.cwd.Show,
		"timeout_ms": job.timeout.Milliseconds(),
	})
	return shellExecResult{Status: string(p.Status), ProcessID: p.ID}, nil
}

// commandShown is the maximum number of characters of a process's command that are kept for display.
const commandShown = 1000
