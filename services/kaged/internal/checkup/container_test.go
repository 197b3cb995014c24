package checkup_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"kaged.dev/services/kaged/internal/checkup"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// inContainer returns a machine as seen from one of the containers of docker-compose.yml.
func inContainer(t *testing.T, image checkup.Container, env map[string]string) checkup.Machine {
	t.Helper()
	m := machine(t)
	env["KAGED_CONTAINER"] = string(image)
	m.Getenv = func(name string) string { return env[name] }
	m.Container = checkup.ContainerOf(m.Getenv)
	write(t, m.ConfigPath, "[models]\nsmart = [\"p:m\", \"q:${KAGED_NO_SUCH_MODEL}\"]\n"+
		"[providers.p]\ndriver = \"openai\"\napi_key = \"${KAGED_NO_SUCH_KEY}\"\n[providers.q]\ndriver = "+
		"\"openai\"\napi_key = \"k\"\n")
	return m
}

// words returns all texts of a report.
func words(r checkup.Report) string {
	var b strings.Builder
	b.WriteString(r.Cages.Elsewhere + r.Cages.Unavailable)
	for _, c := range r.Checks {
		b.WriteString("\n" + c.Name + ": " + c.Detail + " " + c.Fix)
	}
	return b.String()
}

// A container of the control plane has no problem without the parts of the others: no cage is tried in it, PostgreSQL
// is not searched, and keys that only session-manager has are not reported as missing.
func TestControlPlaneContainer(t *testing.T) {
	t.Parallel()
	m := inContainer(
		t,
		checkup.ControlPlane,
		map[string]string{"KAGED_SERVICES_GATEWAY_LISTEN": "unix:/run/kaged/gateway/gateway.sock"},
	)
	m.Probe = func(context.Context) (*sandboxsupervisorv1.ProbeCagesResponse, error) {
		t.Error("a cage was tried")
		return nil, os.ErrInvalid
	}
	for _, answers := range []bool{true, false} {
		m.Gateway = func(context.Context) bool { return answers }
		r := checkup.Look(t.Context(), m)
		if !r.OK || !strings.Contains(r.Cages.Elsewhere, "exec sandbox-supervisor kaged doctor") {
			t.Errorf("with a gateway (%t) it is fine %t: %s", answers, r.OK, words(r))
		}
		for _, wrong := range []string{"apt-get", "sudo", "sysctl", "PostgreSQL", "another program", "KAGED_NO_SUCH_KEY"} {
			if strings.Contains(words(r), wrong) {
				t.Errorf("it speaks of %s: %s", wrong, words(r))
			}
		}
		if c := find(t, r, "model smart"); c.State != checkup.OK {
			t.Errorf("%+v", c)
		}
	}
}

// In session-manager's container an unset key is reported, with the file in which compose reads it.
func TestSessionManagerContainer(t *testing.T) {
	t.Parallel()
	m := inContainer(t, checkup.ControlPlane, map[string]string{
		"KAGED_DATABASE_URL": "postgres:///x", "KAGED_SERVICES_GATEWAY_LISTEN": "unix:/run/kaged/gateway/gateway.sock",
	})
	c := find(t, checkup.Look(t.Context(), m), "model smart")
	if c.State != checkup.Warning || !strings.Contains(c.Fix, ".env") || strings.Contains(c.Fix, "export") {
		t.Errorf("%+v", c)
	}
}

// The workspace's container is checked for the needs of agents: cages and git.
func TestWorkspaceContainer(t *testing.T) {
	t.Parallel()
	r := checkup.Look(t.Context(), inContainer(t, checkup.Workspace, map[string]string{}))
	if !r.OK || r.Cages.Tier != "userns" || strings.Contains(words(r), "PostgreSQL") ||
		strings.Contains(words(r), "model") {
		t.Errorf("it is fine %t: %s", r.OK, words(r))
	}
}

// The report of a container that was started alone has the command that starts all containers.
func TestLonelyContainer(t *testing.T) {
	t.Parallel()
	r := checkup.Look(t.Context(), inContainer(t, checkup.ControlPlane, map[string]string{}))
	if c := find(t, r, "services"); r.OK || c.State != checkup.Missing || !strings.Contains(c.Fix, "docker compose up") {
		t.Errorf("it is fine %t: %s", r.OK, words(r))
	}
}

// One usable target is enough for an alias.
func TestModelWithOneUsableTarget(t *testing.T) {
	t.Parallel()
	m := machine(t)
	write(
		t,
		m.ConfigPath,
		"[models]\nsmart = [\"p:m\", \"q:m\"]\n[providers.p]\ndriver = \"openai\"\napi_key = \"${KAGED_NO_SUCH_KEY}\"\n"+
			"[providers.q]\ndriver = \"openai\"\napi_key = \"k\"\n",
	)
	if c := find(t, checkup.Look(t.Context(), m), "model smart"); c.State != checkup.OK ||
		!strings.Contains(c.Detail, "KAGED_NO_SUCH_KEY") {
		t.Errorf("%+v", c)
	}
}
