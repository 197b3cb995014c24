package clitools

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/redact"
	"kaged.dev/pkg/sandbox"
	"kaged.dev/pkg/sandbox/env"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/audit"
	"kaged.dev/services/tool-runner/internal/core/schema"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// Limits are the limits of these tools; sizes are in bytes.
type Limits struct {
	// Timeout is the time limit of a program if its entry sets none. Grace is the time after it in which the sandbox must
	// end the program before the call fails.
	Timeout, Grace time.Duration
	// OutputBytes limits the retained output of a program, for each of its two streams, if its entry sets no limit.
	OutputBytes int
	// ValueBytes limits one value of a call.
	ValueBytes int
	// AuditRunes is the recorded length of the command line.
	AuditRunes int
}

// Deps are the dependencies of these tools.
type Deps struct {
	// Commands runs programs.
	Commands sandbox.Runner
	// LookupEnv reads kaged's own environment.
	LookupEnv func(string) (string, bool)
	// NoSandbox means that commands of caged agents run without their cage.
	NoSandbox bool
	Limits    Limits
}

// Result is the answer of a call.
type Result struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
	Killed   string `json:"killed,omitempty" enum:"oom,pids,walltime,disk,seccomp" doc:"The limit of the agent's cage that ended the program."`
	Note     string `json:"note,omitempty" doc:"What that means, in a sentence."`
}

// categories are the names of categories in the file.
var categories = map[string]tool.Category{"read": tool.Read, "write": tool.Write, "admin": tool.Admin}

// entry returns the catalogue's entry for a command.
func (d Deps) entry(c dsl.Command) (*tool.Entry, error) {
	input, err := schema.New(document(&c))
	if err != nil {
		return nil, fault.Wrap(
			err,
			fault.LocalConfigInvalid,
			"%s: The parameters of %s are no JSON Schema: %v.",
			c.Pos,
			c.Name,
			err,
		)
	}
	if c.Timeout == 0 {
		c.Timeout = d.Limits.Timeout
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = int64(d.Limits.OutputBytes)
	}
	t := cliTool{Deps: d, command: &c}
	entry := tool.DefineWith(tool.Spec[tool.Values, Result]{
		Name: Namespace + "." + c.Name, Description: c.Description, Category: categories[c.Category],
		Parallel: c.Category == "read", OwnTimeout: true,
		Requires: []tool.Requirement{tool.Can("exec")},
		Commands: t.commands,
		// A call that would fail needs no approval.
		Preview: func(_ context.Context, _ *tool.Call, values *tool.Values) (string, error) {
			_, err := t.usable(*values)
			return "", err
		},
		Aliases: []tool.Alias{tool.AliasWith(c.Name, c.Description, input)},
		Limits:  t.limits(),
		Run:     t.run,
	}, input)
	entry.Source = tool.CLI
	entry.Unavailable = t.unavailable
	return entry, nil
}

// document is the JSON Schema of a command's parameters.
func document(c *dsl.Command) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, p := range c.Parameters {
		property := map[string]any{"type": p.Type}
		for keyword, value := range map[string]string{"description": p.Description, "pattern": p.Pattern} {
			if value != "" {
				property[keyword] = value
			}
		}
		for keyword, value := range map[string]*int64{"minLength": p.MinLength, "maxLength": p.MaxLength} {
			if value != nil {
				property[keyword] = *value
			}
		}
		for keyword, value := range map[string]*float64{"minimum": p.Minimum, "maximum": p.Maximum} {
			if value != nil {
				property[keyword] = *value
			}
		}
		if len(p.Enum) > 0 {
			property["enum"] = p.Enum
		}
		if p.Default != nil {
			property["default"] = p.Default
		}
		if !p.Optional {
			required = append(required, p.Name)
		}
		properties[p.Name] = property
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// cliTool is one command of the file.
type cliTool struct {
	Deps
	command *dsl.Command
}

func (t cliTool) limits() []tool.Limit {
	key := func(set bool, name string) string {
		if set {
			return name
		}
		return ""
	}
	return []tool.Limit{
		tool.InTime(key(t.command.Timeout == t.Limits.Timeout, "cli_timeout"), t.command.Timeout, "of one call"),
		tool.InBytes(
			key(t.command.MaxOutput == int64(t.Limits.OutputBytes), "cli_output_bytes"),
			t.command.MaxOutput,
			"of each output stream that are kept",
		),
		tool.InBytes("cli_value_bytes", t.Limits.ValueBytes, "of one value"),
	}
}

// commands returns the command of a call, nil if its values are invalid.
func (t cliTool) commands(values *tool.Values) []tool.Command {
	argv, err := t.argv(t.command, *values)
	if err != nil {
		return nil
	}
	return []tool.Command{{Argv: argv}}
}

// reference is a variable of kaged's own environment in a declared value.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// declared returns the operator's declared variables, with kaged's own inserted, and the names of unset ones.
func (t cliTool) declared() (vars map[string]string, missing []string) {
	vars = make(map[string]string, len(t.command.Env))
	for name, value := range t.command.Env {
		vars[name] = reference.ReplaceAllStringFunc(value, func(ref string) string {
			own, ok := t.LookupEnv(ref[2 : len(ref)-1])
			if !ok {
				missing = append(missing, ref[2:len(ref)-1])
			}
			return own
		})
	}
	slices.Sort(missing)
	return vars, slices.Compact(missing)
}

// unavailable returns the reason why every call fails here, nil if calls can succeed.
func (t cliTool) unavailable() *fault.Error {
	if _, missing := t.declared(); len(missing) > 0 {
		return fault.New(fault.LocalConfigInvalid, "%s needs the variable %s, which is not set where kaged runs.",
			t.command.Name, strings.Join(missing, ", ")).With("variables", strings.Join(missing, " "))
	}
	return nil
}

// environment is the program's environment. Programs are not looked up below the project or relative to it, because
// agents can write there.
func (t cliTool) environment(root string, caged bool) map[string]string {
	declared, _ := t.declared()
	vars := env.Build(t.LookupEnv, declared)
	if caged {
		vars = env.Caged(t.LookupEnv, declared)
	}
	var dirs []string
	for _, dir := range filepath.SplitList(vars["PATH"]) {
		if filepath.IsAbs(dir) && !paths.Below(filepath.Clean(dir), root) {
			dirs = append(dirs, dir)
		}
	}
	vars["PATH"] = strings.Join(dirs, string(filepath.ListSeparator))
	return vars
}

// usable returns the program and its arguments, or the reason why a call with these values always fails.
func (t cliTool) usable(values tool.Values) ([]string, error) {
	argv, err := t.argv(t.command, values)
	if err != nil {
		return nil, err
	}
	if why := t.unavailable(); why != nil {
		return nil, why
	}
	return argv, nil
}

// run runs the program and returns its output and its end.
func (t cliTool) run(ctx context.Context, call *tool.Call, values *tool.Values) (Result, error) {
	argv, err := t.usable(*values)
	if err != nil {
		return Result{}, err
	}
	timeout := t.command.Timeout
	stdout := text.NewScreen(int(t.command.MaxOutput), func(s string) { call.Emit("stdout", s) })
	stderr := text.NewScreen(int(t.command.MaxOutput), func(s string) { call.Emit("stderr", s) })
	bounded, cancel := context.WithTimeout(ctx, timeout+t.Limits.Grace)
	defer cancel()
	began := time.Now()
	exit, err := t.Commands.Run(bounded, sandbox.Spec{
		Owner: call.Owner(), Argv: argv, Dir: call.Space.Root(), Timeout: timeout, Stderr: stderr.Write,
		Env:  t.environment(call.Space.Root(), call.From.Cage != nil && !t.NoSandbox),
		Cage: call.From.Cage, CageID: call.From.CageID, Root: call.Space.Root(),
	}, stdout.Write)
	record := audit.Command{
		Line: redact.Shorten(
			strings.Join(argv, " "),
			t.Limits.AuditRunes,
		),
		Cwd: "./", Timeout: timeout, Duration: time.Since(began),
	}
	if err != nil {
		err = t.failure(ctx, err)
		if record.Failure = fault.CodeOf(err).String(); exit.Started {
			call.Record(audit.ShellExecuted, record.Fields())
		}
		return Result{}, err
	}
	call.CageOver = call.CageOver || call.From.CageID != "" && exit.Reason.EndsCage()
	result := Result{
		Stdout: stdout.Finish(), Stderr: stderr.Finish(), ExitCode: exit.Code, Killed: exit.Reason.Word(),
		Note: sandbox.Explain(exit.Reason, call.From.Cage),
	}
	record.TimedOut, record.Duration, record.Killed = exit.Reason == contract.ReasonTimeout, exit.Duration, result.Killed
	if record.TimedOut {
		result.ExitCode = sandbox.KilledCode
	}
	record.ExitCode = &result.ExitCode
	if err = t.ended(exit.Reason, result); err != nil {
		record.Failure = fault.CodeOf(err).String()
	}
	call.Record(audit.ShellExecuted, record.Fields())
	if len(exit.Found) > 0 {
		call.Record(audit.CageFound, audit.Found(exit.Found))
	}
	return result, err
}

// failure converts the error of a call without an exit.
func (t cliTool) failure(ctx context.Context, err error) error {
	if errors.Is(err, fault.ShellSpawnFailed) && ctx.Err() == nil {
		return fault.Wrap(
			err,
			fault.ShellSpawnFailed,
			"The program %s cannot be started: %s",
			t.command.Program,
			fault.From(err).Msg,
		)
	}
	return tool.NotExecuted(ctx, err, t.command.Name, t.command.Timeout)
}

// ended returns an error for a program that was ended from outside.
func (t cliTool) ended(reason contract.Reason, so Result) error {
	if reason == contract.ReasonTimeout {
		return fault.New(fault.Timeout, "%s was stopped after %s.", t.command.Name, t.command.Timeout).
			With("stdout", so.Stdout).With("stderr", so.Stderr).With("exit_code", so.ExitCode)
	}
	return tool.EndedBy(reason)
}
