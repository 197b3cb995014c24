// Package deploy holds the files of deploy/ and docker-compose.yml to the services' expectations. No container is
// started: the compose file is read as docker compose reads it, and its scripts and profiles are run or compared.
package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"kaged.dev/pkg/mtls"
	"kaged.dev/services/kaged"
)

const root = "../.."

// The services of kaged by their container group, and the services beside them.
var (
	services     = names()
	workspace    = mtls.WorkspaceServices()
	controlPlane = slices.DeleteFunc(names(), func(name string) bool { return slices.Contains(workspace, name) })
	stores       = []string{"postgres", "nats"}
	lasting      = slices.Concat(services, stores) // all services but setup
)

// names returns the names of the services that the command runs.
func names() (list []string) {
	for _, module := range kaged.Modules() {
		list = append(list, module.Name)
	}
	return list
}

func load(t *testing.T, env ...string) *types.Project {
	t.Helper()
	opts, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithEnv(env),
		cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := opts.LoadProject(t.Context())
	if err != nil {
		t.Fatalf("docker-compose.yml does not load: %v", err)
	}
	return p
}

func service(t *testing.T, p *types.Project, name string) types.ServiceConfig {
	t.Helper()
	s, err := p.GetService(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mount returns a service's volume at a path, nil without one.
func mount(s types.ServiceConfig, target string) *types.ServiceVolumeConfig {
	for i := range s.Volumes {
		if s.Volumes[i].Target == target {
			return &s.Volumes[i]
		}
	}
	return nil
}

func text(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Every service is a container that checks its own health, starts after its dependencies, and runs as the user of the
// projects.
func TestEveryServiceRuns(t *testing.T) {
	t.Parallel()
	p := load(t, "KAGED_UID=1500", "KAGED_GID=1600")
	if got, want := p.ServiceNames(),
		slices.Sorted(slices.Values(append([]string{"setup"}, lasting...))); !slices.Equal(got, want) {
		t.Errorf("the services are %v, want %v", got, want)
	}
	for _, name := range services {
		s := service(t, p, name)
		if !slices.Equal(s.Command, types.ShellCommand{name}) ||
			!slices.Equal(s.HealthCheck.Test, types.HealthCheckTest{"CMD", name, "--health"}) {
			t.Errorf("%s runs %q and asks %q", name, s.Command, s.HealthCheck.Test)
		}
		if s.User != "1500:1600" {
			t.Errorf("%s runs as %q, want the user of the projects", name, s.User)
		}
	}
	needs := map[string][]string{
		"setup": nil, "postgres": {"setup"}, "nats": {"setup"}, "sandbox-supervisor": {"setup"},
		"tool-runner": {"dap-pool", "lsp-pool", "sandbox-supervisor"},
		"lsp-pool":    {"sandbox-supervisor"}, "dap-pool": {"sandbox-supervisor"},
		"harness": {"tool-runner"}, "session-manager": {
			"harness", "nats",
			"postgres",
		}, "issue": {"nats", "postgres"}, "gateway": {"issue", "session-manager"},
	}
	for name, want := range needs {
		s := service(t, p, name)
		if got := slices.Sorted(maps.Keys(s.DependsOn)); !slices.Equal(got, want) {
			t.Errorf("%s starts after %v, want %v", name, got, want)
		}
		for dep, how := range s.DependsOn {
			want := types.ServiceConditionHealthy
			if dep == "setup" {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if how.Condition != want {
				t.Errorf("%s waits until %s is %s, want %s", name, dep, how.Condition, want)
			}
		}
	}
}

// Only the console is published, on the machine's own address.
func TestOnlyTheConsoleIsPublished(t *testing.T) {
	t.Parallel()
	p := load(t, "PORT=8000")
	for name, s := range p.Services {
		switch {
		case name != "gateway" && (len(s.Ports) > 0 || s.NetworkMode == "host"):
			t.Errorf("%s is published: %+v %s", name, s.Ports, s.NetworkMode)
		case name == "gateway" && (len(s.Ports) != 1 || s.Ports[0].HostIP != "127.0.0.1" || s.Ports[0].Published != "8000"):
			t.Errorf("the gateway is published on %+v", s.Ports)
		}
	}
	if got := *service(t, p, "gateway").Environment["KAGED_UI_URL"]; got != "http://127.0.0.1:8000" {
		t.Errorf("people are sent to %s", got)
	}
}

// All are healthy in seconds and unhealthy within half a minute: asked often until they serve, and then given up
// after few tries.
func TestHealthChecks(t *testing.T) {
	t.Parallel()
	p := load(t)
	for _, name := range lasting {
		h := service(t, p, name).HealthCheck
		if h == nil || h.StartInterval == nil || h.StartPeriod == nil || h.Interval == nil || h.Timeout == nil ||
			h.Retries == nil {
			t.Errorf("%s has the health check %+v", name, h)
			continue
		}
		if every := time.Duration(*h.StartInterval); every > 500*time.Millisecond {
			t.Errorf("%s is asked every %s while it starts, want at most 500ms", name, every)
		}
		if worst := time.Duration(*h.Retries) * time.Duration(*h.Interval+*h.Timeout); worst > 30*time.Second {
			t.Errorf("%s is unhealthy after %s, want at most 30s", name, worst)
		}
		// host's healthTimeout, and the time limit of the stores' commands
		if asks := 3 * time.Second; time.Duration(*h.Timeout) <= asks {
			t.Errorf("%s is given %s, want more than the %s that its health check waits", name, h.Timeout, asks)
		}
	}
}

// A folder of projects may be named relative to the compose file, in the home, or by its whole path, and must exist.
func TestProjectsFolder(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"": filepath.Join(here, "examples"), "examples": filepath.Join(here, "examples"),
		"./examples": filepath.Join(here, "examples"),
		"../code":    filepath.Join(filepath.Dir(here), "code"), "/home/ada/code": "/home/ada/code",
		"~/code": filepath.Join(home, "code"),
	} {
		p := load(t, "PROJECTS="+given)
		for _, name := range workspace {
			m := mount(service(t, p, name), "/projects")
			if m == nil || m.Source != want || m.Type != "bind" || m.ReadOnly || m.Bind == nil || m.Bind.CreateHostPath {
				t.Errorf("with PROJECTS=%q %s has %+v, want %s", given, name, m, want)
			}
		}
		for _, name := range append(controlPlane, stores...) {
			if m := mount(service(t, p, name), "/projects"); m != nil {
				t.Errorf("%s sees the projects", name)
			}
		}
	}
}

// .env.example explains the variables that docker-compose.yml reads, and only these.
func TestEnvExampleIsComplete(t *testing.T) {
	t.Parallel()
	read := variables(text(t, "docker-compose.yml"))
	var explained []string
	for line := range strings.Lines(text(t, ".env.example")) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "#"), "="); ok &&
			!strings.Contains(name, " ") {
			explained = append(explained, name)
		}
	}
	// of make compose, and of the howto
	internal := []string{"KAGED_VERSION", "KAGED_REVISION", "KAGED_WORKSPACE_CONFIG_DIR"}
	for _, name := range read {
		if !slices.Contains(explained, name) && !slices.Contains(internal, name) {
			t.Errorf(".env.example does not explain %s", name)
		}
	}
	for _, name := range explained {
		if !slices.Contains(read, name) {
			t.Errorf(".env.example explains %s, which docker-compose.yml does not read", name)
		}
	}
}
