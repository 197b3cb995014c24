package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/shellguard"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// approving applies the category's rules; the category is per call, not per tool: read-only calls run, changing calls
// run in attended sessions, and the others run only with an operator's grant. In an unattended session a job's policy
// must list the tool of any changing call.
func approving(guard *shellguard.Guard, limit time.Duration) behaviour {
	return func(entry *tool.Entry, next tool.Tool) tool.Tool {
		return wrapped{next, func(ctx context.Context, call *tool.Call) (tool.Result, error) {
			call.System = func(abs string) bool { return guard.SystemPath(abs, call.Space.Root()) != "" }
			category, ask, err := judge(guard, entry, call)
			if err != nil {
				return tool.Result{}, err
			}
			switch {
			case category == tool.Read:
			case call.From.Job != nil:
				if !slices.Contains(call.From.Job.Tools, entry.Name()) {
					return tool.Result{}, unlisted(entry, category, ask)
				}
			case category == tool.Admin:
				// A call that would fail is not asked about, and the question shows the call's changes.
				err := within(ctx, limit, entry, func(ctx context.Context) (err error) {
					ask.Preview, err = entry.Preview(ctx, call)
					return err
				})
				if err != nil {
					return tool.Result{}, err
				}
				if call.Grant != ask.Fingerprint() {
					return tool.Result{}, &tool.NeedsApproval{Approval: *ask}
				}
			}
			return next.Run(ctx, call)
		}}
	}
}

// judge returns the category of one call and the question to the operator. It fails for a blocked command.
func judge(guard *shellguard.Guard, entry *tool.Entry, call *tool.Call) (tool.Category, *contract.Subject, error) {
	effect := entry.Effect(call.Params)
	ask := &contract.Subject{
		Tool: entry.Name(), Agent: call.From.Agent, Reasons: slices.Clip(effect.Reasons), Cage: call.From.Cage.Fingerprint(),
	}
	commands := entry.Commands(call.Params)
	if entry.Named != nil {
		commands = append(commands, entry.Named(call)...)
	}
	for _, c := range commands {
		if err := tooLong(c); err != nil {
			return 0, nil, err
		}
		verdict := judged(guard.In(folder(call), call.Space.Root()), c)
		if verdict.Class == shellguard.Blocked {
			return 0, nil,
				fault.New(fault.CommandBlocked, "The command was not run. %s",
					strings.Join(verdict.Reasons(shellguard.Blocked), " ")).
					With("required", "command:"+verdict.Findings[0].Command)
		}
		ask.Reasons = append(ask.Reasons, verdict.Reasons(shellguard.Destructive)...)
	}
	ask.Command = typed(commands)
	if cage := call.From.Cage; cage != nil && ask.Command != "" {
		ask.Network = slices.Clone(cage.Net)
	}
	i := 0
	for _, need := range call.Needs {
		if need.Kind != tool.FS {
			continue
		}
		path := call.Paths[i]
		i++
		switch {
		case need.Mode != tool.ReadWrite:
		case !need.Alone && !need.Tree:
			ask.Cwd = path.Show
		default:
			ask.Paths = append(ask.Paths, path.Show)
			if rule := guard.SystemPath(path.Abs(), call.Space.Root()); rule != "" {
				ask.Reasons = append(
					ask.Reasons,
					fmt.Sprintf(
						"%s is a system path: what is in %s decides what programs outside the agent's reach do.",
						path.Show,
						rule,
					),
				)
			}
		}
	}
	listed := len(ask.Reasons) > 0
	if call.From.ApproveWrites && effect.Category != tool.Read && len(call.Needs) > 0 {
		ask.Reasons = append(ask.Reasons, askedAtWrites)
	}
	switch {
	case effect.Category == tool.Admin && !listed:
		ask.Reasons = append([]string{fmt.Sprintf("Every call of %s needs approval.", entry.Name())}, ask.Reasons...)
	case len(ask.Reasons) == 0:
		return effect.Category, ask, nil
	case effect.Category != tool.Admin:
		standing(ask, commands, listed)
	}
	return tool.Admin, ask, nil
}

// askedAtWrites is the reason of a question if the project requires approval of each change.
const askedAtWrites = "The project lets this agent change files and run programs only as an operator approves."

// standing returns the kinds of standing approval that a call may get. They cover only what the question shows, so only
// calls determined by the shown command or files qualify: no text typed into a program, and no other parameters.
func standing(ask *contract.Subject, commands []tool.Command, listed bool) {
	switch {
	case len(commands) == 0 && len(ask.Paths) > 0 && !listed:
		ask.Standing = []contract.StandingKind{contract.SameFiles}
	case len(commands) == 1 && commands[0].Shell != "" && !commands[0].Typed && ask.Cwd != "":
		ask.Standing = []contract.StandingKind{contract.SameCommand}
		if words := shellguard.Plain(commands[0].Shell); words != nil && len(commands[0].Env) == 0 {
			ask.Standing, ask.Words = append(ask.Standing, contract.SameWords), words
		}
	}
}

// folder is the folder of a call's commands: the requested one, else the project's.
func folder(call *tool.Call) string {
	i := 0
	for _, need := range call.Needs {
		if need.Kind != tool.FS {
			continue
		}
		if need.Mode == tool.ReadWrite && !need.Alone && !need.Tree {
			return call.Paths[i].Abs()
		}
		i++
	}
	return call.Space.Root()
}

// tooLong refuses a text beyond the size that its tool takes.
func tooLong(c tool.Command) error {
	if c.MaxBytes == 0 || len(c.Shell) <= c.MaxBytes {
		return nil
	}
	field := "command"
	if c.Typed {
		field = "input"
	}
	return fault.New(fault.InvalidParams, "The %s is longer than %d bytes.", field, c.MaxBytes).With("field", field)
}

func judged(guard *shellguard.Guard, c tool.Command) shellguard.Verdict {
	switch {
	case c.Typed:
		return guard.Typed(c.Shell)
	case c.Shell != "":
		return guard.Text(c.Shell)
	}
	return guard.Argv(c.Argv)
}

// typed formats commands in shell syntax, with the caller's variables, because these decide the effect of a command as
// much as its words.
func typed(commands []tool.Command) string {
	var texts []string
	for _, c := range commands {
		if len(c.Env) > 0 {
			var vars []string
			for _, name := range slices.Sorted(maps.Keys(c.Env)) {
				vars = append(vars, name+"="+c.Env[name])
			}
			texts = append(texts, "export "+shellguard.Quote(vars))
		}
		if c.Shell != "" {
			texts = append(texts, c.Shell)
			continue
		}
		texts = append(texts, shellguard.Quote(c.Argv))
	}
	return strings.Join(texts, "\n")
}

// unlisted refuses a call in an unattended session.
func unlisted(entry *tool.Entry, category tool.Category, ask *contract.Subject) error {
	why := "it changes something"
	if category == tool.Admin {
		why = strings.TrimSuffix(ask.Reasons[0], ".")
	}
	return fault.New(fault.ApprovalRequired, "The job's policy does not list %s and nobody attends: %s.", entry.Name(),
		why).
		With("required", "approval:"+entry.Name())
}
