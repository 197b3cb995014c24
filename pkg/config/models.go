package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Targets are "provider:model" pairs. In the file a single target may be written without a list.
type Targets []string

// Provider is a model provider.
type Provider struct {
	// Driver is the wire format: anthropic, openai, openai-chat, google or rehearsal. Empty means the provider's name, if
	// that is a driver.
	Driver string `toml:"driver"`
	// APIKey is "${VAR}" for a key in the environment, or the key itself, which works with a warning.
	APIKey string `toml:"api_key"`
	// BaseURL replaces the driver's own address: without a version path for anthropic and google, with /v1 for the
	// OpenAI kinds.
	BaseURL string `toml:"base_url"`
	// Headers are sent with every request.
	Headers map[string]string `toml:"headers"`
	// Script is the rehearsal driver's script: a path, relative to the configuration file.
	Script string `toml:"script"`
	// Models are facts about models that add to or override the built-in catalogue.
	Models []Model `toml:"models"`
}

// Model holds the operator's facts of one model of a provider. Each given value overrides the catalogue.
type Model struct {
	// ID is the model's id at the provider, as in provider:model.
	ID string `toml:"id"`
	// Name is a display name: settings and kaged doctor show it beside the id.
	Name string `toml:"name"`
	// ContextWindow is the context window in tokens.
	ContextWindow int `toml:"context_window"`
	// MaxOutput is the maximum answer in tokens.
	MaxOutput int `toml:"max_output"`
	// Price is in US dollars per million tokens.
	Price *ModelPrice `toml:"price"`
}

// ModelPrice is a price in US dollars per million tokens.
type ModelPrice struct {
	// Input is the price of uncached input.
	Input float64 `toml:"input"`
	// Output is the price of output.
	Output float64 `toml:"output"`
	// CacheRead is the price of input read from the provider's cache.
	CacheRead float64 `toml:"cache_read"`
	// CacheWrite is the price of input written to the provider's cache.
	CacheWrite float64 `toml:"cache_write"`
}

// Drivers are the wire formats a provider may speak.
var Drivers = []string{"anthropic", "openai", "openai-chat", "google", "rehearsal"}

// targetForm is the form provider:model, with the first colon as separator.
var targetForm = regexp.MustCompile(`^[^:\s]+:\S+$`)

// readModels parses the value of each alias: one target, or a list of them.
func (f *File) readModels(data []byte, models map[string]any) error {
	f.Models = make(map[string]Targets, len(models))
	for alias, value := range models {
		var targets Targets
		switch v := value.(type) {
		case string:
			targets = Targets{v}
		case []any:
			for _, item := range v {
				t, ok := item.(string)
				if !ok {
					return f.wrong(data, []string{"models", alias}, "a list of targets holds strings only")
				}
				targets = append(targets, t)
			}
		default:
			return f.wrong(data, []string{"models", alias}, `a target is "provider:model", or a list of them`)
		}
		if len(targets) == 0 {
			return f.wrong(data, []string{"models", alias}, "an alias needs at least one target")
		}
		for _, t := range targets {
			if !targetForm.MatchString(t) {
				return f.wrong(data, []string{"models", alias}, fmt.Sprintf("%q is not of the form provider:model", t))
			}
		}
		f.Models[alias] = targets
	}
	return nil
}

// driverWanted describes the allowed drivers of a provider; its name is the default.
func driverWanted(said, driver string) string {
	hint := ""
	if said == "" {
		hint = "; set driver to one, or name the provider like it"
	}
	return fmt.Sprintf("driver %q is not one of %s%s", driver, strings.Join(Drivers, ", "), hint)
}

func (f *File) validateProviders(data []byte) error {
	for name, p := range f.Providers {
		if strings.Contains(name, ":") {
			return f.wrong(data, []string{"providers", name}, "a provider's name cannot hold a colon")
		}
		if d := p.DriverOf(name); !slices.Contains(Drivers, d) {
			return f.wrong(data, []string{"providers", name}, driverWanted(p.Driver, d))
		}
		if wrong := wrongModel(p.Models); wrong != "" {
			return f.wrong(data, []string{"providers", name, "models"}, wrong)
		}
	}
	return nil
}

// maxModelTokens limits the window and the answers of a model, maxModelPrice its prices.
const (
	maxModelTokens = 100_000_000
	maxModelPrice  = 1_000_000
)

// wrongModel returns the error in a list of models, "" for a valid list.
func wrongModel(list []Model) string {
	seen := map[string]bool{}
	for _, m := range list {
		switch {
		case m.ID == "":
			return "a model has an id, as in provider:model"
		case seen[m.ID]:
			return fmt.Sprintf("the model %q stands twice", m.ID)
		case m.ContextWindow < 0 || m.ContextWindow > maxModelTokens:
			return fmt.Sprintf("context_window of %q is from 1 to %d tokens", m.ID, maxModelTokens)
		case m.MaxOutput < 0 || m.MaxOutput > maxModelTokens:
			return fmt.Sprintf("max_output of %q is from 1 to %d tokens", m.ID, maxModelTokens)
		}
		seen[m.ID] = true
		if p := m.Price; p != nil {
			for _, usd := range []float64{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
				if !(usd >= 0 && usd <= maxModelPrice) {
					return fmt.Sprintf("a price of %q is from 0 to %d US dollars for a million tokens", m.ID, maxModelPrice)
				}
			}
		}
	}
	return ""
}

// DriverOf returns the driver of the provider with the given name.
func (p Provider) DriverOf(name string) string {
	if p.Driver != "" {
		return p.Driver
	}
	return name
}

// SplitTarget splits "provider:model" at the first colon.
func SplitTarget(target string) (provider, model string, ok bool) {
	provider, model, ok = strings.Cut(target, ":")
	return provider, model, ok && provider != "" && model != ""
}
