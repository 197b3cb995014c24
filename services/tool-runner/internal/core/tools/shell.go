package tools

import (
	"context"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/redact"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/pkg/sandbox/env"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// ShellLimits are the limits of the tools that run shell commands. The tools share one implementation and have a
// profile each. Sizes are in bytes.
type ShellLimits struct {
	// CommandBytes and EnvEntries are the maximum sizes of a call's command and environment.
	CommandBytes, EnvEntries int
	// DefaultTimeout, MinTimeout and MaxTimeout limit the time of a command of shell.bash. Grace is the time that the
	// sandbox has to end a command after its timeout, before the call stops waiting for the sandbox.
	DefaultTimeout, MinTimeout, MaxTimeout, Grace time.Duration
	// OutputBytes is the maximum number of kept output bytes, BashOutputBytes the same for the alias bash.
	OutputBytes, BashOutputBytes int
	// AuditRunes is the maximum number of recorded characters of the command.
	AuditRunes int

	// Exec are the limits of shell.exec, Process those of shell.process.
	Exec    ExecLimits
	Process ProcessLimits
}

// shellJob is a command for /bin/sh.
type shellJob struct {
	command  string
	cwd      paths.Path
	env      map[string]string
	timeout  time.Duration
	terminal bool
	// output receives the command's output. stderr receives its standard error separately; nil sends both to output.
	output, stderr func([]byte)
	// refused receives the connections that the cage refused; it may be nil.
	refused func(contract.Attempt)
}

// spec returns the command in the form for the sandbox.
func (d Deps) spec(call *tool.Call, job shellJob) sandbox.Spec {
	environment := env.Build
	if call.From.Cage != nil && !d.NoSandbox {
		environment = env.Caged
	}
	return sandbox.Spec{
		Owner: call.Owner(), Argv: []string{"/bin/sh", "-c", job.command}, Dir: job.cwd.Abs(),
		Env:      environment(d.LookupEnv, job.env),
		Terminal: job.terminal, Stderr: job.stderr, Timeout: job.timeout,
		Cage: call.From.Cage, CageID: call.From.CageID, Root: call.Space.Root(), Refused: job.refused,
	}
}

// execute runs a command to its end and records the run, even if its end stays unknown. It fails if the command was
// ended from outside.
func (d Deps) execute(ctx context.Context, call *tool.Call, job shellJob) (contract.Exit, error) {
	bounded, cancel := context.WithTimeout(ctx, job.timeout+d.Limits.Shell.Grace)
	defer cancel()
	began := time.Now()
	exit, err := d.Commands.Run(bounded, d.spec(call, job), job.output)
	record := audit.Command{
		Line: d.Limits.Shell.recorded(job.command), Cwd: job.cwd.Show, Timeout: job.timeout, Duration: time.Since(began),
	}
	if err == nil {
		if exit.Reason == contract.ReasonTimeout {
			exit.Code = sandbox.KilledCode
		}
		call.CageOver = call.CageOver || call.From.CageID != "" && exit.Reason.EndsCage()
		record.ExitCode, record.TimedOut = &exit.Code, exit.Reason == contract.ReasonTimeout
		record.Duration, record.Killed = exit.Duration, exit.Reason.Word()
		err = tool.EndedBy(exit.Reason)
	} else {
		err = tool.NotExecuted(ctx, err, "The command", job.timeout)
	}
	if err != nil {
		record.Failure = fault.CodeOf(err).String()
	}
	if exit.Started {
		call.Record(audit.ShellExecuted, record.Fields())
	}
	if len(exit.Found) > 0 {
		call.Record(audit.CageFound, audit.Found(exit.Found))
	}
	return exit, err
}

// recorded returns a command in the form for records.
func (l ShellLimits) recorded(command string) string {
	return redact.Shorten(command, l.AuditRunes)
}

// check refuses values that the schema cannot exclude. field is the parameter that names the working directory.
func (l ShellLimits) check(call *tool.Call, field, command string, cwd paths.Path, vars map[string]string) error {
	switch {
	case strings.TrimSpace(command) == "":
		return fault.New(fault.InvalidParams, "The command is empty; command is required.").With("field", "command")
	case strings.ContainsRune(command, 0):
		return fault.New(fault.InvalidParams, "The command holds a NUL.").With("field", "command")
	case !paths.Below(cwd.Abs(), call.Space.Root()):
		return fault.New(fault.InvalidParams, "The working directory %s is outside the project.", cwd.Abs()).
			With("field", field).With("resolved", cwd.Abs())
	case !cwd.Exists || !cwd.Mode.IsDir():
		return fault.New(fault.InvalidParams, "The working directory %s is not a folder.", cwd.Show).
			With("field", field).With("resolved", cwd.Abs())
	}
	return env.Check("env", vars, l.EnvEntries)
}

// command returns a shell command within the limit of its size.
func (l ShellLimits) command(text string, vars map[string]string) []tool.Command {
	return []tool.Command{{Shell: text, Env: vars, MaxBytes: l.CommandBytes}}
}

// clamp returns the time in milliseconds that a caller requests, moved into its limits.
func clamp(asked *schema.Int, byDefault, least, most time.Duration) time.Duration {
	if asked == nil {
		return byDefault
	}
	ms := min(max(int64(*asked), least.Milliseconds()), most.Milliseconds())
	return time.Duration(ms) * time.Millisecond
}
