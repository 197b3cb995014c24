package host

import (
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// A shared deployment refuses each flag that would let one operator act as another. A deployment of one operator, and a
// process that only checks its configuration, refuse none.
func TestASharedDeploymentRefusesFlags(t *testing.T) {
	t.Parallel()
	shared := &config.File{System: config.System{Enabled: true}}
	for name, c := range map[string]struct {
		opts Options
		want string
	}{
		"--no-sandbox": {
			Options{File: shared, NoSandbox: true}, "[system] enabled and --no-sandbox (KAGED_NO_SANDBOX) exclude each other",
		},
		"--insecure": {
			Options{File: shared, Insecure: true}, "[system] enabled and --insecure (KAGED_INSECURE) exclude each other",
		},
		"neither":              {Options{File: shared}, ""},
		"a deployment of one":  {Options{File: &config.File{}, NoSandbox: true, Insecure: true}, ""},
		"a process for itself": {Options{File: shared, NoSandbox: true, Insecure: true, Private: true}, ""},
	} {
		err := checkSystem(c.opts)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, fault.BadRequest) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
