package box_test

import (
	"os"
	"testing"
)

// The probe makes a cage and reports the state and the mechanism of every layer.
func TestProbe(t *testing.T) {
	t.Parallel()
	b := boxes(t)
	report := b.Probe(t.Context())
	want := "userns"
	if os.Getenv("KAGED_TEST_WITHOUT_USERNS") != "" {
		want = "setuid"
	}
	if report.Tier != want || report.Unavailable != "" {
		t.Errorf("the tier is %q, %s", report.Tier, report.Unavailable)
	}
	states := map[string]string{}
	for _, l := range report.Layers {
		states[l.Name] = l.State
		if l.State == "enforced" && (l.By == "" || l.Reason != "") || l.State == "missing" && l.Reason == "" {
			t.Errorf("%+v", l)
		}
		t.Logf("%+v", l)
	}
	for _, name := range []string{
		"mount", "pid", "net", "ipc", "uts", "cgroup ns", "seccomp", "no_new_privs", "capabilities", "idmapped mounts",
	} {
		if states[name] != "enforced" {
			t.Errorf("%s is %q", name, states[name])
		}
	}
}
