package checkup_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/services/kaged/internal/checkup"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// machine returns a machine without problems.
func machine(t *testing.T) checkup.Machine {
	dir := t.TempDir()
	return checkup.Machine{
		ConfigPath: filepath.Join(dir, "local.toml"), DataDir: filepath.Join(dir, "deep", "data"), Listen: "127.0.0.1:0",
		Getenv:   func(name string) string { return map[string]string{"KAGED_DATABASE_URL": "postgres:///x"}[name] },
		Services: func(*config.File) error { return nil },
		Probe: func(context.Context) (*sandboxsupervisorv1.ProbeCagesResponse, error) {
			return &sandboxsupervisorv1.ProbeCagesResponse{
				Tier:   "userns",
				Layers: []*sandboxsupervisorv1.CageLayer{{Name: "mount", State: "enforced", By: "b"}},
			}, nil
		},
	}
}

// find returns the check with a name.
func find(t *testing.T, r checkup.Report, name string) checkup.Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s in %+v", name, r.Checks)
	return checkup.Check{}
}

// A complete machine has no problems, and the checks leave no file on it.
func TestFine(t *testing.T) {
	t.Parallel()
	m := machine(t)
	if err := os.WriteFile(m.ConfigPath, []byte("[models]\nsmart = \"p:m\"\n[providers.p]\ndriver = \"openai\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	r := checkup.Look(t.Context(), m)
	if !r.OK || r.Cages.Tier != "userns" || len(r.Cages.Layers) != 1 ||
		r.Cages.Layers[0] != (checkup.Layer{Name: "mount", State: "enforced", By: "b"}) {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{"data directory", "configuration", "model smart", "PostgreSQL", "address"} {
		if c := find(t, r, name); c.State != checkup.OK {
			t.Errorf("%+v", c)
		}
	}
	if _, err := os.Stat(filepath.Dir(m.DataDir)); err == nil {
		t.Error("looking made the data directory")
	}
}

// A machine without cages has a problem; the report has the reason.
func TestNoCages(t *testing.T) {
	t.Parallel()
	m := machine(t)
	m.Probe = func(context.Context) (*sandboxsupervisorv1.ProbeCagesResponse, error) {
		return &sandboxsupervisorv1.ProbeCagesResponse{Unavailable: "no user namespaces"}, nil
	}
	if r := checkup.Look(t.Context(), m); r.OK || r.Cages.Unavailable != "no user namespaces" {
		t.Errorf("%+v", r)
	}
	m.Probe = func(context.Context) (*sandboxsupervisorv1.ProbeCagesResponse, error) {
		return nil, errors.New("broken")
	}
	if r := checkup.Look(t.Context(), m); r.OK || r.Cages.Unavailable == "" {
		t.Errorf("%+v", r)
	}
}

// A model's name is shown with its id.
func TestNameOfAModel(t *testing.T) {
	t.Parallel()
	m := machine(t)
	write(t, m.ConfigPath, "[models]\nsmart = [\"p:m\", \"p:n\"]\n[providers.p]\ndriver = \"openai\"\napi_key = \"k\"\n"+
		"[[providers.p.models]]\nid = \"n\"\nname = \"Nina\"\n")
	if c := find(t, checkup.Look(t.Context(), m), "model smart"); c.Detail != "p:m, then p:n (Nina)" {
		t.Errorf("%+v", c)
	}
}

// The address is that of the running daemon, wherever it listens.
func TestAddressOfARunningDaemon(t *testing.T) {
	t.Parallel()
	m := machine(t)
	dir := filepath.Join(m.DataDir, "run")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "daemon.json"), `{"pid":7,"url":"http://127.0.0.1:7563"}`)
	held, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if c := find(t, checkup.Look(t.Context(), m), "address"); c.State != checkup.OK ||
		c.Detail != "127.0.0.1:7563, in use by the running kaged" {
		t.Errorf("%+v", c)
	}
}

// Each missing part is reported with its fix. Only a missing part that kaged needs makes the machine unfit.
func TestGaps(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tt := range map[string]struct {
		change func(*checkup.Machine)
		check  string
		state  checkup.State
		fix    string
	}{
		"no models": {func(*checkup.Machine) {}, "models", checkup.Warning, "kaged init"},
		"a broken configuration": {func(m *checkup.Machine) {
			write(t, m.ConfigPath, "[[[")
		}, "configuration", checkup.Missing, "kaged config check"},
		"a service's table that is wrong": {func(m *checkup.Machine) {
			m.Services = func(*config.File) error { return errors.New("unknown key") }
		}, "configuration", checkup.Missing, "kaged config check"},
		"no provider": {func(m *checkup.Machine) {
			write(t, m.ConfigPath, "[models]\nsmart = \"p:m\"\n")
		}, "model smart", checkup.Warning, "kaged config set providers.p.driver"},
		"no key": {func(m *checkup.Machine) {
			write(t, m.ConfigPath, "[models]\nsmart = \"p:m\"\n[providers.p]\ndriver = \"openai\"\napi_key = "+
				"\"${KAGED_NO_SUCH_KEY}\"\n")
		}, "model smart", checkup.Warning, "export KAGED_NO_SUCH_KEY"},
		"a data directory that is a file": {func(m *checkup.Machine) {
			write(t, filepath.Dir(m.DataDir), "x")
		}, "data directory", checkup.Missing, "--data-dir"},
		"no PostgreSQL": {func(m *checkup.Machine) {
			m.Getenv = func(string) string { return "" }
			dir := filepath.Join(m.DataDir, "postgres", "data")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "PG_VERSION"), "3\n")
		}, "PostgreSQL", checkup.Missing, ""},
		"no sandbox": {func(m *checkup.Machine) {
			env := m.Getenv
			m.Getenv = func(name string) string {
				if name == "KAGED_NO_SANDBOX" {
					return "1"
				}
				return env(name)
			}
		}, "sandbox", checkup.Warning, "unset KAGED_NO_SANDBOX"},
		"a taken address": {
			func(m *checkup.Machine) { m.Listen = taken.Addr().String() }, "address", checkup.Warning, "--listen",
		},
	} {
		m := machine(t)
		tt.change(&m)
		r := checkup.Look(t.Context(), m)
		if c := find(t, r, tt.check); c.State != tt.state || !strings.Contains(c.Fix, tt.fix) || c.Fix == "" {
			t.Errorf("%s: %+v", name, c)
		}
		if r.OK != (tt.state != checkup.Missing) {
			t.Errorf("%s: fine is %v", name, r.OK)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Language servers are listed as the pool finds them. All are optional: a machine without language servers has no
// problem.
func TestLanguageServers(t *testing.T) {
	t.Parallel()
	m := machine(t)
	m.LanguageServers = func(context.Context) ([]*lsppoolv1.FoundServer, error) {
		return []*lsppoolv1.FoundServer{
			{
				Lang: "go", Command: []string{"gopls"}, Program: "/root/go/bin/gopls", CagedReason: "hidden",
				Install: "go install",
			},
			{
				Lang: "json", Command: []string{"json-ls", "--stdio"}, Program: "/usr/bin/json-ls",
				CagedProgram: "/usr/bin/json-ls",
			},
			{Lang: "rust", Command: []string{"rust-analyzer"}, Install: "rustup"},
		}, nil
	}
	r := checkup.Look(t.Context(), m)
	want := []checkup.LanguageServer{
		{Lang: "go", Command: "gopls", Program: "/root/go/bin/gopls", CageReason: "hidden", Install: "go install"},
		{Lang: "json", Command: "json-ls --stdio", Program: "/usr/bin/json-ls", InCage: true},
		{Lang: "rust", Command: "rust-analyzer", Install: "rustup"},
	}
	if !r.OK || !slices.Equal(r.LanguageServers, want) {
		t.Errorf("%+v", r)
	}
	for i, fixed := range []bool{true, false, false} {
		if fix := r.LanguageServers[i].Fix(); (fix != "") != fixed {
			t.Errorf("fix of %s: %q", r.LanguageServers[i].Lang, fix)
		}
	}
	m.LanguageServers = func(context.Context) ([]*lsppoolv1.FoundServer, error) { return nil, errors.New("no pool") }
	if r := checkup.Look(t.Context(), m); !r.OK || r.LanguageServers == nil || len(r.LanguageServers) != 0 {
		t.Errorf("%+v", r)
	}
}
