package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Options are the measurements to make and the kaged to measure.
type Options struct {
	// Kaged is the path of the binary.
	Kaged string
	// Run selects the measurements by name.
	Run *regexp.Regexp
	// Progress receives a line before each measurement, Measured its figures.
	Progress io.Writer
	Measured func([]Figure)
}

// measurement is a named function that returns figures.
type measurement struct {
	name string
	run  func(context.Context, *world) ([]Figure, error)
	// parts of it can be chosen alone, as "NAME/PART".
	parts []string
}

// chosen reports whether the measurement, or a part of it, is chosen.
func (m measurement) chosen(run *regexp.Regexp) bool {
	return run.MatchString(m.name) || slices.ContainsFunc(m.parts, func(part string) bool {
		return run.MatchString(m.name + "/" + part)
	})
}

var measurements = []measurement{
	{name: "start", run: measureStart},
	{name: "tool-round", run: measureToolRounds},
	{name: "first-token", run: measureFirstToken},
	{name: "burst", run: measureBurst},
	{name: "pace", run: measurePace},
	{name: "flood", run: measureFlood},
	{name: "long-answers", run: measureLongAnswers},
	{name: "idle", run: measureIdle},
	{name: "grep", run: measureGrep},
	{name: "glob", run: measureGlob},
	{name: "patch", run: measurePatch},
	{name: "structural", run: measureStructural},
	{name: "calls", run: measureCalls},
	{name: "agents", run: measureAgents},
	{name: "harnesses", run: measureHarnesses},
	{name: "terminal", run: measureTerminal},
	{name: "language", run: measureLanguage, parts: []string{"starts"}},
	{name: "debug", run: measureDebug},
	{name: "cage", run: measureCages},
	{name: "recall", run: measureRecall},
	{name: "issues", run: measureIssues},
	{name: "million", run: measureMillion},
	{name: "context", run: measureContext, parts: []string{"growth"}},
	{name: "api", run: measureAPI, parts: apiPartNames()},
	{name: "replicas", run: measureReplicas},
	{name: "gateway-sockets", run: measureGatewaySockets},
}

// world has the common parts of the measurements: a model, a folder with a project and a configuration, and a writer
// for progress.
type world struct {
	kaged, dir, project string
	model               *model
	progress            io.Writer
	run                 *regexp.Regexp // which measurements
}

const projectFile = `version: 1
project: bench
description: What kaged is measured with.
primary:
  model: bench
  system_prompt: ./prompt.md
  max_steps: 100
  cage: disabled
  tools:
    "file.*": {enabled: true}
    "shell.bash": {enabled: true}
`

// Run makes the measurements and returns the figures in the order of the list.
func Run(ctx context.Context, opts Options) ([]Figure, error) {
	dir, err := os.MkdirTemp("", "kaged-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m, err := newModel()
	if err != nil {
		return nil, err
	}
	defer m.close()
	w := &world{
		kaged: opts.Kaged, dir: dir, project: filepath.Join(dir, "project"), model: m, progress: opts.Progress,
		run: opts.Run,
	}
	if err := w.prepare(); err != nil {
		return nil, err
	}
	var figures []Figure
	for _, x := range measurements {
		if !x.chosen(opts.Run) {
			continue
		}
		fmt.Fprintf(opts.Progress, "bench: %s\n", x.name)
		got, err := x.run(ctx, w)
		opts.Measured(got)
		figures = append(figures, got...)
		if err != nil {
			return figures, fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return figures, nil
}

func (w *world) prepare() error {
	files := map[string]string{
		filepath.Join(w.project, ".kaged", "project.yaml"): projectFile,
		filepath.Join(w.project, "prompt.md"):              "You are measured.\n",
		filepath.Join(w.project, "small.txt"):              "one\ntwo\nthree\n",
		filepath.Join(w.dir, "local.toml"): fmt.Sprintf(
			"[models]\nbench = \"bench:bench\"\n\n[providers.bench]\ndriver = \"anthropic\"\n"+
				"base_url = %q\napi_key = \"sk-bench\"\n[[providers.bench.models]]\nid = \"bench\"\n"+
				"context_window = 1000000\n[limits]\nlive_agents = 10\nsessions_per_project = 100000\n"+
				"sessions_per_operator = 100000\n"+
				"[services.harness]\nparallel_agents = 16\n", w.model.url),
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// with runs a measurement against a signed-in daemon with the project.
func (w *world) with(ctx context.Context, use func(*daemon) ([]Figure, error)) ([]Figure, error) {
	d, err := start(ctx, w.kaged, w.dir)
	if err != nil {
		return nil, err
	}
	defer d.stop()
	if err := d.signIn(ctx); err != nil {
		return nil, err
	}
	if err := d.load(ctx, w.project); err != nil {
		return nil, err
	}
	return use(d)
}
