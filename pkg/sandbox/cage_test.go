package sandbox

import (
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
)

// Explain names the reason, the configured limit if it is known, and a remedy.
func TestExplain(t *testing.T) {
	t.Parallel()
	policy := &dsl.Cage{Limits: dsl.Limits{Memory: 2e9, PIDs: 64, Disk: 1 << 30, Walltime: 90 * time.Second}}
	for reason, want := range map[contract.Reason]string{
		contract.ReasonOOM: "(limits.memory is 2GB). Do it with less", contract.ReasonPIDs: "(limits.pids is 64). Run fewer",
		contract.ReasonWalltime: "(limits.walltime is 1m30s). Its cage is gone; the operator can raise",
		contract.ReasonDisk:     "(limits.disk is 1GiB). Its cage is gone;",
	} {
		if got := Explain(reason, policy); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", reason.Word(), got, want)
		}
		if got := Explain(reason, nil); got == "" || strings.Contains(got, "limits.") {
			t.Errorf("%s without a policy: %q", reason.Word(), got)
		}
	}
	if got := Explain(contract.ReasonNone, policy); got != "" {
		t.Errorf("no reason is explained as %q", got)
	}
}
