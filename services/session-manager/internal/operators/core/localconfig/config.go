// Package localconfig is an operator's own configuration: the targets of model aliases, the providers' keys, the rules
// for tools, and preferences. It never comes from a project.
//
// A [Source] returns a [Config], an immutable view with every reference resolved. After a change the source returns a
// new one, so a consumer of the present bindings requests it before each use. [File] is the source of a single
// operator, local.toml; operators of a shared daemon can have another one with the same interface.
package localconfig

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"time"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
)

// Source returns operators' configurations. It is safe for concurrent use.
type Source interface {
	// Config returns the present configuration of one operator. It fails with local_config_invalid (details path, line and
	// column if known) while the configuration cannot be used; then work that needs it must not start.
	Config(ctx context.Context, userID string) (*Config, error)
}

// Config is one operator's configuration at one time. It never changes and is safe for concurrent use.
type Config struct {
	revision    uint64
	models      map[string][]string
	providers   map[string]provider
	toolRules   []catalogue.Switch
	preferences Preferences
	limits      Limits
	asksFirst   bool
	budget      config.Budget
	dormant     []Dormant
}

// Dormant is a key of the configuration without effect: the full key, and a sentence about it.
type Dormant struct{ Key, Message string }

// Preferences are an operator's settings of the console; empty stands for the default.
type Preferences struct {
	OperatorName, Theme, Timezone, Locale string
}

// Limits are the limits of an operator's work; 0 stands for the default.
type Limits struct {
	SessionsPerProject, SessionsPerOperator, MaxSteps, LiveAgents int
	// The other fields are rate limits, in requests of a kind per minute.
	RequestsPerMinute, MessagesPerMinute, ValidationsPerMinute, DSLWritesPerMinute, AuditReadsPerMinute int
}

// Revision differs between two Configs of one source with different content.
func (c *Config) Revision() uint64 { return c.revision }

// Preferences returns the console's settings.
func (c *Config) Preferences() Preferences { return c.preferences }

// Limits returns the limits of the operator's work.
func (c *Config) Limits() Limits { return c.limits }

// Budget returns the operator's budget for a period.
func (c *Config) Budget() contract.Budget {
	b := c.budget
	return contract.Budget{
		Limit:         contract.Amount{NanoUSD: dsl.Nano(b.USD), Tokens: b.Tokens, Calls: b.Calls},
		AllowUnpriced: b.Unpriced == config.UnpricedAllow, Per: cmp.Or(b.Per, config.PerDay),
	}
}

// BudgetSince returns the start of the budget's period that contains a time, in milliseconds.
func (c *Config) BudgetSince(at time.Time) int64 {
	at = at.UTC()
	y, m, d := at.Date()
	switch c.budget.Per {
	case config.PerMonth:
		d = 1
	case config.PerWeek:
		d -= (int(at.Weekday()) + 6) % 7
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).UnixMilli()
}

// AsksFirst reports whether the first load of a project needs an operator's approval.
func (c *Config) AsksFirst() bool { return c.asksFirst }

// Dormant returns the keys that have no effect.
func (c *Config) Dormant() []Dormant { return slices.Clone(c.dormant) }

// ToolRules returns the operator's rules for tools, in the order they were written. The caller may keep it.
func (c *Config) ToolRules() []catalogue.Switch { return slices.Clone(c.toolRules) }

// Binding returns the first target of an alias, as "provider:model", and whether the alias is bound.
func (c *Config) Binding(alias string) (string, bool) {
	targets, ok := c.models[alias]
	if !ok {
		return "", false
	}
	return targets[0], true
}

// Route returns the targets of an alias: at least one, each usable or with the reason why it is not. It fails with
// model_alias_not_found if the alias is not bound.
func (c *Config) Route(alias string) (contract.Route, error) {
	targets, ok := c.models[alias]
	if !ok {
		return contract.Route{}, fault.New(fault.ModelAliasNotFound, "Model alias '%s' not found in local config.", alias).
			With("alias", alias)
	}
	route := contract.Route{Alias: alias, Targets: make([]contract.Target, len(targets))}
	for i, t := range targets {
		route.Targets[i] = c.target(t)
	}
	return route, nil
}

// RouteTo returns the route of a session's override: one target, "provider:model", which may be unusable.
func (c *Config) RouteTo(target string) contract.Route {
	return contract.Route{Alias: target, Targets: []contract.Target{c.target(target)}}
}

// Aliases returns the routes of all aliases by name.
func (c *Config) Aliases() []contract.Route {
	var list []contract.Route
	for _, alias := range slices.Sorted(maps.Keys(c.models)) {
		route, _ := c.Route(alias) // it is bound
		list = append(list, route)
	}
	return list
}

// Provider is a provider in the form for people: without a secret.
type Provider struct {
	Name, Driver string
	// BaseURL has neither credentials nor a query; "" stands for the driver's own.
	BaseURL string
	// HasKey is true if it has its own key.
	HasKey bool
	// Headers are the names of its own headers.
	Headers []string
	// Unusable is the reason why it cannot be called, nil if it can.
	Unusable *fault.Error
}

// Providers returns the providers by name.
func (c *Config) Providers() []Provider {
	var list []Provider
	for _, name := range slices.Sorted(maps.Keys(c.providers)) {
		p := c.providers[name]
		list = append(list, Provider{
			Name: name, Driver: p.target.Driver, BaseURL: withoutSecrets(p.target.BaseURL),
			HasKey:  p.target.APIKey != "",
			Headers: slices.Sorted(maps.Keys(p.target.Headers)), Unusable: p.unusable,
		})
	}
	return list
}

// withoutSecrets returns a URL without the parts that may contain a key. It returns "" for a text that is no URL.
func withoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
