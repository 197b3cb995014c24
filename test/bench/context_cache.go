package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/testkit/fakellm"
)

// The sizes of the measurement of prompt caches: a window of 32,000 tokens passes its threshold every 50 rounds.
const (
	cachedRuns   = 4
	cachedRounds = 75
)

// cachedProject is the project of the measurement. Its files are pruned before they are dropped.
const cachedProject = `version: 1
project: bench
description: What kaged is measured with.
primary:
  model: bench
  system_prompt: ./prompt.md
  max_steps: 100
  cage: disabled
  include_tool_results_in_context: true
  compaction: {prune: {protect_tokens: 8000, minimum_savings: 4000}}
  tools:
    "file.*": {enabled: true}
`

// cachedShares measures the part of the input that providers with prompt caches have to read anew, in 300 steps in a
// window of 32,000 tokens, beside the part before the first pruning or compaction.
func (w *world) cachedShares(ctx context.Context) ([]Figure, error) {
	var figures []Figure
	for _, format := range []fakellm.Format{fakellm.Anthropic, fakellm.OpenAI, fakellm.OpenAIChat} {
		f, err := w.cachedShare(ctx, format)
		if err != nil {
			return figures, fmt.Errorf("the prompt cache of %s: %w", format, err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

func (w *world) cachedShare(ctx context.Context, format fakellm.Format) (Figure, error) {
	r := &cachedReader{}
	provider := fakellm.New(r.fail)
	provider.CachePrompts()
	provider.Handle(r.answer)
	listener := httptest.NewServer(provider)
	defer listener.Close()
	defer provider.Close()
	provider.URL = listener.URL

	own := *w
	own.dir = filepath.Join(w.dir, "cached-"+string(format))
	own.project = filepath.Join(own.dir, "project")
	if err := own.prepareCached(provider, format); err != nil {
		return Figure{}, err
	}
	var reported llm.Usage
	_, err := own.with(ctx, func(d *daemon) ([]Figure, error) {
		session, err := d.session(ctx)
		if err != nil {
			return nil, err
		}
		for range cachedRuns {
			if _, err := d.follow(ctx, session, "go on"); err != nil {
				return nil, err
			}
		}
		reported, err = d.used(ctx, session)
		return nil, err
	})
	if err = errors.Join(err, r.problem()); err != nil {
		return Figure{}, err
	}
	var all, before llm.Usage
	shortened := false
	for _, req := range provider.Requests() {
		all = all.Add(req.Usage)
		shortened = shortened || strings.Contains(string(req.Body), "[Pruned") ||
			strings.Contains(string(req.Body), "to fit the model's window")
		if !shortened {
			before = before.Add(req.Usage)
		}
	}
	reported.Output = 0
	if reported != all || !shortened {
		return Figure{}, fmt.Errorf("kaged reports %+v, the provider %+v; shortened: %v", reported, all, shortened)
	}
	return Figure{
		Name: "context/not-cached/" + string(format), Value: notCached(all), Unit: "%", Peer: "before the first pruning",
		Rival: notCached(before), Note: "300 steps in 32,000 tokens, by the usage that kaged reports",
	}, nil
}

// notCached returns the percentage of the input that was not read from the cache.
func notCached(u llm.Usage) float64 {
	return 100 - 100*float64(u.CacheRead)/float64(max(1, u.TotalInput()))
}

// used returns the usage that kaged reports for a session's messages, without reasoning.
func (d *daemon) used(ctx context.Context, session string) (sum llm.Usage, err error) {
	var page struct {
		Items []struct {
			Metadata struct {
				Usage struct {
					Input      int64 `json:"input"`
					CacheRead  int64 `json:"cache_read"`
					CacheWrite int64 `json:"cache_write"`
				}
			}
		}
	}
	err = d.client.Do(ctx, http.MethodGet, "/api/v1/sessions/"+session+"/messages?limit=200", nil, &page)
	for _, m := range page.Items {
		u := m.Metadata.Usage
		sum = sum.Add(llm.Usage{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite})
	}
	return sum, err
}

// prepareCached writes the project, its files and the configuration.
func (w *world) prepareCached(provider *fakellm.Server, format fakellm.Format) error {
	files := map[string]string{
		filepath.Join(w.project, ".kaged", "project.yaml"): cachedProject,
		filepath.Join(w.project, "prompt.md"):              strings.Repeat("You are measured. ", 300) + "\n",
		filepath.Join(w.dir, "local.toml"): fmt.Sprintf("[models]\nbench = \"bench:bench\"\n\n[providers.bench]\n"+
			"driver = %q\nbase_url = %q\napi_key = \"sk-bench\"\n[[providers.bench.models]]\nid = \"bench\"\n"+
			"context_window = 32000\nmax_output = 4000\n", format, provider.BaseURL(string(format))),
	}
	for i := range cachedRuns * cachedRounds {
		line := fmt.Sprintf("part %d of what is read. ", i+1)
		files[filepath.Join(w.project, partName(i+1))] = strings.Repeat(line+"\n", 60)
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

func partName(i int) string { return fmt.Sprintf("part%03d.txt", i) }

// cachedReader is a model that reads one file after the other, and ends each run after some rounds.
type cachedReader struct {
	mu     sync.Mutex
	asked  int // requests
	read   int // files
	failed error
}

func (r *cachedReader) answer(*fakellm.Request) fakellm.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.asked%(cachedRounds+1) == 0 {
		return fakellm.Step{fakellm.Say("These are read.")}
	}
	r.read++
	return fakellm.Step{
		fakellm.Think("The next part comes now."), fakellm.Tool("file.read", fmt.Sprintf(`{"path":%q}`, partName(r.read))),
	}
}

func (r *cachedReader) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = fmt.Errorf(format, args...)
}

func (r *cachedReader) problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
