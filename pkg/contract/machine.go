package contract

import commonv1 "kaged.dev/proto/gen/kaged/common/v1"

//convert:import commonv1 "kaged.dev/proto/gen/kaged/common/v1"
//convert:both .Proto cageReportFromProto CageReport *commonv1.CageReport
//convert:both cageLayerProto cageLayerFromProto CageLayerReport *commonv1.CageLayerReport
//convert:both serversProto serversFromProto []LanguageServerReport []*commonv1.LanguageServerReport
//convert:both serverProto serverFromProto LanguageServerReport *commonv1.LanguageServerReport
//convert:both checksProto checksFromProto []MachineCheck []*commonv1.MachineCheck
//convert:both checkProto checkFromProto MachineCheck *commonv1.MachineCheck

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

// ServersProto returns the language servers on the wire.
func (m Machine) ServersProto() []*commonv1.LanguageServerReport {
	return serversProto(m.LanguageServers)
}

// ChecksProto returns the checks on the wire.
func (m Machine) ChecksProto() []*commonv1.MachineCheck { return checksProto(m.Checks) }

// MachineFromProto is the reverse of [CageReport.Proto], [Machine.ServersProto] and [Machine.ChecksProto].
func MachineFromProto(
	cages *commonv1.CageReport, servers []*commonv1.LanguageServerReport, checks []*commonv1.MachineCheck,
) Machine {
	return Machine{
		Cages: cageReportFromProto(cages), LanguageServers: serversFromProto(servers), Checks: checksFromProto(checks),
	}
}
