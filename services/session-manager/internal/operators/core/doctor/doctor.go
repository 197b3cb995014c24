// Package doctor looks at the parts of kaged and at remedies. It only looks, and asks no provider of
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

// Workspace looks at the machine of a workspace.
type Workspace interface {
	Examine(ctx context.Context, workspace string) (contract.Machine, error)
}

// Places says which workspace an operator works in, "" for none or the default one.
type Places interface {
	Current(ctx context.Context, operator string) (string, error)
}

// Part is a part of kaged that can be asked whether it works.
type Part struct {
	Name string
	// Check returns the finding, or fails.
	Check func(ctx context.Context) (found string, err error)
}

// Report is the result of a look.
type Report struct {
	// OK says that all needed parts are there and cages can be made.
	OK bool
	contract.Machine
}

// Doctor looks. It is safe for concurrent use.
type Doctor struct {
	Local     localconfig.Source
	Workspace Workspace
	Places    Places
	// Parts are asked in this order.
	Parts []Part
}

// patience is how long each part may take to answer.
const patience = 10 * time.Second

// Look looks at everything for an operator. A silent part is a check that says so.
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

// models says where each alias goes, and the gaps on the way.
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

// model says where an alias goes. One target that can be used is enough.
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
