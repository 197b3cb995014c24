package tools

import (
	"context"
	_ "embed"
	"errors"
	"strings"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/command"
	"kaged.dev/services/tool-runner/internal/core/env"
	"kaged.dev/services/tool-runner/internal/core/paths"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/text"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed shell_bash.md
var shellBashText string

// ShellLimits are the bounds of shell.bash; sizes are bytes.
type ShellLimits struct {
	// CommandBytes and EnvEntries bound what a call may hold.
	CommandBytes, EnvEntries int
	// DefaultTimeout, MinTimeout and MaxTimeout are the time a command may run. Grace is how long after that the sandbox may
	// take to end it before the call gives up on the sandbox.
	DefaultTimeout, MinTimeout, MaxTimeout, Grace time.Duration
	// OutputBytes is how much output is kept, BashOutputBytes the same for the alias bash.
	OutputBytes, BashOutputBytes int
	// AuditRunes is how much of the command is recorded.
	AuditRunes int
}

type shellBashParams struct {
	Command string            `json:"command" doc:"Shell command, given to /bin/sh -c."`
	Cwd     string            `json:"cwd,omitempty" default:"." doc:"Working directory relative to the project root. Default: the project root."`
	Timeout *schema.Int       `json:"timeout,omitempty" doc:"Milliseconds the command may run. Default: 120000; clamped to 1000 to 600000."`
	Env     map[string]string `json:"env,omitempty" doc:"Additional environment variables, at most 64."`

	outputBytes int // set by the alias bash
}

type shellBashResult struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
	TimedOut bool   `json:"timed_out"`
}

// killedCode is the exit code of a command that was ended for taking too long, whatever signal it died of.
const killedCode = 137

func shellBash(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[shellBashParams, shellBashResult]{
		Name: "shell.bash", Description: shellBashText, Category: tool.Write, OwnTimeout: true,
		Requires: []tool.Requirement{tool.Can("shell"), tool.WorkIn("cwd", tool.CallerPath)},
		Needs: func(p *shellBashParams) []tool.Requirement {
			return []tool.Requirement{tool.Can("shell"), tool.WorkIn("cwd", p.Cwd)}
		},
		Commands: func(p *shellBashParams) []tool.Command { return []tool.Command{{Shell: p.Command}} },
		Aliases: []tool.Alias{
			tool.AliasOf("bash", shellBashText, func(p shellBashParams) shellBashParams {
				p.outputBytes = d.Limits.Shell.BashOutputBytes
				return p
			}),
		},
		Limits: []tool.Limit{
			tool.InTime("shell_timeout", d.Limits.Shell.DefaultTimeout, "of a command whose caller does not say"),
			tool.InTime("shell_min_timeout", d.Limits.Shell.MinTimeout, "that a caller can ask for at least"),
			tool.InTime("shell_max_timeout", d.Limits.Shell.MaxTimeout, "that a caller can ask for at most"),
			tool.InBytes("shell_output_bytes", d.Limits.Shell.OutputBytes, "of output that is kept"),
			tool.InBytes("bash_output_bytes", d.Limits.Shell.BashOutputBytes, "of output that is kept for the alias bash"),
			tool.InBytes("shell_command_bytes", d.Limits.Shell.CommandBytes, "of a command"),
			tool.InNumber("shell_env_entries", d.Limits.Shell.EnvEntries, "variables of a call"),
		},
		Run: d.runShell,
	})
}

// runShell runs a command in a terminal and answers with what it printed and how it ended.
func (d Deps) runShell(ctx context.Context, call *tool.Call, p *shellBashParams) (shellBashResult, error) {
	cwd := call.Paths[0]
	if err := p.check(cwd, call, d.Limits.Shell); err != nil {
		return shellBashResult{}, err
	}
	limits := d.Limits.Shell
	timeout := limits.clamp(p.Timeout)
	keep := limits.OutputBytes
	if p.outputBytes > 0 {
		keep = p.outputBytes
	}
	screen := text.NewScreen(keep, func(s string) { call.Emit("stdout", s) })
	bounded, cancel := context.WithTimeout(ctx, timeout+limits.Grace)
	defer cancel()
	exit, err := d.Commands.Run(bounded, command.Spec{
		Owner: command.Owner{
			SessionID: call.From.SessionID, RunID: call.From.RunID, CallID: call.ID, ProjectID: call.From.ProjectID,
		},
		Argv: []string{"/bin/sh", "-c", p.Command}, Dir: cwd.Abs(), Env: env.Build(d.LookupEnv, p.Env),
		Terminal: true, Timeout: timeout, Cage: call.From.Cage, Root: call.Space.Root(),
	}, screen.Write)
	if err != nil {
		return shellBashResult{}, shellFailure(ctx, err, timeout)
	}
	result := shellBashResult{Stdout: screen.Finish(), ExitCode: exit.Code, TimedOut: exit.Reason == command.TimedOut}
	if result.TimedOut {
		result.ExitCode = killedCode
	}
	call.Record(audit.ShellExecuted, map[string]any{
		"command": audit.Shorten(p.Command, limits.AuditRunes), "cwd": cwd.Show, "exit_code": result.ExitCode,
		"timed_out": result.TimedOut, "timeout_ms": timeout.Milliseconds(), "duration_ms": exit.Duration.Milliseconds(),
	})
	return result, endedBy(exit.Reason)
}

// check refuses what the schema cannot tell.
func (p *shellBashParams) check(cwd paths.Path, call *tool.Call, limits ShellLimits) error {
	switch {
	case strings.TrimSpace(p.Command) == "":
		return fault.New(fault.InvalidParams, "The command is empty; command is required.").With("field", "command")
	case len(p.Command) > limits.CommandBytes:
		return fault.New(fault.InvalidParams, "The command is longer than %d bytes.", limits.CommandBytes).With("field", "command")
	case strings.ContainsRune(p.Command, 0):
		return fault.New(fault.InvalidParams, "The command holds a NUL.").With("field", "command")
	case !paths.Below(cwd.Abs(), call.Space.Root()):
		return fault.New(fault.InvalidParams, "The working directory %s is outside the project.", cwd.Abs()).
			With("field", "cwd").With("resolved", cwd.Abs())
	case !cwd.Exists || !cwd.Mode.IsDir():
		return fault.New(fault.InvalidParams, "The working directory %s is not a folder.", cwd.Show).
			With("field", "cwd").With("resolved", cwd.Abs())
	}
	return env.Check("env", p.Env, limits.EnvEntries)
}

func (l ShellLimits) clamp(asked *schema.Int) time.Duration {
	if asked == nil {
		return l.DefaultTimeout
	}
	ms := min(max(int64(*asked), l.MinTimeout.Milliseconds()), l.MaxTimeout.Milliseconds())
	return time.Duration(ms) * time.Millisecond
}

// shellFailure sorts out why there is no exit: what the model can act on is a result, that nobody could be asked is not.
func shellFailure(ctx context.Context, err error, timeout time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(err, fault.Timeout, "The command ran longer than %s and the sandbox did not report its end.", timeout)
	case errors.Is(err, fault.ShellSpawnFailed), errors.Is(err, fault.CageUnavailable), errors.Is(err, fault.Interrupted),
		errors.Is(err, fault.InvalidParams):
		return err
	}
	return tool.Infrastructure(err)
}

// endedBy returns an error for a command that was ended for a reason that is not its own.
func endedBy(reason command.Reason) error {
	switch reason {
	case command.Cancelled, command.OwnerEnded:
		return tool.Infrastructure(fault.New(fault.Cancelled, "The command was cancelled."))
	case command.Lost:
		return fault.New(fault.Interrupted, "The command was cut off because its sandbox went away; what it had done is done.")
	}
	return nil
}
