package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	writeRounds    = 200
	crowdAgents    = 20
	crowdCalls     = 50
	checkoutFiles  = 10_000
	checkoutRounds = 6
	// The target of a write is the excess over one without a server, in milliseconds; that of a crowd is a multiple of
	// one agent's time.
	writeTarget, crowdTarget, checkoutTarget = 0.05, 2, 500
)

// inTurns runs several measurements one after the other, rounds times, after a round to fill caches.
func inTurns(rounds int, measures ...func() (time.Duration, error)) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(measures))
	for round := range rounds + 1 {
		for i, measure := range measures {
			d, err := measure()
			if err != nil {
				return nil, err
			}
			if round > 0 {
				took[i] = append(took[i], d)
			}
		}
	}
	return took, nil
}

// crowd measures the queries of one agent, then of twenty agents at once, with one server each time, and the same for
// the bare client. The note has the least mean time of a call that the machine allows: each agent waits for its answer
// before it asks again, so twenty agents with calls of c CPU time on n processors wait 20*c/n on average, in whichever
// order they are served.
func (l *languages) crowd(ctx context.Context, bare *bareServer, r *runner) ([]Figure, error) {
	place := map[string]any{"path": "main.go", "line": placeLine + 1, "character": placeCharacter + 1}
	mix := []map[string]any{
		{"action": "hover"},
		{"action": "definition"},
		{"action": "references"},
		{"action": "symbols"},
		{"action": "diagnostics"},
	}
	for _, m := range mix[:3] {
		for k, v := range place {
			m[k] = v
		}
	}
	mix[3]["path"], mix[4]["path"] = "main.go", "main.go"
	ask := func(agent, i int) error {
		_, err := r.call(ctx, "crowd-"+strconv.Itoa(agent), l.dir, "code.lsp", mix[(agent+i)%len(mix)])
		return err
	}
	raw := func(agent, i int) error { return bare.mixed(ctx, (agent+i)%4) }
	var p99, least [4]time.Duration
	for i, x := range []struct {
		agents, calls int
		ask           func(agent, i int) error
	}{
		{1, crowdAgents * crowdCalls, raw},
		{crowdAgents, crowdCalls, raw},
		{1, crowdAgents * crowdCalls, ask},
		{crowdAgents, crowdCalls, ask},
	} {
		before, err := busyTime()
		if err != nil {
			return nil, err
		}
		took, err := together(x.agents, x.calls, x.ask)
		if err != nil {
			return nil, err
		}
		after, err := busyTime()
		if err != nil {
			return nil, err
		}
		p99[i] = percentile(took, 99)
		least[i] = time.Duration(x.agents) * (after - before) / time.Duration(x.agents*x.calls*runtime.NumCPU())
	}
	alone := fmt.Sprintf("alone %.1f, bare alone %.1f; least mean for %d processors %.1f, bare %.1f",
		ms(p99[2]), ms(p99[0]), runtime.NumCPU(), ms(least[3]), ms(least[1]))
	return []Figure{{
		Name: "language/crowd-p99", Value: ms(p99[3]), Unit: "ms", Floor: ms(p99[1]), Target: crowdTarget * ms(p99[2]),
		Note: fmt.Sprintf("%d agents x %d calls; %s", crowdAgents, crowdCalls, alone),
	}}, nil
}

// busyTime returns the time that the processors of the machine have worked.
func busyTime() (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	var busy time.Duration
	for i, field := range strings.Fields(line)[1:] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		if i != 3 && i != 4 && i < 8 { // not idle, not waiting for a disk, and guests are part of users
			busy += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return busy, nil
}

// together makes agents run calls at once and returns the time of each call.
func together(agents, calls int, ask func(agent, i int) error) ([]time.Duration, error) {
	var running sync.WaitGroup
	took := make([][]time.Duration, agents)
	failed := make([]error, agents)
	for agent := range agents {
		running.Go(func() {
			for i := range calls {
				begun := time.Now()
				if failed[agent] = ask(agent, i); failed[agent] != nil {
					return
				}
				took[agent] = append(took[agent], time.Since(begun))
			}
		})
	}
	running.Wait()
	return slices.Concat(took...), errors.Join(failed...)
}

// mixed sends one of four queries.
func (b *bareServer) mixed(ctx context.Context, which int) error {
	params := map[string]any{
		"textDocument": map[string]string{"uri": b.uri},
		"position":     map[string]int{"line": placeLine, "character": placeCharacter + 1},
	}
	methods := []string{"hover", "definition", "references", "documentSymbol"}
	if which == 2 {
		params["context"] = map[string]bool{"includeDeclaration": false}
	}
	var answer any
	return b.conn.Call(ctx, "textDocument/"+methods[which], params, &answer)
}

// writing writes a file of a project with a server and one of a project without, alternately. Errors after edits are
// switched off.
func (l *languages) writing(w *world) ([]Figure, error) {
	off := filepath.Join(w.dir, "off.toml")
	if err := os.WriteFile(off, []byte("[services.tool-runner]\nafter_edit = \"off\"\n"), 0o600); err != nil {
		return nil, err
	}
	var write [2]func() (time.Duration, error)
	for i := range write {
		part := &languages{dir: filepath.Join(w.dir, "writing"+strconv.Itoa(i))}
		if err := part.write(); err != nil {
			return nil, err
		}
		s, err := startSession(w, part.dir, "KAGED_CONFIG="+off)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		if i == 1 {
			_, err := s.call(map[string]any{"action": "diagnostics", "path": "main.go"})
			if err != nil {
				return nil, err
			}
		}
		n := 0
		write[i] = func() (time.Duration, error) {
			n++
			begun := time.Now()
			_, err := s.tool("file.write", map[string]any{
				"path": "more.go", "content": "package main\n\nconst more = " + strconv.Itoa(n) + "\n",
			})
			return time.Since(begun), err
		}
	}
	took, err := inTurns(writeRounds, write[0], write[1])
	if err != nil {
		return nil, err
	}
	floor := ms(percentile(took[0], 50))
	return []Figure{{
		Name: "language/write", Value: ms(percentile(took[1], 50)), Unit: "ms", Floor: floor,
		Target: floor + writeTarget, Spread: spread(took[1]), Note: "beside a server; floor without one",
	}}, nil
}

// checkout makes git change ten thousand files and one file of the program, and requests errors when git has ended. The
// floor is the same query after a change of that file only.
func (l *languages) checkout(ctx context.Context, w *world) ([]Figure, error) {
	many := &languages{dir: filepath.Join(w.dir, "checkout")}
	if err := many.states(ctx); err != nil {
		return nil, err
	}
	s, err := startSession(w, many.dir)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	turn := func(even, odd string) func() (time.Duration, error) {
		n := 0
		return func() (time.Duration, error) {
			n++
			branch := []string{even, odd}[n%2]
			if err := git(ctx, many.dir, "checkout", "-q", branch); err != nil {
				return 0, err
			}
			begun := time.Now()
			text, err := s.call(map[string]any{"action": "diagnostics", "path": "main.go"})
			took := time.Since(begun)
			if err == nil && strings.Contains(text, "cannot use") != (n%2 == 1) {
				err = fmt.Errorf("after git checkout %s the diagnostics are %s", branch, text)
			}
			return took, err
		}
	}
	// After two turns both are in their first state.
	few, all := turn("few", "few-odd"), turn("few", "all-odd")
	var took [2][]time.Duration
	for round := range checkoutRounds {
		for i, measure := range []func() (time.Duration, error){few, few, all, all} {
			d, err := measure()
			if err != nil {
				return nil, err
			}
			if round > 0 {
				took[i/2] = append(took[i/2], d)
			}
		}
	}
	return []Figure{{
		Name: "language/checkout", Value: ms(percentile(took[1], 50)), Unit: "ms", Floor: ms(percentile(took[0], 50)),
		Target: checkoutTarget, Spread: spread(took[1]),
		Note: fmt.Sprintf("after git has changed %d files; floor: 1 file", checkoutFiles),
	}}, nil
}

// states creates a repository of three branches: few, few-odd with an error in main.go, and all-odd, in which all other
// files differ, too.
func (l *languages) states(ctx context.Context) error {
	if err := l.write(); err != nil {
		return err
	}
	fill := func(text string) error {
		for i := range checkoutFiles {
			dir := filepath.Join(l.dir, "data", strconv.Itoa(i/100))
			if i%100 == 0 {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
			}
			name := filepath.Join(dir, strconv.Itoa(i)+".txt")
			if err := os.WriteFile(name, []byte(text+strconv.Itoa(i)+"\n"), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	commit := func(branch string) error {
		return errors.Join(git(ctx, l.dir, "checkout", "-q", "-b", branch), git(ctx, l.dir, "add", "-A"),
			git(ctx, l.dir, "commit", "-q", "-m", branch))
	}
	if err := errors.Join(fill("few "), git(ctx, l.dir, "init", "-q"), commit("few")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.dir, "main.go"), []byte(mainText(1)), 0o644); err != nil {
		return err
	}
	return errors.Join(
		commit("few-odd"), fill("all of them "), commit("all-odd"), git(ctx, l.dir, "checkout", "-q", "few"),
	)
}

// git runs git in a folder.
func git(ctx context.Context, dir string, args ...string) error {
	who := []string{"-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"}
	args = append(who, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %v: %w: %s", args, err, out)
	}
	return nil
}
