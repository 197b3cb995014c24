// Package doctor checks the parts of kaged and suggests fixes. It only reads, and sends no request to a provider of
// models.
package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/session-manager/internal/operators/core/localconfig"
)

// Workspace examines the machine of a workspace.
type Workspace interface {
	Examine(ctx context.Context, workspace string) (contract.Machine, error)
}

// Places returns the workspace of an operator, "" for the default one or if the operator lacks one.
type Places interface {
	Current(ctx context.Context, operator string) (string, error)
}

// Part is a part of kaged that can be checked.
type Part struct {
	Name string
	// Check returns the finding, or fails.
	Check func(ctx context.Context) (found string, err error)
}

// Report is the result of the checks.
type Report struct {
	// OK is true if all necessary parts work and cages can be created.
	OK bool
	contract.Machine
}

// Doctor runs checks. It is safe for concurrent use.
type Doctor struct {
	Local     localconfig.Source
	Workspace Workspace
	Places    Places
	// Parts are checked in this order.
	Parts []Part
}

// patience is the time limit for the answer of each part.
const patience = 10 * time.Second

// Look runs all checks for an operator. If a part does not answer, its check has that result.
func (d *Doctor) Look(ctx context.Context, user string) Report {
	var checks []contract.MachineCheck
	for _, p := range d.Parts {
		checks = append(checks, p.look(ctx))
	}
	checks = append(checks, d.models(ctx, user)...)
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var machine contract.Machine
	place, err := d.Places.Current(bounded, user)
	if err == nil {
		machine, err = d.Workspace.Examine(bounded, place)
	}
	if err != nil {
		machine = contract.Machine{Cages: contract.CageReport{Unavailable: "The workspace does not answer."}}
		checks = append(checks, contract.MachineCheck{
			Name: "workspace", State: contract.CheckMissing, Detail: fault.From(err).Msg,
			Fix: "start tool-runner and its services",
		})
	}
	machine.Checks = append(checks, machine.Checks...)
	broken := slices.ContainsFunc(
		machine.Checks, func(c contract.MachineCheck) bool { return c.State == contract.CheckMissing },
	)
	return Report{OK: machine.Cages.Tier != "" && !broken, Machine: machine}
}

func (p Part) look(ctx context.Context) contract.MachineCheck {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := p.Check(ctx)
	if err != nil {
		return contract.MachineCheck{Name: p.Name, State: contract.CheckMissing, Detail: fault.From(err).Msg}
	}
	return contract.MachineCheck{Name: p.Name, State: contract.CheckOK, Detail: found}
}

// models returns a check for each alias, with its target or the missing parts.
func (d *Doctor) models(ctx context.Context, user string) []contract.MachineCheck {
	cfg, err := d.Local.Config(ctx, user)
	if err != nil {
		return []contract.MachineCheck{
			{
				Name: "configuration", State: contract.CheckMissing, Detail: fault.From(err).Msg,
				Fix: "kaged config check",
			},
		}
	}
	aliases := cfg.Aliases()
	if len(aliases) == 0 {
		return []contract.MachineCheck{{
			Name: "models", State: contract.CheckWarning, Detail: "no alias is bound, so no agent can work",
			Fix: "kaged init, with ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY set, or Ollama running",
		}}
	}
	checks := make([]contract.MachineCheck, len(aliases))
	for i, route := range aliases {
		checks[i] = model(route)
	}
	return checks
}

// model returns the check of an alias. One usable target is enough.
func model(route contract.Route) contract.MachineCheck {
	c := contract.MachineCheck{Name: "model " + route.Alias, State: contract.CheckWarning}
	var targets []string
	for _, t := range route.Targets {
		text := t.Provider + ":" + t.Model
		if t.Unusable == nil {
			c.State = contract.CheckOK
		} else {
			text += " (" + strings.TrimSuffix(t.Unusable.Msg, ".") + ")"
		}
		targets = append(targets, text)
	}
	c.Detail = strings.Join(targets, ", then ")
	if c.State != contract.CheckOK {
		c.Fix = "kaged config set, or export the variable where kaged is started"
	}
	return c
}
