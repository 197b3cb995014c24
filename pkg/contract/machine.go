package contract

import commonv1 "kaged.dev/proto/gen/kaged/common/v1"

// The states of a check. Only Missing keeps kaged from working.
const (
	CheckOK       = "ok"
	CheckWarning  = "warning"
	CheckOptional = "optional"
	CheckMissing  = "missing"
)

// Machine is a machine's equipment for agents.
type Machine struct {
	Cages           CageReport
	LanguageServers []LanguageServerReport
	Checks          []MachineCheck
}

// CageReport is a machine's support for cages. Tier is how they are enforced, "" where there can be none; Unavailable
// says why then.
type CageReport struct {
	Tier, Unavailable string
	Layers            []CageLayerReport
}

// CageLayerReport is one thing cages are made of: By names the enforcer, Reason the gap, Fix the
// remedy.
type CageLayerReport struct{ Name, State, By, Reason, Fix string }

// LanguageServerReport is the server of a language as far as a machine has it.
type LanguageServerReport struct {
	Lang, Command, Program string
	// InCage says that a cage shows it, CageReason why not.
	InCage     bool
	CageReason string
	Install    string
}

// MachineCheck is one thing that was looked at: Detail is the finding, Fix the remedy.
type MachineCheck struct{ Name, State, Detail, Fix string }

// Proto returns r on the wire.
func (r CageReport) Proto() *commonv1.CageReport {
	out := &commonv1.CageReport{Tier: r.Tier, Unavailable: r.Unavailable}
	for _, l := range r.Layers {
		out.Layers = append(
			out.Layers, &commonv1.CageLayerReport{Name: l.Name, State: l.State, By: l.By, Reason: l.Reason, Fix: l.Fix},
		)
	}
	return out
}

// ServersProto returns the language servers on the wire.
func (m Machine) ServersProto() []*commonv1.LanguageServerReport {
	var out []*commonv1.LanguageServerReport
	for _, s := range m.LanguageServers {
		out = append(out, &commonv1.LanguageServerReport{
			Lang: s.Lang, Command: s.Command, Program: s.Program, InCage: s.InCage, CageReason: s.CageReason,
			Install: s.Install,
		})
	}
	return out
}

// ChecksProto returns the checks on the wire.
func (m Machine) ChecksProto() []*commonv1.MachineCheck {
	var out []*commonv1.MachineCheck
	for _, c := range m.Checks {
		out = append(out, &commonv1.MachineCheck{Name: c.Name, State: c.State, Detail: c.Detail, Fix: c.Fix})
	}
	return out
}

// MachineFromProto is the reverse of the above.
func MachineFromProto(
	cages *commonv1.CageReport, servers []*commonv1.LanguageServerReport, checks []*commonv1.MachineCheck,
) Machine {
	m := Machine{Cages: CageReport{Tier: cages.GetTier(), Unavailable: cages.GetUnavailable()}}
	for _, l := range cages.GetLayers() {
		m.Cages.Layers = append(m.Cages.Layers, CageLayerReport{
			Name: l.GetName(), State: l.GetState(), By: l.GetBy(), Reason: l.GetReason(), Fix: l.GetFix(),
		})
	}
	for _, s := range servers {
		m.LanguageServers = append(m.LanguageServers, LanguageServerReport{
			Lang: s.GetLang(), Command: s.GetCommand(), Program: s.GetProgram(), InCage: s.GetInCage(),
			CageReason: s.GetCageReason(), Install: s.GetInstall(),
		})
	}
	for _, c := range checks {
		m.Checks = append(
			m.Checks, MachineCheck{Name: c.GetName(), State: c.GetState(), Detail: c.GetDetail(), Fix: c.GetFix()},
		)
	}
	return m
}
