package localconfig

import (
	"maps"
	"slices"
	"strings"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/llm"
)

// The drivers that need special settings.
const (
	driverAnthropic  = "anthropic"
	driverGoogle     = "google"
	driverOpenAI     = "openai"
	driverOpenAIChat = "openai-chat"
	driverRehearsal  = "rehearsal"
)

// provider is a provider with its references resolved.
type provider struct {
	target   llm.Target           // without the model
	facts    map[string]llm.Facts // by model
	names    map[string]string    // for people, by model
	unusable *fault.Error
}

func (c *Config) target(target string) contract.Target {
	name, model, ok := config.SplitTarget(target)
	if !ok {
		return contract.Target{
			Target:   llm.Target{Provider: name, Model: model},
			Unusable: notConfigured(name, "%q is not of the form provider:model.", target),
		}
	}
	p, ok := c.providers[name]
	if !ok {
		return contract.Target{
			Target: llm.Target{Provider: name, Model: model},
			Unusable: notConfigured(name, "The provider %q is not configured: add [providers.%s] to local.toml.",
				name, name),
		}
	}
	t, unusable := p.target, p.unusable
	t.Model = model
	if expanded, missing := config.Expand(model); len(missing) == 0 {
		t.Model = expanded
	} else if unusable == nil {
		unusable = notConfigured(name, "The model %s refers to ${%s}, which is not set where kaged runs.", target,
			missing[0]).
			With("variable", missing[0])
	}
	t.Facts = p.facts[t.Model]
	return contract.Target{Target: t, Unusable: unusable}
}

// factsOf returns the operator's facts about a provider's models.
func factsOf(list []config.Model) map[string]llm.Facts {
	out := make(map[string]llm.Facts, len(list))
	for _, m := range list {
		f := llm.Facts{ContextWindow: m.ContextWindow, MaxOutput: m.MaxOutput}
		if p := m.Price; p != nil {
			f.Price = (*llm.Price)(p)
		}
		out[m.ID] = f
	}
	return out
}

// ModelName returns the operator's name for a model of a provider, or "".
func (c *Config) ModelName(provider, model string) string { return c.providers[provider].names[model] }

// namesOf returns the operator's names of a provider's models.
func namesOf(list []config.Model) map[string]string {
	out := make(map[string]string, len(list))
	for _, m := range list {
		out[m.ID] = m.Name
	}
	return out
}

func notConfigured(name, format string, args ...any) *fault.Error {
	return fault.New(fault.ProviderNotConfigured, format, args...).With("provider", name)
}

// resolve replaces a provider's references to the environment, and records missing parts.
func resolve(name string, p config.Provider, readScript func(path string) ([]byte, error)) provider {
	r := resolver{name: name}
	out := provider{target: llm.Target{
		Provider: name,
		Driver:   p.DriverOf(name),
		APIKey:   strings.TrimSpace(r.expand("api_key", p.APIKey)),
		BaseURL:  strings.TrimSpace(r.expand("base_url", p.BaseURL)),
		Headers:  make(map[string]string, len(p.Headers)),
	}}
	for _, h := range slices.Sorted(maps.Keys(p.Headers)) {
		out.target.Headers[h] = r.expand("headers."+h, p.Headers[h])
	}
	switch {
	case r.unusable != nil:
	case out.target.Driver == driverRehearsal:
		out.target.Script, r.unusable = script(name, p.Script, readScript)
	case version(out.target) != "":
		r.unusable = notConfigured(name, "providers.%s.base_url ends in %s, which the driver adds itself: leave it out.",
			name, version(out.target))
	case out.target.APIKey == "" && needsKey(out.target):
		r.unusable = notConfigured(name, "The provider %q has no API key: set providers.%s.api_key in local.toml.", name,
			name)
	}
	out.unusable, out.facts, out.names = r.unusable, factsOf(p.Models), namesOf(p.Models)
	return out
}

// versions are the version paths that drivers append to a base URL themselves.
var versions = map[string][]string{driverAnthropic: {"/v1"}, driverGoogle: {"/v1beta", "/v1"}}

// version returns the version path at the end of a base URL, where it must not be.
func version(t llm.Target) string {
	for _, v := range versions[t.Driver] {
		if strings.HasSuffix(strings.TrimRight(t.BaseURL, "/"), v) {
			return v
		}
	}
	return ""
}

// resolver records the first reference without a value.
type resolver struct {
	name     string
	unusable *fault.Error
}

func (r *resolver) expand(key, value string) string {
	expanded, missing := config.Expand(value)
	if len(missing) > 0 && r.unusable == nil {
		r.unusable = notConfigured(r.name, "providers.%s.%s refers to ${%s}, which is not set where kaged runs.", r.name, key,
			missing[0]).
			With("variable", missing[0])
	}
	return expanded
}

// needsKey reports whether the provider cannot work without a key: the vendors' own servers need one, but an
// OpenAI-compatible server of the operator may not need a key, and a proxy may take its credentials from a header.
func needsKey(t llm.Target) bool {
	for h := range t.Headers {
		if config.CarriesKey(h) {
			return false
		}
	}
	return t.BaseURL == "" || t.Driver != driverOpenAI && t.Driver != driverOpenAIChat
}

func script(name, path string, read func(path string) ([]byte, error)) ([]byte, *fault.Error) {
	if path == "" {
		return nil, notConfigured(name, "The provider %q plays a script: set providers.%s.script in local.toml.", name, name)
	}
	data, err := read(path)
	if err != nil {
		return nil,
			fault.Wrap(err, fault.ProviderNotConfigured, "The script %s of the provider %q cannot be read.", path, name).
				With("provider", name)
	}
	return data, nil
}
