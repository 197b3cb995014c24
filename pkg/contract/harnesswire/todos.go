package harnesswire

import (
	"kaged.dev/pkg/contract"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// Todos and rules for tools on the wire.
//
//convert:import catalogue "kaged.dev/pkg/catalogue"
//convert:both openTodos FromOpenTodos contract.OpenTodos *harnessv1.OpenTodos
//convert:both openTodo fromOpenTodo contract.OpenTodo *harnessv1.OpenTodo
//convert:both Switches FromSwitches []catalogue.Switch []*harnessv1.ToolSwitch
//convert:both Steers FromSteers []contract.Steer []*harnessv1.Steer
//convert:both steer fromSteer contract.Steer *harnessv1.Steer
//convert:both toolSwitch fromToolSwitch catalogue.Switch *harnessv1.ToolSwitch

// OpenTodos encodes todos, nil for an empty list.
func OpenTodos(t contract.OpenTodos) *harnessv1.OpenTodos {
	if t.Open == 0 {
		return nil
	}
	return openTodos(t)
}
