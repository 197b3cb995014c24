package doctor

import (
	"bytes"
	"strings"
	"testing"

	"kaged.dev/services/kaged/internal/checkup"
)

// Each layer is listed with its mechanism or its fix, and each gap is explained below with the command that fixes it.
func TestWriteReport(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := writeReport(&out, checkup.Report{
		Cages: checkup.Cages{Tier: "userns", Layers: []checkup.Layer{
			{Name: "user namespaces", State: checkup.Enforced, By: "clone"},
			{Name: "limits.cpu", State: "missing", Reason: "There is no cpu controller.", Fix: "systemctl something"},
			{Name: "limits.memory", State: checkup.BestEffort, By: "a watchdog", Reason: "There is no memory controller."},
		}},
		Checks: []checkup.Check{{Name: "git", State: checkup.Optional, Detail: "not installed", Fix: "apt-get install git"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Cages can be made here (userns).\n", "user namespaces  enforced     clone\n",
		"limits.cpu       missing      fix: systemctl something\n",
		"limits.memory    best_effort  a watchdog\n", "git    optional  not installed\n",
		"\nlimits.cpu: There is no cpu controller.\n  fix: systemctl something\n",
		"\nlimits.memory: There is no memory controller.\n",
		"\ngit\n  fix: apt-get install git\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := writeReport(&out, checkup.Report{Cages: checkup.Cages{Unavailable: "no user namespaces"}}); err != nil ||
		!strings.HasPrefix(out.String(), "Cages cannot be made here: no user namespaces\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// Layers that are not enforced for the same reason are explained once, together.
func TestWriteReportOfOneCause(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	layer := func(name string) checkup.Layer {
		return checkup.Layer{Name: name, State: "missing", Reason: "not permitted", Fix: "the long sentence"}
	}
	if err := writeReport(&out, checkup.Report{Cages: checkup.Cages{
		Unavailable: "x", Layers: []checkup.Layer{layer("mount"), layer("pid"), layer("net")},
	}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "the long sentence"); n != 2 { // once in the table and once below it
		t.Errorf("the fix is said %d times, want 2:\n%s", n, out.String())
	}
	if !strings.Contains(out.String(), "\nmount, pid, net: not permitted\n  fix: the long sentence\n") {
		t.Errorf("the gap is not explained once:\n%s", out.String())
	}
}

// For each language the table has the installed server, whether a cage shows it, and the command to install it. A
// server that cages do not show has the reason and the fix.
func TestWriteReportOfLanguageServers(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := writeReport(&out, checkup.Report{
		Cages: checkup.Cages{Tier: "userns"},
		LanguageServers: []checkup.LanguageServer{
			{
				Lang: "go", Command: "gopls", Program: "/home/me/go/bin/gopls", CageReason: "A cage does not show it.",
				Install: "go install gopls",
			},
			{
				Lang: "bash", Command: "bash-language-server start", Program: "/usr/bin/bash-language-server",
				InCage: true, Install: "npm i bash",
			},
			{Lang: "rust", Command: "rust-analyzer", Install: "rustup component add rust-analyzer"},
		},
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nLANGUAGE  SERVER                         IN A CAGE  INSTALLED BY\n",
		"\ngo        /home/me/go/bin/gopls          no         go install gopls\n",
		"\nbash      /usr/bin/bash-language-server  yes        npm i bash\n",
		"\nrust      -                              -          rustup component add rust-analyzer\n",
		"\ngo: A cage does not show it.\n  fix: install it below /usr/local or /opt, " +
			"or name its folder in read of [lsp.servers.go] in local.toml\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\nbash:") || strings.Contains(out.String(), "\nrust:") {
		t.Errorf("a gap where there is none:\n%s", out.String())
	}
}
