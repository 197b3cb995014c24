package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	"kaged.dev/services/kaged/internal/cli/kit"
	"kaged.dev/services/kaged/internal/workbench"
)

const (
	// maxInput is the maximum size of the JSON of one call in bytes.
	maxInput = 64 << 20
	// garbage is how far the heap may grow beyond the live objects, in percent. These are a few MB: with the default a
	// collection interrupts one of 200 calls.
	garbage = 400
)

func toolsCall(a kit.App, p *kit.Places) *cobra.Command {
	var f Flags
	var strict, yes bool
	cmd := &cobra.Command{
		Use:   "call [flags] NAME [JSON|-]",
		Short: "Call a tool and print its result",
		Long: "Calls a tool of the catalogue, or one by an alias, with parameters as JSON, and prints its " +
			"result\n" +
			"as one line of JSON. `-` for JSON reads it from standard input; `-` for NAME reads one call per\n" +
			"line, {\"tool\": NAME, \"params\": {...}}, and makes all calls in one session. The output of a " +
			"running\n" +
			"command goes to stderr. No daemon is needed; background processes of a call end with the last\n" +
			"call.\n\n" +
			"You have every tool and no cage; with --agent you have that agent's tools and cage, but `state:\n" +
			"persistent` has no effect: the home starts empty and is removed with the cage of the call. Files\n" +
			"named in the call count as already read; --strict enforces read-before-edit as for agents. A call\n" +
			"that needs approval is asked about on a terminal. Without a terminal it is denied.\n\n" +
			"Exits 0 when every call succeeded, 1 when one failed, named no tool or had invalid parameters (the " +
			"result is then\n" +
			"{\"error\": ...}), 2 when there is no such project or agent or its file does not compile, 3 when " +
			"kaged itself failed.\n" +
			"Every call is recorded in " + workbench.AuditFile + " in the data directory.",
		Example: "  kaged tools call search.grep '{\"pattern\": \"TODO\", \"output_mode\": \"count\"}'\n" +
			"  kaged tools call shell.bash '{\"command\": \"go test ./...\"}'\n" +
			"  kaged tools call --agent primary.subagents.reviewer file.write '{\"path\": \"x\", \"content\": \"\"}'",
		Args: func(cmd *cobra.Command, list []string) error {
			switch len(list) {
			case 0:
				return kit.Misused(cmd, "a tool's name is needed, or - to read calls from standard input")
			case 1, 2:
				return nil
			}
			return kit.Misused(
				cmd,
				"a call is a name and its parameters as one JSON text, not %s: put it in quotes",
				kit.Count(len(list), "argument", "arguments"),
			)
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			next, err := calls(a, list)
			if err != nil {
				return err
			}
			if a.Getenv("GOGC") == "" {
				defer debug.SetGCPercent(debug.SetGCPercent(garbage))
			}
			record, err := workbench.OpenAudit(p.DataDir.String())
			if err != nil {
				return infrastructure(err)
			}
			defer record.Close()
			f.Project = a.ProjectOf(cmd, f.Project)
			b, err := Bench(a, p, f, p.DataDir)
			if err != nil {
				return notStarted(err)
			}
			c := caller{app: a, bench: b, record: record, yes: yes, progress: a.Stderr}
			err = c.run(cmd.Context(), f.agent, strict, next)
			return errors.Join(err, infrastructure(b.Close()))
		},
	}
	f.add(cmd, "call as this agent of the project, by its tree path: with its tools, in its cage")
	cmd.Flags().BoolVar(&strict, "strict", false, "enforce read-before-edit, as for agents")
	cmd.Flags().BoolVar(&yes, "yes", false,
		"approve every call that needs approval, and the programs that the project file names for code.lsp and debug")
	return cmd
}

// toolCall is one requested call. wrong is the reason why it is invalid.
type toolCall struct {
	tool, input string
	wrong       error
}

// calls returns a function that yields the calls of the arguments, and io.EOF at their end.
func calls(a kit.App, list []string) (func() (toolCall, error), error) {
	switch {
	case list[0] == "-" && len(list) > 1:
		return nil, kit.Usage("with - for NAME the calls are read from standard input, and nothing may follow")
	case list[0] == "-":
		return callLines(a), nil
	}
	call := toolCall{tool: list[0]}
	if len(list) > 1 {
		call.input = list[1]
	}
	if call.input == "-" {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxInput+1))
		if err != nil {
			return nil, infrastructure(fault.Wrap(err, fault.BadRequest, "Standard input cannot be read."))
		}
		if len(data) > maxInput {
			return nil, kit.Usage("the parameters are longer than %d bytes", maxInput)
		}
		call.input = string(data)
	}
	given := false
	return func() (toolCall, error) {
		if given {
			return toolCall{}, io.EOF
		}
		given = true
		return call, nil
	}, nil
}

// callLines yields the calls of standard input, one per line. It skips blank lines.
func callLines(a kit.App) func() (toolCall, error) {
	lines := bufio.NewScanner(a.Stdin)
	lines.Buffer(make([]byte, 0, 64<<10), maxInput)
	number := 0
	return func() (toolCall, error) {
		for lines.Scan() {
			number++
			if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
				return callOf(line, number), nil
			}
		}
		if err := lines.Err(); err != nil {
			return toolCall{}, infrastructure(
				fault.Wrap(err, fault.BadRequest, "Line %d of standard input cannot be read: %v.", number+1, err),
			)
		}
		return toolCall{}, io.EOF
	}
}

func callOf(line []byte, number int) toolCall {
	var c struct {
		Tool   *string         `json:"tool"`
		Params json.RawMessage `json:"params"`
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	err := dec.Decode(&c)
	switch {
	case err != nil:
		err = fault.New(fault.BadRequest, "Line %d is no call: %v.", number, err)
	case dec.More():
		err = fault.New(fault.BadRequest, "Line %d holds more than one call.", number)
	case c.Tool == nil:
		err = fault.New(fault.BadRequest, `Line %d is no call: it has no "tool".`, number)
	}
	if err != nil {
		return toolCall{wrong: fault.From(err).With("line", number)}
	}
	return toolCall{tool: *c.Tool, input: string(c.Params)}
}

// caller runs the calls of one command.
type caller struct {
	app    kit.App
	bench  *workbench.Bench
	record *workbench.Audit
	yes    bool
	// progress receives the output of running commands.
	progress io.Writer
}

// run runs all calls, one after the other, and fails if one failed.
func (c caller) run(ctx context.Context, agent string, strict bool, next func() (toolCall, error)) error {
	as, err := c.identity(ctx, agent)
	if err != nil {
		return err
	}
	as.KnowsFiles = !strict
	leftOut := c.leaveOut(&as)
	failed := false
	for {
		call, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if leftOut && slices.Contains(programTools, call.tool) {
			leftOut = false
			c.app.Warn([]string{leftOutText})
		}
		content, ok, err := c.call(ctx, as, call)
		if err != nil {
			return err
		}
		failed = failed || !ok
		if _, err := fmt.Fprintln(kit.JSON(c.app.Stdout), content); err != nil {
			return infrastructure(fault.Wrap(err, fault.Internal, "The result cannot be written: %v.", err))
		}
	}
	if failed {
		return kit.Exit(kit.ExitFailed, nil)
	}
	return nil
}

// programTools are the tools that run programs named in the project file.
var programTools = []string{"code.lsp", "debug"}

const leftOutText = "the language servers, debug adapters and launch.json of the project are left out, as they run " +
	"programs of its choice; --yes uses them"

// leaveOut removes the programs of the project file from a caller, and reports whether there were any. A daemon asks
// the operator to approve them; here --yes is the approval.
func (c caller) leaveOut(as *workbench.Caller) bool {
	if c.yes || len(as.LanguageServers)+len(as.Debugging.Adapters)+len(as.Debugging.Configurations) == 0 {
		return false
	}
	as.LanguageServers, as.Debugging = nil, dsl.Debugging{}
	return true
}

func (c caller) identity(ctx context.Context, agent string) (workbench.Caller, error) {
	if agent == "" {
		as, err := c.bench.Operator(ctx)
		return as, infrastructure(err)
	}
	as, err := c.bench.Agent(ctx, agent)
	if err != nil {
		return as, notStarted(err)
	}
	c.app.WarnPersistent(dsl.CageFromProto(as.Cage))
	return as, nil
}

// call runs one call and returns its output. It writes the record before the result.
func (c caller) call(ctx context.Context, as workbench.Caller, call toolCall) (content string, ok bool, err error) {
	if call.wrong != nil {
		return fault.From(call.wrong).ToolError(), false, nil
	}
	out, err := c.bench.Call(ctx, as, workbench.Call{
		Tool: call.tool, Input: call.input, Approve: c.app.Approver(ctx, c.yes),
		Show: func(text string) { io.WriteString(c.progress, text) },
	})
	if aerr := c.record.Append(out.Records); err == nil && aerr != nil {
		return "", false, infrastructure(aerr)
	}
	warnFound(c.app, out.Records)
	switch {
	case err == nil:
		return strings.TrimSuffix(out.Content, "\n"), !out.Failed, nil
	case ctx.Err() != nil:
		return "", false, kit.Exit(kit.ExitCancelled, nil)
	}
	return "", false, infrastructure(err)
}

// warnFound prints the files that calls left in the writable folders of their cages.
func warnFound(a kit.App, records []*commonv1.AuditRecord) {
	for _, r := range records {
		if r.GetEventType() != "cage.found" {
			continue
		}
		for _, f := range r.GetPayload().GetFields()["found"].GetListValue().GetValues() {
			a.SayFound(f.GetStructValue().GetFields()["text"].GetStringValue())
		}
	}
}
