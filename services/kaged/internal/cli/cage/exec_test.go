package cage

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/dsl"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// A refused connection is reported at once, on its own line, and repetitions are reported at the end. With a terminal
// all are reported at the end.
func TestRefusedList(t *testing.T) {
	t.Parallel()
	attempts := []*commonv1.NetworkAttempt{
		{Target: "a:1", Rule: "no", Count: 1}, {Target: "b:1", Rule: "no", Count: 2}, {Target: "a:1", Rule: "no", Count: 3},
	}
	for _, later := range []bool{false, true} {
		var out bytes.Buffer
		r := refusedList{w: &out, later: later, midline: true}
		for _, a := range attempts {
			r.add(&commonv1.NetworkAttempt{Target: a.GetTarget(), Rule: a.GetRule(), Count: a.GetCount()})
		}
		want := "\nkaged: refused: a:1: no\nkaged: refused: b:1 (2 times): no\n"
		if later {
			want = ""
		}
		if out.String() != want {
			t.Errorf("later %t: %q, want %q", later, out.String(), want)
		}
		out.Reset()
		r.end()
		want = "kaged: refused: a:1 (4 times): no\n"
		if later {
			want = "\n" + want + "kaged: refused: b:1 (2 times): no\n"
		}
		if out.String() != want {
			t.Errorf("later %t, at the end: %q, want %q", later, out.String(), want)
		}
	}
}

// Of very many refused connections only a limited number is reported one by one.
func TestRefusedListIsBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := refusedList{w: &out}
	for i := range 2 * maxRefused {
		r.add(&commonv1.NetworkAttempt{Target: strings.Repeat("x", i+1), Rule: "no", Count: 1})
	}
	r.end()
	last := "\nkaged: 50 refused connections more to other targets\n"
	if n := strings.Count(out.String(), "kaged: refused: "); n != maxRefused || !strings.HasSuffix(out.String(), last) {
		t.Errorf("%d are told: %s", n, out.String())
	}
}

// The reason of a kill is printed as a word for scripts, and as a sentence with the limit, its value and a remedy.
func TestKilled(t *testing.T) {
	t.Parallel()
	all := dsl.Limits{Memory: 64 << 20, PIDs: 40, Disk: 2e9, Walltime: 90 * time.Second}
	for reason, want := range map[sandboxsupervisorv1.KillReason][2]string{
		sandboxsupervisorv1.KillReason_KILL_REASON_OOM: {
			"oom", "more memory than limits.memory of p.yaml, which is 64MiB; raise it, or do less",
		},
		sandboxsupervisorv1.KillReason_KILL_REASON_PIDS: {
			"pids", "threads than limits.pids of p.yaml, which is 40; raise it, or run fewer",
		},
		sandboxsupervisorv1.KillReason_KILL_REASON_DISK: {
			"disk", "more than limits.disk of p.yaml, which is 2GB; raise it, or write less",
		},
		sandboxsupervisorv1.KillReason_KILL_REASON_WALLTIME: {
			"walltime", "longer than limits.walltime of p.yaml, which is 1m30s; raise it, or",
		},
		sandboxsupervisorv1.KillReason_KILL_REASON_SECCOMP: {"seccomp", "of another architecture"},
	} {
		for limits, want := range map[dsl.Limits]string{all: want[1], {}: ""} {
			var out bytes.Buffer
			err := ended(kit.App{Stderr: &out}, &sandboxsupervisorv1.ExecExited{ExitCode: 137, Reason: reason}, limits, "p.yaml")
			first, second, _ := strings.Cut(out.String(), "\n")
			if kit.CodeOf(err) != 137 || first != "kaged: killed: "+killedFor[reason] ||
				!strings.HasPrefix(second, "kaged: ") || !strings.Contains(second, want) {
				t.Errorf("%s ends with %d and says %q, want %q", killedFor[reason], kit.CodeOf(err), out.String(), want)
			}
			if want == "" && strings.Contains(second, "which is") {
				t.Errorf("a limit that is not there has a height: %q", second)
			}
		}
		if killedFor[reason] != want[0] {
			t.Errorf("%q, want %q", killedFor[reason], want[0])
		}
	}
}
