package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kaged.dev/pkg/ident"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

const (
	launchRounds  = 12
	debugRounds   = 150
	debugSessions = 8
	debugLocals   = 100
	// The targets are the excess over the bare client, in milliseconds; that of memory is in MB per session.
	launchTarget, launchCagedTarget, debugTarget, debugMemory = 20, 30, 1, 2
)

// measureDebug debugs a Go program through debug, in one process and across sockets, alternately with a bare client of
// another Delve on the same program.
func measureDebug(ctx context.Context, w *world) ([]Figure, error) {
	if _, err := exec.LookPath("dlv"); err != nil {
		fmt.Fprintln(w.progress, "bench: debug: cannot be measured here: dlv is missing")
		return nil, nil
	}
	d := &debugging{dir: filepath.Join(w.dir, "debug"), home: w.dir}
	if err := d.build(ctx); err != nil {
		return nil, err
	}
	one, err := startSession(w, d.dir)
	if err != nil {
		return nil, err
	}
	defer one.stop()
	return w.withPool(ctx, "dap-pool", func(r *runner, pool *exec.Cmd) ([]Figure, error) {
		before, err := memoryOf(pool.Process.Pid, "VmRSS")
		if err != nil {
			return nil, err
		}
		memory, err := d.sessions(ctx, r, pool, before)
		if err != nil {
			return nil, err
		}
		figures, err := d.launches(ctx, one, r)
		if err != nil {
			return nil, err
		}
		acts, err := d.acts(ctx, one, r)
		return append(append(figures, acts...), memory), err
	})
}

// debugging is a debugged program: a loop with a call, and a hundred variables.
type debugging struct{ dir, home string }

// loopLine is the line of the loop's call.
const loopLine = 10 + debugLocals

func (d *debugging) program() string { return filepath.Join(d.dir, "program") }

func (d *debugging) build(ctx context.Context) error {
	var main strings.Builder
	main.WriteString("package main\n\nfunc next(n int) int {\n\treturn n + 1\n}\n\nfunc main() {\n")
	for i := range debugLocals {
		fmt.Fprintf(&main, "\tv%d := %d\n", i, i)
	}
	main.WriteString("\ttotal := 0\n\tfor total >= 0 {\n\t\ttotal = next(total)\n\t\ttotal++\n\t}\n")
	for i := range debugLocals {
		fmt.Fprintf(&main, "\tprintln(v%d)\n", i)
	}
	main.WriteString("}\n")
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	files := map[string]string{"go.mod": "module example.com/d\n\ngo 1.24\n", "main.go": main.String()}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	args := []string{"build", "-buildvcs=false", "-gcflags=all=-N -l", "-o", d.program(), "."}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir, build.Env = d.dir, append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// launch are the parameters that start the program.
var launch = map[string]any{"action": "launch", "runtime": "go", "mode": "exec", "script": "program"}

// act runs a call of debug and checks a part of its answer.
func act(call func(map[string]any) (string, error), params map[string]any, part string) error {
	text, err := call(params)
	if err == nil && !strings.Contains(text, part) {
		err = fmt.Errorf("debug %v answered %s", params["action"], text)
	}
	return err
}

// on returns a function that runs calls of a session on a tool runner.
func (d *debugging) on(
	ctx context.Context, r *runner, session string, as func(*toolrunnerv1.ToolContext),
) func(map[string]any) (string, error) {
	return func(params map[string]any) (string, error) { return r.as(ctx, session, d.dir, "debug", params, as) }
}

// locals are the parameters that show the variables.
var locals = map[string]any{"action": "variables", "count": 2 * debugLocals}

// toLoop starts the program and stops it in its loop.
func toLoop(call func(map[string]any) (string, error)) error {
	return errors.Join(act(call, launch, `"stopped_reason":"entry"`), act(call, map[string]any{
		"action": "set_breakpoint", "path": "main.go", "line": loopLine,
	}, `"verified":true`), act(call, map[string]any{"action": "continue"}, `"stopped_reason":"breakpoint"`))
}

// sessions measures several debug sessions that are stopped at the same time.
func (d *debugging) sessions(ctx context.Context, r *runner, pool *exec.Cmd, before int64) (Figure, error) {
	figure := Figure{Name: "debug/memory", Unit: "MB", Target: debugMemory}
	for i := range debugSessions {
		call := d.on(ctx, r, "debug-"+strconv.Itoa(i), uncaged)
		if err := toLoop(call); err != nil {
			return figure, err
		}
		if err := act(call, locals, `"v99"`); err != nil {
			return figure, err
		}
	}
	after, err := memoryOf(pool.Process.Pid, "VmRSS")
	if err != nil {
		return figure, err
	}
	figure.Value = mb(after-before) / debugSessions
	figure.Note = fmt.Sprintf("dap-pool, each of %d sessions", debugSessions)
	for i := range debugSessions {
		call := d.on(ctx, r, "debug-"+strconv.Itoa(i), uncaged)
		if err := act(call, map[string]any{"action": "disconnect"}, `"disconnected":true`); err != nil {
			return figure, err
		}
	}
	return figure, nil
}

// launches measures the start of the program until it stops at its entry.
func (d *debugging) launches(ctx context.Context, one *session, r *runner) ([]Figure, error) {
	caged, release, err := d.cage(ctx, r)
	if err != nil {
		return nil, err
	}
	defer release()
	begin := func(call func(map[string]any) (string, error)) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			begun := time.Now()
			err := act(call, launch, `"stopped_reason":"entry"`)
			took := time.Since(begun)
			return took, errors.Join(err, act(call, map[string]any{"action": "disconnect"}, `"disconnected":true`))
		}
	}
	bare := func() (time.Duration, error) {
		begun := time.Now()
		b, err := startDelve(ctx, d)
		took := time.Since(begun)
		if err == nil {
			b.stop()
		}
		return took, err
	}
	inOne := func(params map[string]any) (string, error) { return one.tool("debug", params) }
	took, err := inTurns(launchRounds, bare, begin(inOne), begin(d.on(ctx, r, "debug", uncaged)),
		begin(d.on(ctx, r, "debug-caged", caged)))
	if err != nil {
		return nil, err
	}
	floor := ms(percentile(took[0], 50))
	figures := make([]Figure, 0, len(took)-1)
	for i, name := range []string{"debug/launch", "debug/launch-sockets", "debug/launch-caged"} {
		figures = append(figures, Figure{
			Name: name, Value: ms(percentile(took[i+1], 50)), Unit: "ms", Floor: floor, Spread: spread(took[i+1]),
			Target: floor + []float64{launchTarget, 0, launchCagedTarget}[i],
		})
	}
	figures[0].Note, figures[1].Target = "to the stop at the entry", 0
	return figures, nil
}

// cage holds a relaxed cage, as the harness does, and returns a function that runs calls of its agent.
func (d *debugging) cage(
	ctx context.Context, r *runner,
) (as func(*toolrunnerv1.ToolContext), release func(), err error) {
	id := ident.New()
	as = func(c *toolrunnerv1.ToolContext) {
		c.Caller, c.SessionId, c.ProjectCaged, c.CageId = "primary.subagents.caged", "debug-caged", true, id
		c.Cage = &commonv1.CagePolicy{
			Fs: []*commonv1.CageMount{{Mode: "rw", Path: "project:/"}}, Seccomp: "relaxed", State: "ephemeral",
			Capabilities: []string{"exec", "shell"},
		}
	}
	owner := &toolrunnerv1.ToolContext{RunId: "bench", ProjectId: "bench", ProjectRoot: d.dir}
	as(owner)
	ctx, cancel := context.WithCancel(ctx)
	stream, err := r.HoldCage(ctx, &toolrunnerv1.HoldCageRequest{CageId: id, Context: owner})
	if err == nil {
		_, err = stream.Recv()
	}
	return as, cancel, err
}

// acts stops the program in its loop and measures each action, alternately.
func (d *debugging) acts(ctx context.Context, one *session, r *runner) ([]Figure, error) {
	bare, err := startDelve(ctx, d)
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	if err := bare.breakpoint(); err != nil {
		return nil, err
	}
	calls := []func(map[string]any) (string, error){
		func(params map[string]any) (string, error) { return one.tool("debug", params) },
		d.on(ctx, r, "debug", uncaged),
	}
	for _, call := range calls {
		if err := toLoop(call); err != nil {
			return nil, err
		}
	}
	actions := []struct {
		name, part string
		params     map[string]any
		bare       func() error
	}{
		{"continue", `"stopped_reason":"breakpoint"`, map[string]any{"action": "continue"}, bare.goOn},
		{"step", `"stopped_reason":"step"`, map[string]any{"action": "step_over"}, bare.step},
		{"evaluate", `"type":"int"`, map[string]any{"action": "evaluate", "expression": "total + 1"}, bare.evaluate},
		{"locals", `"v99"`, locals, bare.locals},
	}
	var took [4][3][]time.Duration
	for round := range debugRounds + 10 {
		for i, a := range actions {
			ways := []func() error{
				a.bare,
				func() error { return act(calls[0], a.params, a.part) },
				func() error { return act(calls[1], a.params, a.part) },
			}
			for way, do := range ways {
				begun := time.Now()
				if err := do(); err != nil {
					return nil, err
				}
				if round >= 10 {
					took[i][way] = append(took[i][way], time.Since(begun))
				}
			}
		}
	}
	var figures []Figure
	for i, a := range actions {
		floor := ms(percentile(took[i][0], 50))
		figures = append(figures, Figure{
			Name: "debug/" + a.name, Value: ms(percentile(took[i][1], 50)), Unit: "ms", Floor: floor,
			Target: floor + debugTarget, Spread: spread(took[i][1]),
		}, Figure{
			Name: "debug/" + a.name + "-sockets", Value: ms(percentile(took[i][2], 50)), Unit: "ms", Floor: floor,
			Spread: spread(took[i][2]),
		})
	}
	return figures, nil
}
