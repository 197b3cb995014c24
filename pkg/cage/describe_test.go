package cage_test

import (
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/dsl"
)

func described(v *cage.View) string {
	var b strings.Builder
	for _, l := range v.Describe() {
		b.WriteString(l.About + ": " + l.Text + "\n")
	}
	return b.String()
}

// A view's description lists exactly the reachable paths and hosts, the read-only ones and the
// limits.
func TestDescribe(t *testing.T) {
	t.Parallel()
	root := plant(t, "src/", "docs/", "out/.envrc", "out/deep/lock")
	p := policy("ro ./src", "ro project:/docs/", "rw ./out", "ro ./out/deep/lock", "ro /usr")
	p.Net, p.Capabilities, p.Seccomp, p.State = []string{"API.github.com:443", "[2001:DB8::1]:80"},
		[]string{"shell", "exec"}, "relaxed", "persistent"
	p.Env = map[string]string{"LANG": "C.UTF-8"}
	p.Limits = dsl.Limits{Memory: 512 << 20, CPU: 1.5, PIDs: 64, Disk: 1 << 30, Walltime: 90 * time.Minute}
	v, err := cage.Compile(p, root)
	must(t, err)
	want := `may: may read ./docs, ./out/deep/lock, ./src and /usr, may write ./out, may reach api.github.com:443 and [2001:db8::1]:80, nothing else
read-only: ./out/.envrc, because tools outside the cage run code that they find there; name one in the cage to make it writable
kept empty: ./out/.git and ./out/.kaged, which would be such a place: an empty one stands there while the agent runs
not renamed: ./out/deep, so that nothing else can take the place of what is read-only in it
system: the machine's programs and libraries, read-only; a /tmp, /dev and /proc of its own; none of the machine's other files, processes and sockets
home: /home/agent, kept for the agent's next run
system calls: relaxed: the default ones, and what debuggers need (ptrace and its like)
tools: shell: may run commands (shell.bash, shell.exec, shell.process); exec: may run the commands that are tools (.kaged/tools.yaml)
variables: LANG
limits: at most 512MiB of memory, 1.5 cores, 64 processes and threads, 1GiB more on disk than before and 1h30m for one run
`
	if got := described(v); got != want {
		t.Errorf("%s", got)
	}
	if got := compile(t, root).May(); got != "may see no files and reach no host" {
		t.Error(got)
	}
	if got := compile(t, root, "rw .", "rw ./out/.envrc", "rw ./out").
		May(); got != "may write ./, ./out and ./out/.envrc, nothing else" {
		t.Error(got)
	}
}
