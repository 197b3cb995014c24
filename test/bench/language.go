package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	languageRounds   = 3000 // the p99 is the 30th slowest
	partRounds       = 300
	diagnosticRounds = 40
	// The targets are the excess over the bare server, in milliseconds.
	languageTarget, languageTail, languageSockets, diagnosticTarget = 0.4, 1, 1.5, 5
	// poolMemory is in MB for each of poolServers servers.
	poolMemory, poolServers = 5, 4
)

// measureLanguage queries gopls through code.lsp, in one process and across sockets, alternately with a bare client of
// another gopls on the same files. The bare client has the capabilities and settings of code.lsp, because they change
// what gopls does for an answer.
func measureLanguage(ctx context.Context, w *world) ([]Figure, error) {
	if _, err := exec.LookPath("gopls"); err != nil {
		fmt.Fprintln(w.progress, "bench: language: cannot be measured here: gopls is missing")
		return nil, nil
	}
	l := &languages{dir: filepath.Join(w.dir, "language")}
	if err := l.write(); err != nil {
		return nil, err
	}
	starts, err := l.starts(ctx, w)                   // before the others, because no server runs yet
	if err != nil || !w.run.MatchString("language") { // a part was chosen
		return starts, err
	}
	bare, err := startBare(ctx, goplsOn(l.dir, same()), w.dir)
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	one, err := startSession(w, l.dir)
	if err != nil {
		return nil, err
	}
	defer one.stop()
	return w.withPool(ctx, "lsp-pool", func(r *runner, pool *exec.Cmd) ([]Figure, error) {
		before, err := memoryOf(pool.Process.Pid, "VmRSS")
		if err != nil {
			return nil, err
		}
		sockets := func(params map[string]any) (string, error) {
			return r.call(ctx, "language", l.dir, "code.lsp", params)
		}
		questions, err := l.questions(ctx, bare, one, sockets, func() error { return r.ping(ctx) })
		if err != nil {
			return nil, err
		}
		figure, err := l.memory(ctx, w, r, pool, before)
		if err != nil {
			return nil, err
		}
		figures := slices.Concat(starts, questions, []Figure{figure})
		for _, measure := range []func() ([]Figure, error){
			func() ([]Figure, error) { return l.diagnostics(ctx, bare, one.call) },
			func() ([]Figure, error) { return l.crowd(ctx, bare, r) },
			func() ([]Figure, error) { return l.writing(w) },
			func() ([]Figure, error) { return l.checkout(ctx, w) },
		} {
			more, err := measure()
			figures = append(figures, more...)
			if err != nil {
				return figures, err
			}
		}
		return figures, nil
	})
}

// memory measures the memory of the pool per server: for the server used before, and for one in each of some more
// projects.
func (l *languages) memory(
	ctx context.Context, w *world, r *runner, pool *exec.Cmd, before int64,
) (Figure, error) {
	for i := range poolServers - 1 {
		other := languages{dir: filepath.Join(w.dir, fmt.Sprintf("language-%d", i))}
		if err := other.write(); err != nil {
			return Figure{}, err
		}
		_, err := r.call(ctx, "language", other.dir, "code.lsp", map[string]any{
			"action": "hover", "path": "main.go", "line": placeLine + 1, "character": placeCharacter + 1,
		})
		if err != nil {
			return Figure{}, err
		}
	}
	after, err := memoryOf(pool.Process.Pid, "VmRSS")
	return Figure{
		Name: "language/pool-memory", Value: mb(after-before) / poolServers, Unit: "MB", Target: poolMemory,
		Note: fmt.Sprintf("lsp-pool, each of %d servers", poolServers),
	}, err
}

// languages is a module with the files of the queries.
type languages struct{ dir string }

// place is the position of the call in main.go that is queried: its line and its character, from 0.
const placeLine, placeCharacter = 5, 14

func (l *languages) write() error {
	files := map[string]string{
		"go.mod":  "module example.com/m\n\ngo 1.24\n",
		"main.go": mainText(0),
	}
	for i := range 20 {
		name := fmt.Sprintf("part%d", i)
		const text = "package %s\n\n// Total adds up.\nfunc Total(n int) int { return n + %d }\n"
		files[name+"/"+name+".go"] = fmt.Sprintf(text, name, i)
	}
	for name, content := range files {
		path := filepath.Join(l.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// mainText returns main.go in a state; each odd state has an error.
func mainText(state int) string {
	value := fmt.Sprint(state)
	if state%2 == 1 {
		value = fmt.Sprintf("%q", value)
	}
	return "package main\n\nimport \"example.com/m/part1\"\n\nfunc main() {\n\tprintln(part1.Total(" + value + "))\n}\n"
}

// questions measures hovers and definitions, each call after one of its floor. The floor of kaged in one process is the
// bare client preceded by a message to another process and back over a pipe, because kaged is called over a pipe too.
// There are no other calls between the two: all servers are asked equally often, so each has its code and data in the
// processors' caches as much as the other. The notes have the parts that no query can do without: the same call for the
// state of the servers, which asks no server, a call of a tool that does not exist, and an RPC without work (a call
// over sockets has two).
func (l *languages) questions(
	ctx context.Context, bare *bareServer, one *session, sockets func(map[string]any) (string, error), ping func() error,
) (figures []Figure, err error) {
	pipe, err := startPipe()
	if err != nil {
		return nil, err
	}
	defer pipe.stop()
	state := func(call func(map[string]any) (string, error)) func() error {
		return func() error {
			_, err := call(map[string]any{"action": "status"})
			return err
		}
	}
	parts, err := alternate(partRounds, state(one.call), one.nothing, state(sockets), ping)
	if err != nil {
		return nil, err
	}
	part := func(i int) float64 { return ms(percentile(parts[i], 50)) }
	for _, action := range []string{"hover", "definition"} {
		params := map[string]any{
			"action": action, "path": "main.go", "line": placeLine + 1, "character": placeCharacter + 1,
		}
		ask := func(call func(map[string]any) (string, error)) func() error {
			return func() error {
				text, err := call(params)
				if err == nil && !strings.Contains(text, "part1") {
					err = fmt.Errorf("%s answered %s", action, text)
				}
				return err
			}
		}
		direct := func() error { return bare.ask(ctx, action) }
		within, err := alternate(
			languageRounds, func() error { return errors.Join(pipe.turn(), direct()) }, ask(one.call),
		)
		if err != nil {
			return figures, err
		}
		across, err := alternate(languageRounds, direct, ask(sockets))
		if err != nil {
			return figures, err
		}
		figure := func(name string, took [][]time.Duration, p, more float64) Figure {
			floor := ms(percentile(took[0], p))
			return Figure{
				Name: "language/" + action + name, Value: ms(percentile(took[1], p)), Unit: "ms", Floor: floor,
				Target: floor + more,
			}
		}
		middle, tail := figure("", within, 50, languageTarget), figure("-p99", within, 99, languageTail)
		remote := figure("-sockets", across, 50, languageSockets)
		middle.Spread, remote.Spread = spread(within[1]), spread(across[1])
		middle.Note = fmt.Sprintf("one process; its state %.2f, no tool %.2f", part(0), part(1))
		remote.Note = fmt.Sprintf("state %.2f; one of two RPCs, without work %.2f", part(2), part(3))
		figures = append(figures, middle, tail, remote)
	}
	return figures, nil
}

// alternate makes calls one after the other, many rounds, and returns the times of each.
func alternate(rounds int, calls ...func() error) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(calls))
	for round := range rounds + 10 {
		for i, call := range calls {
			begun := time.Now()
			if err := call(); err != nil {
				return nil, err
			}
			if round >= 10 { // the servers have filled their caches
				took[i] = append(took[i], time.Since(begun))
			}
		}
	}
	return took, nil
}

// diagnostics changes a file and requests its errors, alternately. The bare client waits for the publication of its
// version.
func (l *languages) diagnostics(
	ctx context.Context, bare *bareServer, one func(map[string]any) (string, error),
) ([]Figure, error) {
	var floor, took []time.Duration
	for state := 1; state <= diagnosticRounds; state++ {
		begun := time.Now()
		if err := bare.change(ctx, state); err != nil {
			return nil, err
		}
		floor = append(floor, time.Since(begun))
		begun = time.Now()
		if err := os.WriteFile(filepath.Join(l.dir, "main.go"), []byte(mainText(state)), 0o644); err != nil {
			return nil, err
		}
		text, err := one(map[string]any{"action": "diagnostics", "path": "main.go"})
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(begun))
		if strings.Contains(text, "cannot use") != (state%2 == 1) {
			return nil, fmt.Errorf("after change %d the diagnostics are %s", state, text)
		}
	}
	bottom := ms(percentile(floor, 50))
	return []Figure{{
		Name: "language/edit-to-diagnostics", Value: ms(percentile(took, 50)), Unit: "ms", Floor: bottom,
		Target: bottom + diagnosticTarget, Spread: spread(took),
	}}, nil
}

// session is a process of kaged that runs calls one after the other.
type session struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startSession starts kaged tools call on a project, with more variables.
func startSession(w *world, project string, env ...string) (*session, error) {
	s := &session{cmd: exec.Command(w.kaged, "tools", "call", "-", "--project", project)}
	s.cmd.Env, s.cmd.Stderr = append(environ(w.dir), env...), os.Stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, s.cmd.Start()
}

// call calls code.lsp and returns its result.
func (s *session) call(params map[string]any) (string, error) {
	return s.tool("code.lsp", params)
}

// tool calls a tool and returns its result.
func (s *session) tool(name string, params map[string]any) (string, error) {
	line, err := json.Marshal(map[string]any{"tool": name, "params": params})
	if err != nil {
		return "", err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return "", err
	}
	text, err := s.out.ReadString('\n')
	if err == nil && strings.HasPrefix(text, `{"error"`) {
		err = errors.New(text)
	}
	return text, err
}

// nothing calls a tool that does not exist: a call without the work of a tool.
func (s *session) nothing() error {
	if text, err := s.tool("none", nil); err == nil {
		return fmt.Errorf("a tool that does not exist answered %s", text)
	} else if !strings.Contains(err.Error(), "tool_not_found") {
		return err
	}
	return nil
}

func (s *session) stop() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}

// withPool runs a measurement against a tool runner with a pool of that name and a sandbox-supervisor, each in its own
// process. The pool and the supervisor have more variables.
func (w *world) withPool(
	ctx context.Context, name string, use func(*runner, *exec.Cmd) ([]Figure, error), env ...string,
) ([]Figure, error) {
	data := filepath.Join(w.dir, "runner")
	var pool *exec.Cmd
	for _, name := range []string{"sandbox-supervisor", name} {
		p := exec.Command(filepath.Join(filepath.Dir(w.kaged), name), "--data-dir", data)
		p.Env, p.Stderr = append(environ(w.dir), env...), os.Stderr
		if err := p.Start(); err != nil {
			return nil, err
		}
		defer func() {
			_ = p.Process.Signal(syscall.SIGTERM)
			_ = p.Wait()
		}()
		pool = p
	}
	return w.withRunner(ctx, func(r *runner) ([]Figure, error) { return use(r, pool) })
}
