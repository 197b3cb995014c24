package tools

import (
	"context"
	_ "embed"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

//go:embed shell_bash.md
var shellBashText string

type shellBashParams struct {
	Command string            `json:"command" doc:"Shell command, given to /bin/sh -c."`
	Cwd     string            `json:"cwd,omitempty" default:"." doc:"Working directory relative to the project root. Default: the project root."`
	Timeout *schema.Int       `json:"timeout,omitempty" doc:"Milliseconds the command may run. Default: 120000; clamped to 1000 to 600000."`
	Env     map[string]string `json:"env,omitempty" doc:"Additional environment variables, at most 64."`

	outputBytes int // set by the alias bash
}

type shellBashResult struct {
	Stdout         string    `json:"stdout"`
	Stderr         string    `json:"stderr"`
	ExitCode       int       `json:"exit_code"`
	TimedOut       bool      `json:"timed_out"`
	Killed         string    `json:"killed,omitempty" enum:"oom,pids,walltime,disk,seccomp" doc:"The limit of the agent's cage that ended the command."`
	Note           string    `json:"note,omitempty" doc:"What that means, in a sentence."`
	NetworkRefused []refusal `json:"network_refused,omitempty" doc:"Connections that the agent's cage refused while the command ran. Commands that run side by side share its network, so one may be another's."`
}

func shellBash(d Deps) *tool.Entry {
	return tool.Define(tool.Spec[shellBashParams, shellBashResult]{
		Name: "shell.bash", Description: shellBashText, Category: tool.Write, OwnTimeout: true,
		Requires: []tool.Requirement{tool.Can("shell"), tool.WorkIn("cwd", tool.CallerPath)},
		Needs: func(p *shellBashParams) []tool.Requirement {
			return []tool.Requirement{tool.Can("shell"), tool.WorkIn("cwd", p.Cwd)}
		},
		Commands: func(p *shellBashParams) []tool.Command { return d.Limits.Shell.command(p.Command, p.Env) },
		// Approval is not requested for a command that would be refused.
		Preview: func(_ context.Context, call *tool.Call, p *shellBashParams) (string, error) {
			return "", d.Limits.Shell.check(call, "cwd", p.Command, call.Paths[0], p.Env)
		},
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

// runShell runs a command in a terminal and returns its output and exit status.
func (d Deps) runShell(ctx context.Context, call *tool.Call, p *shellBashParams) (shellBashResult, error) {
	cwd := call.Paths[0]
	if err := d.Limits.Shell.check(call, "cwd", p.Command, cwd, p.Env); err != nil {
		return shellBashResult{}, err
	}
	limits := d.Limits.Shell
	timeout := clamp(p.Timeout, limits.DefaultTimeout, limits.MinTimeout, limits.MaxTimeout)
	keep := limits.OutputBytes
	if p.outputBytes > 0 {
		keep = p.outputBytes
	}
	screen := text.NewScreen(keep, func(s string) { call.Emit("stdout", s) })
	var refused refusals
	exit, err := d.execute(ctx, call, shellJob{
		command: p.Command, cwd: cwd, env: p.Env, timeout: timeout, terminal: true, output: screen.Write,
		refused: refused.add,
	})
	if err != nil {
		return shellBashResult{}, err
	}
	result := shellBashResult{
		Stdout: screen.Finish(), ExitCode: exit.Code, TimedOut: exit.Reason == contract.ReasonTimeout,
	}
	result.Killed, result.Note, result.NetworkRefused = exit.Reason.Word(), sandbox.Explain(exit.Reason, call.From.Cage),
		refused
	return result, nil
}
