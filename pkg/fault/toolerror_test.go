package fault_test

import (
	"math"
	"testing"

	"kaged.dev/pkg/fault"
)

// Every service formats a failure for the model as the same object.
func TestToolError(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  *fault.Error
		want string
	}{
		"number of its own": {
			fault.New(fault.ToolNotFound, "There is no tool <x>.").With("tool", "x"),
			`{"error":{"code":"tool_not_found","message":"There is no tool <x>.","hint":"` + fault.ToolNotFound.Hint() +
				`","details":{"tool":"x"},"rpc_code":-32601}}`,
		},
		"common number, no details": {
			fault.New(fault.Cancelled, "Stopped."),
			`{"error":{"code":"cancelled","message":"Stopped.","hint":"` + fault.Cancelled.Hint() +
				`","details":{},"rpc_code":-32000}}`,
		},
		"detail without JSON form": {
			fault.New(fault.Internal, "x").With("n", math.Inf(1)).With("a", 1),
			`{"error":{"code":"internal","message":"x","hint":"` + fault.Internal.Hint() +
				`","details":{"a":1,"n":"+Inf"},"rpc_code":-32000}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.err.ToolError(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
