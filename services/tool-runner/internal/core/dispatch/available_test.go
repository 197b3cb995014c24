package dispatch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// Calls that fail for any input are known before the first call, with the same error as the call's (T-AVAIL-*,
// T-SCOPE-02).
func TestAvailable(t *testing.T) {
	t.Parallel()
	d, root := newDispatcher(t, echo), t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	src := func(write bool) []dsl.Mount {
		return []dsl.Mount{{Mode: map[bool]string{true: "rw", false: "ro"}[write], Path: "./src"}}
	}
	for name, c := range map[string]struct {
		agent string
		cage  *dsl.Cage
		want  string // the unusable tools with the reasons
	}{
		"the root agent": {tool.RootAgent, nil, ""},
		"another agent":  {"primary.subagents.x", nil, "kaged.secret=principal_scope_violation"},
		"an empty cage": {
			tool.RootAgent, &dsl.Cage{},
			"x.write=capability_denied kaged.secret=capability_denied x.trace=seccomp_insufficient x.net=capability_denied " +
				"x.shell=capability_denied",
		},
		"a readable cage": {
			tool.RootAgent, &dsl.Cage{FS: src(false), Seccomp: "relaxed"},
			"x.write=capability_denied kaged.secret=capability_denied x.net=capability_denied x.shell=capability_denied",
		},
		"a wide cage": {
			tool.RootAgent, &dsl.Cage{
				FS: src(true), Seccomp: "relaxed", Net: []string{"example.org:443"}, Capabilities: []string{"shell"},
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			catalogue := tools(echo)
			from := contract.Caller{Agent: c.agent, Root: root, Cage: c.cage}
			reasons, err := d.Available(from, catalogue)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, reason := range reasons {
				name := catalogue[i].Name()
				call := newCall(t, root, name, `{"path":"src/a"}`)
				call.From.Agent, call.From.Cage = c.agent, c.cage
				out, err := d.Dispatch(t.Context(), call)
				if err != nil || (out.Fault == nil) != (reason == nil) || reason != nil && !errors.Is(out.Fault, reason.Code) {
					t.Errorf("%s: said %v, came %v %v", name, reason, out.Fault, err)
				}
				if reason != nil {
					got = append(got, name+"="+reason.Code.String())
				}
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("unavailable: %s", got)
			}
		})
	}
	if _, err := d.Available(contract.Caller{Root: filepath.Join(root, "gone")}, nil); !errors.Is(err, fault.NotFound) {
		t.Errorf("no project: %v", err)
	}
}
