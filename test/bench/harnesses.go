package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The number of runs of the script per harness, and the time limit of one run.
const (
	harnessRuns  = 3
	harnessLimit = time.Minute
)

// harness is another headless agent harness, measured with the same answers of the model.
type harness struct {
	name  string
	tools harnessTools
	// files are written below the home folder before a run, by their relative paths. {URL} in them is replaced by the
	// model's URL.
	files map[string]string
	// args start a run in the project, which sends rootMessage; env are variables other than PATH and HOME. {URL} in both
	// is replaced by the model's URL.
	args, env []string
}

// harnessTools are the calls of a harness that do the tasks of the script.
type harnessTools struct {
	read, write func(dir, file, content string) scriptCall
	delegate    func(prompt string) scriptCall
	// warm are calls before the others, which start parts that the harness starts on demand.
	warm []scriptCall
}

// rootMessage is the message of each run.
const rootMessage = "Follow SCRIPT-ROOT."

// opencodeFile is opencode's configuration with the model. By default the tools need no approval.
const opencodeFile = `{"autoupdate": false, "share": "disabled", "lsp": true, "model": "bench/bench",
"small_model": "bench/bench", "provider": {"bench": {"npm": "@ai-sdk/anthropic",
"options": {"baseURL": "{URL}/v1", "apiKey": "bench"},
"models": {"bench": {"name": "bench", "tool_call": true, "limit": {"context": 200000, "output": 8000}}}}}}`

const ompFile = `providers:
  bench:
    baseUrl: "{URL}"
    apiKey: bench
    api: anthropic-messages
    models:
      - {id: bench, name: bench, contextWindow: 200000, maxTokens: 8000, input: [text], reasoning: false}
`

// harnesses are the peers, with the tools of the versions that scripts/setup.sh installs.
var harnesses = []harness{
	{
		name: "opencode",
		tools: harnessTools{
			read: func(dir, file, _ string) scriptCall {
				return scriptCall{"read", params{"filePath": filepath.Join(dir, file)}}
			},
			write: func(dir, file, content string) scriptCall {
				return scriptCall{"write", params{"filePath": filepath.Join(dir, file), "content": content}}
			},
			delegate: func(prompt string) scriptCall {
				return scriptCall{"task", params{"description": "look", "prompt": prompt, "subagent_type": "general"}}
			},
		},
		files: map[string]string{".config/opencode/opencode.json": opencodeFile},
		args:  []string{"run", "--auto", rootMessage},
	},
	{
		name: "claude",
		tools: harnessTools{
			read: func(dir, file, _ string) scriptCall {
				return scriptCall{"Read", params{"file_path": filepath.Join(dir, file)}}
			},
			write: func(dir, file, content string) scriptCall {
				return scriptCall{"Write", params{"file_path": filepath.Join(dir, file), "content": content}}
			},
			delegate: func(prompt string) scriptCall {
				return scriptCall{"Agent", params{
					"description": "look", "prompt": prompt, "subagent_type": "general-purpose",
				}}
			},
		},
		args: []string{"-p", rootMessage, "--model", "bench", "--permission-mode", "acceptEdits"},
		env: []string{
			"ANTHROPIC_BASE_URL={URL}", "ANTHROPIC_API_KEY=bench", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_AUTOUPDATER=1",
		},
	},
	{
		name: "omp",
		tools: harnessTools{
			read: func(_, file, _ string) scriptCall {
				return scriptCall{"_read", params{"path": file, "i": "look"}}
			},
			write: func(_, file, content string) scriptCall {
				return scriptCall{"_write", params{"path": file, "content": content, "i": "write"}}
			},
			delegate: func(prompt string) scriptCall {
				return scriptCall{"_task", params{"context": "none", "i": "look", "tasks": []params{{"task": prompt}}}}
			},
		},
		files: map[string]string{".omp/agent/models.yml": ompFile},
		args:  []string{"-p", "--model", "bench/bench", "--approval-mode", "yolo", "--no-title", rootMessage},
	},
}

// kagedTools are kaged's own tools.
var kagedTools = harnessTools{
	read: func(_, file, _ string) scriptCall { return scriptCall{"file.read", params{"path": file}} },
	write: func(_, file, content string) scriptCall {
		return scriptCall{"file.write", params{"path": file, "content": content}}
	},
	delegate: func(prompt string) scriptCall { return scriptCall{"agent-plain", params{"prompt": prompt}} },
	warm:     []scriptCall{{"code.lsp", params{"action": "diagnostics", "path": "main.go"}}},
}

const harnessesFile = `version: 1
project: harnesses
description: What kaged is measured with beside other harnesses.
primary:
  model: bench
  system_prompt: ./prompt.md
  max_steps: 100
  cage: disabled
  tools:
    "file.*": {enabled: true}
    "code.lsp": {enabled: true}
  subagents:
    plain:
      model: bench
      system_prompt: ./prompt.md
      tools: {"file.read": {enabled: true}}
`

// measureHarnesses measures the time between an answer of the model and a harness's next request: for a read, for a
// write with its errors in the next request, and for a delegation up to the first request of the child. kaged and every
// installed peer run the same script alternately, each with its own tools.
func measureHarnesses(ctx context.Context, w *world) ([]Figure, error) {
	s, err := newScript()
	if err != nil {
		return nil, err
	}
	defer s.close()
	own := &world{
		kaged: w.kaged, dir: filepath.Join(w.dir, "harnesses"), model: &model{url: s.url}, progress: w.progress,
	}
	own.project = filepath.Join(own.dir, "project")
	if err := own.prepare(); err != nil {
		return nil, err
	}
	if err := writeScriptProject(own.project); err != nil {
		return nil, err
	}
	description := filepath.Join(own.project, ".kaged", "project.yaml")
	if err := os.WriteFile(description, []byte(harnessesFile), 0o600); err != nil {
		return nil, err
	}
	peers := map[string]peer{}
	for _, h := range harnesses {
		if p := w.findPeer(ctx, h.name, h.name); p.path != "" {
			peers[h.name] = p
		} else {
			fmt.Fprintf(w.progress, "bench: harnesses: %s is not installed: scripts/setup.sh harnesses\n", h.name)
		}
	}
	results := map[string]*scriptTimes{}
	_, err = own.with(ctx, func(d *daemon) ([]Figure, error) {
		d.works = "harnesses"
		for range harnessRuns {
			if err := s.played(results, "kaged", own.project, kagedTools, func() error { return d.play(ctx) }); err != nil {
				return nil, err
			}
			for _, h := range harnesses {
				p, ok := peers[h.name]
				if !ok {
					continue
				}
				dir := filepath.Join(own.dir, h.name)
				play := func() error { return h.play(ctx, p, dir, s.url) }
				if err := s.played(results, h.name, filepath.Join(dir, "project"), h.tools, play); err != nil {
					fmt.Fprintf(w.progress, "bench: harnesses: %s is left out: %v\n", p.title, err)
					delete(peers, h.name)
					delete(results, h.name)
				}
			}
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return harnessFigures(results, peers), nil
}

// play sends the message in a new session and waits for the end of the run.
func (d *daemon) play(ctx context.Context) error {
	session, err := d.session(ctx)
	if err != nil {
		return err
	}
	_, err = d.follow(ctx, session, rootMessage)
	return err
}

// play runs a peer in a new project below dir.
func (h harness) play(ctx context.Context, p peer, dir, url string) error {
	ctx, cancel := context.WithTimeout(ctx, harnessLimit)
	defer cancel()
	home, project := filepath.Join(dir, "home"), filepath.Join(dir, "project")
	if err := writeScriptProject(project); err != nil {
		return err
	}
	for path, content := range h.files {
		path = filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(content, "{URL}", url)), 0o600); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, p.path, h.args...)
	cmd.Dir = project
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	for _, v := range h.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(v, "{URL}", url))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // a server that outlives its harness keeps the output open
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%w: %.500s", err, out.String())
	}
	return nil
}

// harnessFigures compares kaged's times with those of each peer.
func harnessFigures(results map[string]*scriptTimes, peers map[string]peer) (figures []Figure) {
	ours := results["kaged"]
	for _, kind := range []struct {
		name string
		of   func(*scriptTimes) []time.Duration
	}{
		{"read", func(t *scriptTimes) []time.Duration { return t.reads }},
		{"write", func(t *scriptTimes) []time.Duration { return t.writes }},
		{"delegation", func(t *scriptTimes) []time.Duration { return t.children }},
	} {
		figure := Figure{
			Value: ms(percentile(kind.of(ours), 50)), Unit: "ms", Target: 1,
		}
		for _, h := range harnesses {
			theirs := results[h.name]
			if theirs == nil {
				continue
			}
			f := figure
			f.Name = "harnesses/" + kind.name + "/" + h.name
			f.Peer, f.Rival = peers[h.name].title, ms(percentile(kind.of(theirs), 50))
			if kind.name == "write" {
				f.Peer += fmt.Sprintf(", told right %d of %d, kaged %d", theirs.right, len(theirs.writes), ours.right)
			}
			figures = append(figures, f)
		}
		if len(peers) == 0 {
			figure.Name, figure.Target = "harnesses/"+kind.name, 0
			figures = append(figures, figure)
		}
	}
	return figures
}
