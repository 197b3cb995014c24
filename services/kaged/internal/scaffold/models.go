package scaffold

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"kaged.dev/pkg/config"
)

// Recommended are the aliases that kaged suggests, in the order in which they are bound.
var Recommended = []string{"smart-generalist", "smart-careful", "low-cost-fast", "low-cost-coder", "local-only", "tiny"}

// candidate is a provider, with the environment variable that may have its key.
type candidate struct {
	name, driver, variable, baseURL string
	smart, careful, cheap           string
}

// candidates are in the order in which they are tried.
var candidates = []candidate{
	{
		name:     "anthropic",
		driver:   "anthropic",
		variable: "ANTHROPIC_API_KEY",
		smart:    "claude-sonnet-5-5",
		careful:  "claude-opus-5-5",
		cheap:    "claude-haiku-5-5",
	},
	{
		name:     "openai",
		driver:   "openai",
		variable: "OPENAI_API_KEY",
		smart:    "gpt-5.5",
		careful:  "gpt-5.5",
		cheap:    "gpt-5.4-mini",
	},
	{
		name: "gemini", driver: "google", variable: "GEMINI_API_KEY",
		smart: "gemini-pro-latest", careful: "gemini-pro-latest", cheap: "gemini-flash-latest",
	},
}

// Binding is the result of [Bind].
type Binding struct {
	// Provider is the provider found; it may be empty.
	Provider string
	// Variable is the environment variable with its key, empty for a server without one.
	Variable string
	// Usable is true if the alias of a new project is bound, by this call or before.
	Usable bool
	// Aliases are the aliases that this call bound, in order; aliases bound before are not changed.
	Aliases []string
}

// Bind finds Anthropic, OpenAI and Gemini by their keys in the environment, and then an Ollama server. It binds the
// recommended aliases that the configuration at path does not bind yet to the first provider found. It stores "${VAR}"
// and never a key. Without any provider it does not change the file.
func Bind(ctx context.Context, path string, getenv func(string) string) (Binding, error) {
	found, ok := findProvider(ctx, getenv)
	if !ok {
		current, err := config.Load(path)
		if err != nil {
			return Binding{}, err
		}
		_, usable := current.Models[DefaultAlias]
		return Binding{Usable: usable}, nil
	}
	b := Binding{Provider: found.name, Variable: found.variable, Usable: true}
	err := config.Edit(path, func(data []byte) ([]byte, error) {
		current, err := config.Parse(path, data)
		if err != nil {
			return nil, err
		}
		out, err := b.bind(data, current, found)
		if len(b.Aliases) == 0 {
			return data, err
		}
		return out, err
	})
	if err != nil {
		return Binding{}, err
	}
	return b, nil
}

// bind returns the configuration with the provider and the unbound aliases added. It records the aliases in b.
func (b *Binding) bind(data []byte, current *config.File, found candidate) ([]byte, error) {
	data, err := addProvider(data, current, found)
	if err != nil {
		return nil, err
	}
	for _, alias := range Recommended {
		if _, bound := current.Models[alias]; bound || alias == "local-only" && found.name != "ollama" {
			continue
		}
		if data, err = config.Set(data, []string{"models", alias},
			config.Quote(found.name+":"+found.modelFor(alias))); err != nil {
			return nil, err
		}
		b.Aliases = append(b.Aliases, alias)
	}
	return data, nil
}

func addProvider(data []byte, current *config.File, c candidate) ([]byte, error) {
	if _, there := current.Providers[c.name]; there {
		return data, nil
	}
	keys := [][2]string{{"driver", c.driver}, {"base_url", c.baseURL}}
	if c.variable != "" {
		keys = append(keys, [2]string{"api_key", "${" + c.variable + "}"})
	}
	var err error
	for _, kv := range keys {
		if kv[1] == "" {
			continue
		}
		if data, err = config.Set(data, []string{"providers", c.name, kv[0]}, config.Quote(kv[1])); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func (c candidate) modelFor(alias string) string {
	switch alias {
	case "smart-careful":
		return c.careful
	case "low-cost-fast", "low-cost-coder", "tiny":
		return c.cheap
	}
	return c.smart
}

func findProvider(ctx context.Context, getenv func(string) string) (candidate, bool) {
	for _, c := range candidates {
		if getenv(c.variable) != "" {
			return c, true
		}
	}
	return findOllama(ctx, getenv)
}

// ollamaTimeout is the time limit for finding a local server.
const ollamaTimeout = 500 * time.Millisecond

// findOllama requests the models of the server at OLLAMA_HOST, or at its usual address, and uses the first one.
func findOllama(ctx context.Context, getenv func(string) string) (candidate, bool) {
	base := config.Or(getenv("OLLAMA_HOST"), "127.0.0.1:11434")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	base = strings.TrimSuffix(base, "/")
	ctx, cancel := context.WithTimeout(ctx, ollamaTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/tags", nil)
	if err != nil {
		return candidate{}, false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return candidate{}, false
	}
	defer resp.Body.Close()
	var tags struct {
		Models []struct{ Name string }
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&tags) != nil ||
		len(tags.Models) == 0 {
		return candidate{}, false
	}
	m := tags.Models[0].Name
	return candidate{name: "ollama", driver: "openai-chat", baseURL: base + "/v1", smart: m, careful: m, cheap: m}, true
}
