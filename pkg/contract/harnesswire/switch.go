package harnesswire

import (
	"kaged.dev/pkg/catalogue"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Switches returns rules for tools on the wire, in their order.
func Switches(switches []catalogue.Switch) []*harnessv1.ToolSwitch {
	out := make([]*harnessv1.ToolSwitch, len(switches))
	for i, s := range switches {
		out[i] = &harnessv1.ToolSwitch{Pattern: s.Pattern, Enabled: s.Enabled}
	}
	return out
}

// FromSwitches is the reverse of [Switches].
func FromSwitches(switches []*harnessv1.ToolSwitch) []catalogue.Switch {
	out := make([]catalogue.Switch, len(switches))
	for i, s := range switches {
		out[i] = catalogue.Switch{Pattern: s.GetPattern(), Enabled: s.GetEnabled()}
	}
	return out
}
