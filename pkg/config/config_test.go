package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

const whole = `# The operator's.
operator_name = "Ada"

[models]
fast = "anthropic:claude-haiku"
smart = ["anthropic:claude-opus", "ollama:qwen3:32b"]

[providers.anthropic]
api_key = "${ANTHROPIC_API_KEY}"

[providers.ollama]
driver = "openai-chat"
base_url = "http://127.0.0.1:11434/v1"
headers = { X-Team = "one" }

[default_tools]
"shell.*" = { enabled = false }
"file.*" = { enabled = true }
"edit.text" = { enabled = true }

[limits]
max_steps = 7

[services.gateway]
listen = "unix:/run/g.sock"
idle_timeout = "90s"
`

// A complete file is parsed with all values, and in the written order where order matters.
func TestParse(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("local.toml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	wantModels := map[string]config.Targets{
		"fast":  {"anthropic:claude-haiku"},
		"smart": {"anthropic:claude-opus", "ollama:qwen3:32b"},
	}
	if d := cmp.Diff(wantModels, f.Models); d != "" {
		t.Error(d)
	}
	wantTools := []catalogue.Switch{
		{Pattern: "shell.*"},
		{Pattern: "file.*", Enabled: true},
		{Pattern: "edit.text", Enabled: true},
	}
	if d := cmp.Diff(wantTools, f.DefaultTools); d != "" {
		t.Error(d)
	}
	if got := f.Providers["anthropic"]; got.DriverOf("anthropic") != "anthropic" || got.APIKey != "${ANTHROPIC_API_KEY}" {
		t.Errorf("provider = %+v", got)
	}
	if f.OperatorName != "Ada" || f.Limits.MaxSteps != 7 {
		t.Errorf("read %+v", f)
	}
	if p, m, ok := config.SplitTarget("ollama:qwen3:32b"); !ok || p != "ollama" || m != "qwen3:32b" {
		t.Errorf("split into %q %q %v", p, m, ok)
	}
}

// A mistake is one sentence with line and column.
func TestMistakesHaveAPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"unknown key": {"[models]\na = \"p:m\"\n\n[provider.x]\nk = 1\n", `local.toml:4:2: unknown key "provider`},
		"unknown provider key": {
			"[providers.openai]\napi_kye = \"x\"\n", `local.toml:2:1: unknown key "providers.openai.api_kye"`,
		},
		"syntax": {"a = \n", "local.toml:1:"},
		"target": {
			"[models]\nfast = \"claude\"\n", `local.toml:2:1: models.fast: "claude" is not of the form provider:model`,
		},
		"target type": {"[models]\nfast = 3\n", "local.toml:2:1: models.fast: a target is"},
		"empty list":  {"[models]\nfast = []\n", "local.toml:2:1: models.fast: an alias needs"},
		"driver": {
			"[providers.acme]\nbase_url = \"http://x\"\n", `local.toml:1:12: providers.acme: driver "acme" is not one of`,
		},
		"limit":    {"[limits]\n  max_steps = -1\n", "local.toml:2:3: limits.max_steps: a limit is at least 1"},
		"no limit": {"limits.max_steps = 0\n", "local.toml:1:8: limits.max_steps: a limit is at least 1"},
		"limit over its own": {
			"[limits]\nmax_steps = 101\n", "local.toml:2:1: limits.max_steps: a run has at most 100 steps",
		},
		"too many agents": {
			"[limits]\nlive_agents = 1001\n", "local.toml:2:1: limits.live_agents: a session has at most 1000 agents at work",
		},
		"type": {
			"[limits]\nmax_steps = \"many\"\n", "local.toml:2:13: limits.max_steps: want a whole number, not a TOML string",
		},
		"type of a switch": {
			"[default_tools]\n\"file.*\" = {enabled = 1}\n",
			"local.toml:2:23: default_tools.file.*: want true or false, not a TOML integer",
		},
		"type of a table": {"providers = 3\n", "local.toml:1:13: providers: want a table, not a TOML integer"},
	} {
		_, err := config.Parse("local.toml", []byte(c.text))
		if !errors.Is(err, fault.BadRequest) || !strings.HasPrefix(fault.From(err).Msg, c.want) {
			t.Errorf("%s: error = %v, want %s", name, err, c.want)
		}
	}
}

// A missing file counts as empty; any other unreadable file is refused.
func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := config.Load(filepath.Join(dir, "none.toml"))
	if err != nil || len(f.Models) != 0 {
		t.Errorf("absent file: %v %v", f, err)
	}
	if _, err := config.Load(dir); !errors.Is(err, fault.BadRequest) {
		t.Errorf("a folder: %v", err)
	}
	big := filepath.Join(dir, "big.toml")
	if err := os.WriteFile(big, []byte("#"+strings.Repeat("x", config.MaxFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(big); !errors.Is(err, fault.BadRequest) {
		t.Errorf("an oversized file: %v", err)
	}
}

type serviceConfig struct {
	IdleTimeout config.Duration `toml:"idle_timeout"`
	MaxBytes    int64           `toml:"max_bytes"`
	Strict      bool            `toml:"strict"`
	Names       []string        `toml:"names"`
	Inner       struct {
		Depth int `toml:"depth"`
	} `toml:"inner"`
}

func (c *serviceConfig) Validate() error {
	if c.MaxBytes < 0 {
		return errors.New("max_bytes cannot be negative")
	}
	return nil
}

// The environment overrides the file and the file overrides the default; Validate runs last.
func TestDecode(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("local.toml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"KAGED_SERVICES_GATEWAY_MAX_BYTES": "12", "KAGED_SERVICES_GATEWAY_STRICT": "true",
		"KAGED_SERVICES_GATEWAY_NAMES": "a,b", "KAGED_SERVICES_GATEWAY_INNER_DEPTH": "3",
	}
	cfg := serviceConfig{IdleTimeout: config.Duration(time.Second), MaxBytes: 5}
	if err := f.Decode("gateway", &cfg, func(k string) string { return env[k] }); err != nil {
		t.Fatal(err)
	}
	if cfg.IdleTimeout.D() != 90*time.Second || cfg.MaxBytes != 12 || !cfg.Strict || len(cfg.Names) != 2 ||
		cfg.Inner.Depth != 3 {
		t.Errorf("decoded %+v", cfg)
	}
	listen, address, err := f.Place("gateway", func(k string) string {
		return map[string]string{"KAGED_SERVICES_GATEWAY_ADDRESS": "host:1"}[k]
	})
	if err != nil || !slices.Equal(listen, []string{"unix:/run/g.sock"}) || address != "host:1" {
		t.Errorf("place = %q %q %v", listen, address, err)
	}
	for name, bad := range map[string]map[string]string{
		"number": {"KAGED_SERVICES_GATEWAY_MAX_BYTES": "many"},
		"range":  {"KAGED_SERVICES_GATEWAY_MAX_BYTES": "-1"},
		"time":   {"KAGED_SERVICES_GATEWAY_IDLE_TIMEOUT": "soon"},
	} {
		if err := f.Decode("gateway", &cfg, func(k string) string { return bad[k] }); !errors.Is(err, fault.BadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.Services["gateway"]["no_such"] = 1
	if err := f.Decode("gateway", &cfg, os.Getenv); err == nil || !strings.Contains(err.Error(), `unknown key "no_such"`) {
		t.Errorf("unknown key: %v", err)
	}
}

// A secret may come from the file that its _file key names. A missing file, and two sources for one secret, are
// refused.
func TestWithFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, empty := filepath.Join(dir, "url"), filepath.Join(dir, "empty")
	for path, text := range map[string]string{url: "nats://s3cret@nats:4222\n", empty: " \n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		env        map[string]string
		want, fail string
	}{
		"neither":      {map[string]string{}, "", ""},
		"the variable": {map[string]string{"KAGED_NATS_URL": "nats://x"}, "nats://x", ""},
		"the file":     {map[string]string{"KAGED_NATS_URL_FILE": url}, "nats://s3cret@nats:4222", ""},
		"both":         {map[string]string{"KAGED_NATS_URL": "nats://x", "KAGED_NATS_URL_FILE": url}, "", "are both set"},
		"no file": {
			map[string]string{"KAGED_NATS_URL_FILE": filepath.Join(dir, "none")}, "", "cannot be read: no such file",
		},
		"empty file": {map[string]string{"KAGED_DATABASE_URL_FILE": empty}, "", "is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			getenv, err := config.WithFiles(func(k string) string { return c.env[k] })
			if c.fail != "" {
				if !errors.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), c.fail) {
					t.Errorf("got %v, want a refusal that says %q", err, c.fail)
				}
				return
			}
			if err != nil || getenv("KAGED_NATS_URL") != c.want {
				t.Errorf("got %q, %v, want %q", getenv("KAGED_NATS_URL"), err, c.want)
			}
		})
	}
}

// Expand replaces references from the environment and returns the names of the missing ones.
func TestExpand(t *testing.T) {
	t.Setenv("KAGED_TEST_KEY", "s3cret")
	got, missing := config.Expand("a-${KAGED_TEST_KEY}-$PLAIN-${KAGED_TEST_NONE}")
	if got != "a-s3cret-$PLAIN-" || cmp.Diff(missing, []string{"KAGED_TEST_NONE"}) != "" {
		t.Errorf("expanded to %q, missing %v", got, missing)
	}
}

// The parser does not panic on any input.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("[models]\na=[\"\"]\n[default_tools.\"x\"]\nenabled=true\n[[services.x]]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := config.Parse("f", data); err != nil && fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("unexpected code in %v", err)
		}
	})
}

// Limits are keys shared by several services.
type Limits struct {
	Depth int `toml:"depth"`
	Width int `toml:"width"`
}

// The keys of an embedded struct are in the same table as the others, in the file and in the environment.
func TestDecodeEmbedded(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("local.toml", []byte("[services.harness]\nname = \"h\"\ndepth = 2\nwidth = 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	var cfg struct {
		Name string `toml:"name"`
		Limits
	}
	env := map[string]string{"KAGED_SERVICES_HARNESS_WIDTH": "7"}
	if err := f.Decode("harness", &cfg, func(k string) string { return env[k] }); err != nil {
		t.Fatal(err)
	}
	if cfg.Name != "h" || cfg.Depth != 2 || cfg.Width != 7 {
		t.Errorf("got %+v, want the name h, the depth 2 of the file and the width 7 of the environment", cfg)
	}
	f.Services["harness"]["hight"] = 1
	if err := f.Decode("harness", &cfg, os.Getenv); err == nil || !strings.Contains(err.Error(), `unknown key "hight"`) {
		t.Errorf("an unknown key: got %v, want its name", err)
	}
}
