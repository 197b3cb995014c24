package localconfig_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
)

// file writes text as local.toml in a new folder.
func file(t *testing.T, text string) (path string, source *localconfig.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "local.toml")
	write(t, path, text)
	return path, localconfig.NewFile(path, 1<<20, slog.New(slog.DiscardHandler))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, source localconfig.Source) *localconfig.Config {
	t.Helper()
	c, err := source.Config(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An alias has its targets in order, with keys and headers resolved. H-PROV-ALIAS-01, H-PROV-CRED-02.
func TestRoute(t *testing.T) {
	t.Setenv("KAGED_TEST_KEY", "s3cret")
	_, source := file(t, `
[models]
smart = ["anthropic:claude-opus", "box:qwen3:32b"]
[providers.anthropic]
api_key = "${KAGED_TEST_KEY}"
headers = { X-Team = "one-${KAGED_TEST_KEY}" }
[providers.box]
driver = "openai-chat"
base_url = "http://127.0.0.1:11434/v1"
`)
	route, err := read(t, source).Route("smart")
	if err != nil {
		t.Fatal(err)
	}
	want := contract.Route{Alias: "smart", Targets: []contract.Target{
		{Target: llm.Target{
			Provider: "anthropic", Model: "claude-opus", Driver: "anthropic", APIKey: "s3cret",
			Headers: map[string]string{"X-Team": "one-s3cret"},
		}},
		{Target: llm.Target{
			Provider: "box", Model: "qwen3:32b", Driver: "openai-chat", BaseURL: "http://127.0.0.1:11434/v1",
			Headers: map[string]string{},
		}},
	}}
	if d := cmp.Diff(want, route); d != "" {
		t.Error(d)
	}
	if first, ok := read(t, source).Binding("smart"); !ok || first != "anthropic:claude-opus" {
		t.Errorf("binding = %q %v", first, ok)
	}
}

// An unbound alias is refused with the specification's sentence. H-DSL-ERR-02.
func TestUnknownAlias(t *testing.T) {
	_, source := file(t, "")
	_, err := read(t, source).Route("fast")
	if !errors.Is(err, fault.ModelAliasNotFound) ||
		fault.From(err).Msg != "Model alias 'fast' not found in local config." {
		t.Errorf("err = %v", err)
	}
	if _, ok := read(t, source).Binding("fast"); ok {
		t.Error("an unbound alias has a binding")
	}
}

// A target with a missing or incomplete provider has the reason in a sentence; the other targets are not affected.
func TestUnusableTargets(t *testing.T) {
	t.Setenv("KAGED_TEST_EMPTY", "")
	_, source := file(t, `
[providers.anthropic]
[providers.proxied]
driver = "anthropic"
base_url = "https://proxy.example"
[providers.twice]
driver = "anthropic"
api_key = "k"
base_url = "https://proxy.example/v1/"
[providers.beta]
driver = "google"
api_key = "k"
base_url = "https://proxy.example/v1beta"
[providers.google]
api_key = "k"
base_url = "https://proxy.example/gemini"
[providers.header]
driver = "anthropic"
headers = { X-API-Key = "k" }
[providers.openai]
[providers.mine]
driver = "openai"
base_url = "http://127.0.0.1:1/v1"
[providers.env]
driver = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
api_key = "${KAGED_TEST_EMPTY}"
[providers.play]
driver = "rehearsal"
[providers.lost]
driver = "rehearsal"
script = "none.yaml"
`)
	c := read(t, source)
	for target, sentence := range map[string]string{
		"nobody:m":    `The provider "nobody" is not configured: add [providers.nobody] to local.toml.`,
		"anthropic:m": `The provider "anthropic" has no API key`,
		"proxied:m":   `The provider "proxied" has no API key`,
		"twice:m":     "providers.twice.base_url ends in /v1, which the driver adds itself: leave it out.",
		"beta:m":      "providers.beta.base_url ends in /v1beta, which the driver adds itself: leave it out.",
		"google:m":    "",
		"header:m":    "",
		"openai:m":    `The provider "openai" has no API key`,
		"mine:m":      "",
		"env:m":       "providers.env.api_key refers to ${KAGED_TEST_EMPTY}, which is not set",
		"play:m":      `The provider "play" plays a script`,
		"lost:m":      `The script none.yaml of the provider "lost" cannot be read.`,
		"no target":   `"no target" is not of the form provider:model.`,
	} {
		got := c.RouteTo(target).Targets[0]
		if sentence == "" {
			if got.Unusable != nil {
				t.Errorf("%s: %v", target, got.Unusable)
			}
			continue
		}
		if !errors.Is(got.Unusable, fault.ProviderNotConfigured) || !strings.HasPrefix(got.Unusable.Msg, sentence) ||
			got.Unusable.Details["provider"] != got.Provider {
			t.Errorf("%s: %+v", target, got.Unusable)
		}
	}
}

// An edit takes effect at the next use, even if the file's size is unchanged, and changes the revision. H-DSL-TRIG-04.
func TestEditCounts(t *testing.T) {
	path, source := file(t, "[models]\nfast = \"a:1\"\n")
	first := read(t, source)
	if again := read(t, source); again != first {
		t.Error("an unchanged file is another configuration")
	}
	write(t, path, "[models]\nfast = \"a:2\"\n")
	second := read(t, source)
	if b, _ := second.Binding("fast"); b != "a:2" || second.Revision() == first.Revision() {
		t.Errorf("after the edit: %q, revision %d and %d", b, first.Revision(), second.Revision())
	}
	if b, _ := first.Binding("fast"); b != "a:1" {
		t.Errorf("a configuration in use changed to %q", b)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, ok := read(t, source).Binding("fast"); ok {
		t.Error("a removed file still binds")
	}
	write(t, path+".new", "[models]\nfast = \"a:3\"\n")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if b, _ := read(t, source).Binding("fast"); b != "a:3" {
		t.Errorf("after the rename: %q", b)
	}
}

// A file that has settled is not read again until it changes.
func TestSettledFile(t *testing.T) {
	path, source := file(t, "operator_name = \"Ada\"\n")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	first := read(t, source)
	if read(t, source) != first || first.Preferences().OperatorName != "Ada" {
		t.Errorf("preferences = %+v", first.Preferences())
	}
	write(t, path, "operator_name = \"Eve\"\n")
	if read(t, source).Preferences().OperatorName != "Eve" {
		t.Error("the edit was not seen")
	}
}

// An invalid file stops new work with the position of the mistake; correcting it is enough.
func TestBrokenFile(t *testing.T) {
	path, source := file(t, "[models]\nfast = \"a:1\"\n")
	read(t, source)
	write(t, path, "[models]\nfast = \"a:1\"\n\n[modles]\n")
	_, err := source.Config(t.Context(), "ada")
	f := fault.From(err)
	if !errors.Is(err, fault.LocalConfigInvalid) || f.Details["line"] != 4 || f.Details["path"] != path ||
		!strings.Contains(f.Msg, "modles") {
		t.Errorf("err = %v, details %v", err, f.Details)
	}
	write(t, path, "[models]\nfast = \"a:2\"\n")
	if b, _ := read(t, source).Binding("fast"); b != "a:2" {
		t.Errorf("mended: %q", b)
	}
}

// A script is read relative to local.toml, and an edit of it takes effect like one of local.toml.
func TestRehearsalScript(t *testing.T) {
	path, source := file(t, "[providers.play]\ndriver = \"rehearsal\"\nscript = \"play.yaml\"\n")
	script := filepath.Join(filepath.Dir(path), "play.yaml")
	if read(t, source).RouteTo("play:x").Targets[0].Unusable == nil {
		t.Error("a missing script is usable")
	}
	write(t, script, "one")
	first := read(t, source)
	if got := first.RouteTo("play:x").Targets[0]; string(got.Script) != "one" || got.Unusable != nil {
		t.Errorf("script = %q, %v", got.Script, got.Unusable)
	}
	write(t, script, "two")
	if got := read(t, source); string(got.RouteTo("play:x").Targets[0].Script) != "two" ||
		got.Revision() == first.Revision() {
		t.Error("the script's edit was not seen")
	}
	write(t, script, strings.Repeat("x", 1<<20+1))
	if read(t, source).RouteTo("play:x").Targets[0].Unusable == nil {
		t.Error("an oversized script is usable")
	}
}

// A key in the file works. The log has one warning per change, without the key. H-PROV-CRED-02.
func TestRawKeyIsWarnedOf(t *testing.T) {
	t.Setenv("KAGED_TEST_KEY", "s3cret")
	path := filepath.Join(t.TempDir(), "local.toml")
	var log bytes.Buffer
	source := localconfig.NewFile(path, 1<<20, slog.New(slog.NewTextHandler(&log, nil)))
	write(t, path, "[providers.anthropic]\napi_key = \"${KAGED_TEST_KEY}\"\n[providers.openai]\n")
	read(t, source)
	if log.Len() > 0 {
		t.Errorf("a reference is warned of: %s", &log)
	}
	write(t, path, "[providers.anthropic]\napi_key = \"sk-ant-0123\"\n[providers.proxy]\ndriver = \"openai\"\nbase_url "+
		"= \"http://x\"\n"+
		"headers = {Authorization = \"Bearer sk-ant-4567\", X-Team = \"blue\"}\n")
	if target := read(t, source).RouteTo("anthropic:x").Targets[0]; target.APIKey != "sk-ant-0123" ||
		target.Unusable != nil {
		t.Errorf("a raw key leads to %+v", target)
	}
	read(t, source)
	got := log.String()
	if strings.Count(got, "providers.anthropic.api_key") != 1 ||
		strings.Count(got, "providers.proxy.headers.Authorization") != 1 ||
		strings.Count(got, "level=WARN") != 2 || strings.Contains(got, "sk-ant") {
		t.Errorf("the log says %q", got)
	}
}

// Rules keep the order of the file, and an operator without a configuration has an empty one.
func TestRulesAndLimits(t *testing.T) {
	_, source := file(t, "[default_tools]\n\"shell.*\" = {enabled = true}\n\"file.*\" = {enabled = "+
		"false}\n[limits]\nmax_steps = 7\nlive_agents = 3\n[ui]\ntheme = \"dark\"\n")
	c := read(t, source)
	want := []catalogue.Switch{{Pattern: "shell.*", Enabled: true}, {Pattern: "file.*"}}
	if d := cmp.Diff(want, c.ToolRules()); d != "" || c.Limits().MaxSteps != 7 || c.Limits().LiveAgents != 3 ||
		c.Preferences().Theme != "dark" {
		t.Error(d, c.Limits(), c.Preferences())
	}
	if empty := read(t, localconfig.NewFile("", 1<<20, slog.New(slog.DiscardHandler))); len(empty.ToolRules()) != 0 ||
		empty.Preferences() != (localconfig.Preferences{}) {
		t.Errorf("no file: %+v", empty)
	}
}

// Simultaneous reads and a write are safe.
func TestConcurrentUse(t *testing.T) {
	path, source := file(t, "[models]\nfast = \"a:1\"\n")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				if c, err := source.Config(t.Context(), ""); err == nil {
					c.Route("fast")
				}
			}
		})
	}
	for range 20 {
		write(t, path, "[models]\nfast = \"a:2\"\n")
	}
	wg.Wait()
	if b, _ := read(t, source).Binding("fast"); b != "a:2" {
		t.Errorf("in the end: %q", b)
	}
}

// The operator's facts about a provider's model apply only to calls of that model.
func TestFactsOfModels(t *testing.T) {
	_, source := file(t, `
[providers.box]
driver = "openai-chat"
base_url = "http://127.0.0.1:1/v1"
[[providers.box.models]]
id = "qwen3:32b"
context_window = 40960
max_output = 8192
price = {input = 0.5, output = 1.5, cache_read = 0.05, cache_write = 0.6}
`)
	c := read(t, source)
	want := llm.Facts{
		ContextWindow: 40960, MaxOutput: 8192, Price: &llm.Price{Input: 0.5, Output: 1.5, CacheRead: 0.05, CacheWrite: 0.6},
	}
	if d := cmp.Diff(want, c.RouteTo("box:qwen3:32b").Targets[0].Facts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(llm.Facts{}, c.RouteTo("box:other").Targets[0].Facts); d != "" {
		t.Errorf("another model: %s", d)
	}
}
