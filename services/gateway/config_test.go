package gateway_test

import (
	"strings"
	"testing"

	"kaged.dev/services/gateway"
)

// The operator's user id must fit into an HTTP header; an id that does not is refused at the start.
func TestOperatorOfConfiguration(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"": true, "kaged": true, "ada@example.org": true, "ada\n": false, "Ádám": false, strings.Repeat("a", 257): false,
	} {
		cfg := gateway.DefaultConfig()
		cfg.Operator = name
		if err := cfg.Validate(); (err == nil) != ok {
			t.Errorf("operator %q: %v, want accepted %t", name, err, ok)
		}
	}
}
