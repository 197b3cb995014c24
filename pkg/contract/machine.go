package contract

import commonv1 "kaged.dev/proto/gen/kaged/common/v1"

//convert:import commonv1 "kaged.dev/proto/gen/kaged/common/v1"
//convert:both .Proto cageReportFromProto CageReport *commonv1.CageReport
//convert:both cageLayerProto cageLayerFromProto CageLayerReport *commonv1.CageLayerReport
//convert:both serversProto serversFromProto []LanguageServerReport []*commonv1.LanguageServerReport
//convert:both serverProto serverFromProto LanguageServerReport *commonv1.LanguageServerReport
//convert:both checksProto checksFromProto []MachineCheck []*commonv1.MachineCheck
//convert:both checkProto checkFromProto MachineCheck *commonv1.MachineCheck

// The states of a check. Only Missing prevents kaged from working.
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

// CageReport is a machine's support for cages. Tier is the kind of enforcement, "" without support; Unavailable is then
// the reason.
type CageReport struct {
	Tier, Unavailable string
	Layers            []CageLayerReport
}

// CageLayerReport is one layer of a cage: By is the enforcer, Reason the gap, Fix the remedy.
type CageLayerReport struct{ Name, State, By, Reason, Fix string }

// LanguageServerReport is the state of a language's server on a machine.
type LanguageServerReport struct {
	Lang, Command, Program string
	// InCage is true if a cage shows the server; CageReason is the reason if not.
	InCage     bool
	CageReason string
	Install    string
}

// MachineCheck is one check of a machine: Detail is the finding, Fix the remedy.
type MachineCheck struct{ Name, State, Detail, Fix string }

// ServersProto encodes the language servers.
func (m Machine) ServersProto() []*commonv1.LanguageServerReport {
	return serversProto(m.LanguageServers)
}

// ChecksProto encodes the checks.
func (m Machine) ChecksProto() []*commonv1.MachineCheck { return checksProto(m.Checks) }

// MachineFromProto is the reverse of [CageReport.Proto], [Machine.ServersProto] and [Machine.ChecksProto].
func MachineFromProto(
	cages *commonv1.CageReport, servers []*commonv1.LanguageServerReport, checks []*commonv1.MachineCheck,
) Machine {
	return Machine{
		Cages: cageReportFromProto(cages), LanguageServers: serversFromProto(servers), Checks: checksFromProto(checks),
	}
}
