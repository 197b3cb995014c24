// Package deploytest holds the files of deploy/ and docker-compose.yml to what the services expect of them.
package deploytest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"kaged.dev/pkg/config"
)

const root = "../../.."

func load(t *testing.T, env ...string) *types.Project {
	t.Helper()
	opts, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithEnv(env), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := opts.LoadProject(t.Context())
	if err != nil {
		t.Fatalf("docker-compose.yml does not load: %v", err)
	}
	return p
}

// Every service of kaged is a container of the one image, healthy before what needs it starts, on the shared sockets.
func TestComposeRunsEveryService(t *testing.T) {
	t.Parallel()
	p := load(t, "PROJECTS=/home/ada/code")
	for _, name := range []string{"gateway", "session-manager", "harness", "tool-runner", "sandbox-supervisor"} {
		s, err := p.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.HealthCheck == nil || !slices.Equal(s.HealthCheck.Test, types.HealthCheckTest{"CMD", name, "--health"}) {
			t.Errorf("%s has no health check of its own: %+v", name, s.HealthCheck)
		}
		if s.User != "1000:1000" {
			t.Errorf("%s runs as %q; agents must own what they change", name, s.User)
		}
		if s.PullPolicy != "" {
			t.Errorf("%s has pull_policy %s", name, s.PullPolicy)
		}
		if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == "/run/kaged" }) {
			t.Errorf("%s does not see the sockets", name)
		}
		for dep, how := range s.DependsOn {
			if how.Condition != types.ServiceConditionHealthy {
				t.Errorf("%s starts before %s is healthy", name, dep)
			}
		}
	}
	for _, name := range []string{"tool-runner", "sandbox-supervisor"} {
		s, _ := p.GetService(name)
		if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Source == "/home/ada/code" && v.Target == "/home/ada/code"
		}) {
			t.Errorf("%s does not see the projects at their own path: %+v", name, s.Volumes)
		}
	}
	for _, name := range []string{"postgres", "nats"} {
		if s, err := p.GetService(name); err != nil || s.HealthCheck == nil {
			t.Errorf("%s: %v, health check %v", name, err, s.HealthCheck)
		}
	}
	gateway, _ := p.GetService("gateway")
	if len(gateway.Ports) != 1 || gateway.Ports[0].HostIP != "127.0.0.1" {
		t.Errorf("the gateway is published on %+v", gateway.Ports)
	}
}

// The containers' configuration is one kaged reads, and it puts every service on a socket in the shared folder.
func TestComposeConfiguration(t *testing.T) {
	t.Parallel()
	f, err := config.Load(filepath.Join(root, "deploy", "compose.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gateway", "session-manager", "harness", "tool-runner", "sandbox-supervisor"} {
		if listen, _ := f.Place(name, func(string) string { return "" }); listen != "unix:/run/kaged/"+name+".sock" {
			t.Errorf("%s listens on %q", name, listen)
		}
	}
}

// The Dockerfile needs no BuildKit frontend from elsewhere, and copies every binary that make build leaves.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if strings.Contains(text, "# syntax=") {
		t.Error("it names a syntax image")
	}
	for _, name := range []string{"kaged", "gateway", "session-manager", "harness", "tool-runner", "sandbox-supervisor"} {
		if !strings.Contains(text, "/src/bin/"+name+" ") {
			t.Errorf("it does not copy %s", name)
		}
	}
}
