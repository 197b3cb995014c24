package command

import (
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/dsl"
)

// Why a cage ended a command is said with the limit as it is written, where it is known, and with what can be done.
func TestExplain(t *testing.T) {
	t.Parallel()
	policy := &dsl.Cage{Limits: dsl.Limits{Memory: 2e9, PIDs: 64, Disk: 1 << 30, Walltime: 90 * time.Second}}
	for reason, want := range map[Reason]string{
		OutOfMemory: "(limits.memory is 2GB). Do it with less", TooManyProcesses: "(limits.pids is 64). Run fewer",
		OutOfTime: "(limits.walltime is 1m30s). Its cage is gone; the operator can raise", DiskFull: "(limits.disk is 1GiB). Its cage is gone;",
	} {
		if got := reason.Explain(policy); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", reason.Word(), got, want)
		}
		if got := reason.Explain(nil); got == "" || strings.Contains(got, "limits.") {
			t.Errorf("%s without a policy: %q", reason.Word(), got)
		}
	}
	if got := None.Explain(policy); got != "" {
		t.Errorf("no reason is explained as %q", got)
	}
}
