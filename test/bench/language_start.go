package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	toolrunnerv1 "kaged.dev/proto/gen/kaged/toolrunner/v1"
)

const (
	// startRounds are the rounds with gopls, quickRounds those with a server that is ready at once. Each round has one
	// start of each kind.
	startRounds, quickRounds = 120, 120
	// The targets of a start are the excess over the bare server, in milliseconds.
	startTarget, startCagedTarget = 10, 20
	// configs is the folder of configurations in a home folder.
	configs = ".config"
)

// starts measures what code.lsp, and code.lsp in a cage, add to the time that a bare client takes to start a server and
// get its first answer. One start of gopls differs from the next by more than that, even with its caches filled.
// Therefore the same is measured with a server that is ready at once.
func (l *languages) starts(ctx context.Context, w *world) ([]Figure, error) {
	home, err := untracked(w)
	if err != nil {
		return nil, err
	}
	quick, err := quickServer(w)
	if err != nil {
		return nil, err
	}
	declared := func(c *toolrunnerv1.ToolContext) {
		c.LanguageServers = []*commonv1.LanguageServer{
			{Lang: quick.lang, Command: quick.argv, Extensions: []string{filepath.Ext(quick.name)}},
		}
	}
	gopls := goplsOn(l.dir, same())
	gopls.home = home
	return w.withPool(ctx, "lsp-pool", func(r *runner, _ *exec.Cmd) ([]Figure, error) {
		figures, err := r.starts(ctx, w, "language/cold-start", startRounds, gopls, uncaged)
		if err != nil {
			return figures, err
		}
		more, err := r.starts(ctx, w, "language/quick-start", quickRounds, quick, declared)
		return append(figures, more...), err
	}, "HOME="+home)
}

// untracked creates a home folder in which Go's programs keep no telemetry. Otherwise each gopls starts another process
// beside itself, which makes some starts 50 ms longer on two processors and others not at all.
func untracked(w *world) (string, error) {
	home := filepath.Join(w.dir, "home")
	mode := filepath.Join(home, configs, "go", "telemetry", "mode")
	if err := os.MkdirAll(filepath.Dir(mode), 0o755); err != nil {
		return "", err
	}
	return home, os.WriteFile(mode, []byte("off 2026-01-01"), 0o644)
}

// starts measures the starts of a server in rounds. A start begins when the server of the start before has ended. The
// figures are the medians of the differences within the rounds.
func (r *runner) starts(
	ctx context.Context, w *world, name string, rounds int, s bareProgram, as func(*toolrunnerv1.ToolContext),
) ([]Figure, error) {
	caged := func(c *toolrunnerv1.ToolContext) {
		as(c)
		c.Caller, c.SessionId, c.ProjectCaged = "primary.subagents.caged", "language-caged", true
		c.Cage = &commonv1.CagePolicy{
			Fs: []*commonv1.CageMount{{Mode: "ro", Path: "project:/"}}, Seccomp: "default", State: "ephemeral",
		}
		if s.home != "" { // the cage has a home folder of its own
			shared := filepath.Join(s.home, configs)
			c.Cage.Fs = append(c.Cage.Fs, &commonv1.CageMount{Mode: "ro", Path: shared})
			c.Cage.Env = map[string]string{"XDG_CONFIG_HOME": shared}
		}
		if program := s.argv[0]; filepath.IsAbs(program) {
			c.Cage.Fs = append(c.Cage.Fs, &commonv1.CageMount{Mode: "ro", Path: program})
		}
	}
	took, err := shuffled(rounds,
		func() (time.Duration, error) { return bareStart(ctx, s, w.dir) },
		func() (time.Duration, error) { return r.start(ctx, s, as) },
		func() (time.Duration, error) { return r.start(ctx, s, caged) },
	)
	if err != nil {
		return nil, err
	}
	return []Figure{
		excess(name, bareStarted, took[1], took[0], startTarget),
		excess(name+"-caged", bareStarted, took[2], took[0], startCagedTarget),
	}, nil
}

// start measures a start through code.lsp, and ends the server.
func (r *runner) start(
	ctx context.Context, s bareProgram, as func(*toolrunnerv1.ToolContext),
) (time.Duration, error) {
	begun := time.Now()
	text, err := r.as(ctx, "language", s.project, "code.lsp", map[string]any{
		"action": "hover", "path": s.name, "line": s.line + 1, "character": s.character,
	}, as)
	took := time.Since(begun)
	if err == nil && !strings.Contains(text, bareAnswer) {
		err = fmt.Errorf("hover answered %s", text)
	}
	if err == nil {
		_, err = r.as(ctx, "language", s.project, "code.lsp", map[string]any{"action": "reload"}, as)
	}
	return took, err
}

// bareStart measures a start with the bare client, and ends the server.
func bareStart(ctx context.Context, s bareProgram, dir string) (time.Duration, error) {
	begun := time.Now()
	b, err := startBare(ctx, s, dir)
	if err != nil {
		return 0, err
	}
	err = b.ask(ctx, "hover")
	took := time.Since(begun)
	return took, cmp.Or(err, b.end(ctx))
}

// shuffled runs measures in rounds, after a round to fill caches. Over the rounds each measure is as often before each
// other measure as after it, and as often first, so that a drift of the machine and what one leaves behind change all
// of them alike.
func shuffled(rounds int, measures ...func() (time.Duration, error)) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(measures))
	order := make([]int, len(measures))
	for round := range rounds + 1 {
		for i := range order {
			order[i] = (i + round/2) % len(measures)
		}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, i := range order {
			d, err := measures[i]()
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

const bareStarted = "a bare server's"

// excess returns the median of the differences of two samples that were taken in the same rounds; bare names the floor.
func excess(name, bare string, took, floor []time.Duration, target float64) Figure {
	differences := make([]time.Duration, len(took))
	for i := range took {
		differences[i] = took[i] - floor[i]
	}
	slices.Sort(differences)
	low, high := medianBounds(len(differences))
	f := Figure{
		Name: name, Value: ms(percentile(differences, 50)), Unit: "ms", Target: target, Low: ms(differences[low]),
		High: ms(differences[high]),
	}
	f.Note = fmt.Sprintf("more than %s %.2f; 95 %% interval of %d: %.2f to %.2f", bare,
		ms(percentile(slices.Clone(floor), 50)), len(took), f.Low, f.High)
	return f
}

// medianBounds returns the 95 % confidence interval of the median of n values, at least 6, as two indexes into the
// sorted values. It holds for any distribution: each value is below the median with probability 1/2, so the number of
// values below it is binomial.
func medianBounds(n int) (low, high int) {
	equal := math.Exp2(-float64(n)) // the probability that low values are below the median
	most := equal                   // and that at most low values are
	for {
		equal *= float64(n-low) / float64(low+1)
		most += equal
		if most > 0.025 {
			return low, n - 1 - low
		}
		low++
	}
}

// quickServer is [serveQuick] in a process of its own, for a folder with one file.
func quickServer(w *world) (bareProgram, error) {
	self, err := os.Executable()
	if err != nil {
		return bareProgram{}, err
	}
	s := bareProgram{
		argv: []string{self, "peer", "language"}, project: filepath.Join(w.dir, "quick"), name: "main.quick",
		lang: "quick", text: bareAnswer + "\n", as: handshake{capabilities: same().capabilities},
	}
	if err := os.MkdirAll(s.project, 0o755); err != nil {
		return s, err
	}
	return s, os.WriteFile(filepath.Join(s.project, s.name), []byte(s.text), 0o644)
}
