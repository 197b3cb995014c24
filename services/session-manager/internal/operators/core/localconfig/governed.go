package localconfig

import (
	"context"
	"sync"
	"time"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// Rule is what an administrator set for an operator. Nil limits and budgets leave those of the configuration.
type Rule struct {
	Limits *Limits
	Budget *config.Budget
	// DisabledAt is when the operator was disabled, 0 for never.
	DisabledAt int64
	// Layers are the configurations of the operator in TOML, in the order in which they are laid over the deployment's:
	// the operator's own, then the administrators', which win. An empty one changes nothing.
	Layers []Layer
	// Revision grows with each change, from 1; 0 is no rule.
	Revision uint64
}

// Rules keeps the rules of operators.
type Rules interface {
	// Rule returns the rule of an operator, a zero one without any. It fails with unavailable.
	Rule(ctx context.Context, operator string) (Rule, error)
}

// ruleAge is how long a rule is used before it is read again: how soon a change counts.
const ruleAge = time.Second

// Governed is the configuration of a deployment under the rules of its administrators, which win. It is safe for
// concurrent use.
type Governed struct {
	Inner Source
	Rules Rules

	mu    sync.Mutex // guards the map
	known map[string]knownRule
}

type knownRule struct {
	Rule
	read   time.Time
	layers []*config.File // of Rule.Layers
	broken error          // of a layer that this version of kaged does not accept
}

// maxKnown bounds the remembered rules.
const maxKnown = 10_000

// Config implements [Source].
func (g *Governed) Config(ctx context.Context, operator string) (*Config, error) {
	c, err := g.Inner.Config(ctx, operator)
	if err != nil || operator == "" {
		return c, err
	}
	rule, err := g.rule(ctx, operator)
	if err != nil || rule.Revision == 0 {
		return c, err
	}
	if rule.broken != nil {
		return nil, rule.broken
	}
	own := *c
	own.revision += rule.Revision << 32
	for _, layer := range rule.layers {
		own.lay(layer)
	}
	if rule.Limits != nil {
		own.limits = rule.Limits.over(c.limits)
	}
	if rule.Budget != nil {
		own.budget = *rule.Budget
		own.budget.Unpriced = c.budget.Unpriced
	}
	return &own, nil
}

// Admit fails with forbidden, details.reason operator_disabled, for a disabled operator.
func (g *Governed) Admit(ctx context.Context, operator string) error {
	rule, err := g.rule(ctx, operator)
	if err == nil && rule.DisabledAt > 0 {
		return fault.New(fault.Forbidden, "An administrator has disabled this operator.").With("reason", "operator_disabled")
	}
	return err
}

func (g *Governed) rule(ctx context.Context, operator string) (knownRule, error) {
	g.mu.Lock()
	k, ok := g.known[operator]
	g.mu.Unlock()
	if ok && time.Since(k.read) < ruleAge {
		return k, nil
	}
	at := time.Now()
	rule, err := g.Rules.Rule(ctx, operator)
	if err != nil {
		return knownRule{}, err
	}
	if k.read = at; !ok || k.Revision != rule.Revision {
		k = knownRule{Rule: rule, read: at}
		k.layers, k.broken = parseLayers(rule.Layers)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= maxKnown {
		g.known = map[string]knownRule{}
	}
	g.known[operator] = k
	return k, nil
}

// over returns the limits of l where it has some, and others else.
func (l Limits) over(others Limits) Limits {
	for _, p := range []struct{ own, other *int }{
		{&l.SessionsPerProject, &others.SessionsPerProject},
		{&l.SessionsPerOperator, &others.SessionsPerOperator},
		{&l.MaxSteps, &others.MaxSteps},
		{&l.LiveAgents, &others.LiveAgents},
		{&l.RequestsPerMinute, &others.RequestsPerMinute},
		{&l.MessagesPerMinute, &others.MessagesPerMinute},
		{&l.ValidationsPerMinute, &others.ValidationsPerMinute},
		{&l.DSLWritesPerMinute, &others.DSLWritesPerMinute},
		{&l.AuditReadsPerMinute, &others.AuditReadsPerMinute},
	} {
		if *p.own == 0 {
			*p.own = *p.other
		}
	}
	return l
}
