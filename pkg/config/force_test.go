package config_test

import (
	"testing"

	"kaged.dev/pkg/config"
)

// Each listed key without effect is found in a file that has it; a file of other keys has none.
func TestNotInForce(t *testing.T) {
	t.Parallel()
	f, err := config.Parse(
		"local.toml", []byte("[limits]\nmax_steps = 3\nsessions_per_project = 2\nsessions_per_operator = 9\n"),
	)
	if err != nil || len(f.NotInForce()) != len(config.Dormant) {
		t.Errorf("got %v, %v; the list is %v", f.NotInForce(), err, config.Dormant)
	}
}
