package deploy

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"

	"kaged.dev/pkg/config"
	"kaged.dev/services/kaged"
)

// callers returns the modules that call each service. Only their containers see the socket of the service.
func callers() map[string][]string {
	of := map[string][]string{}
	for _, module := range kaged.Modules() {
		if of[module.Name] == nil {
			of[module.Name] = []string{}
		}
		for _, need := range module.Needs {
			of[need] = append(of[need], module.Name)
		}
	}
	return of
}

// networks returns the names of a service's networks.
func networks(s types.ServiceConfig) []string {
	if s.NetworkMode != "" {
		return nil
	}
	return slices.Sorted(maps.Keys(s.Networks))
}

// No container of the workspace shares a network with one of the control plane or with a store, and the stores are
// on networks that lead nowhere else.
func TestWorkspaceHasNoNetworkToTheControlPlane(t *testing.T) {
	t.Parallel()
	p := load(t)
	want := map[string][]string{
		"postgres": {"database"}, "nats": {"bus"}, "session-manager": {"bus", "database"}, "gateway": {"bus", "public"},
		"harness": {"models"}, "issue": {"bus", "database"}, "sandbox-supervisor": {"workspace"}, "tool-runner": nil,
		"lsp-pool": nil, "dap-pool": nil, "setup": nil,
	}
	for name, s := range p.Services {
		if got := networks(s); !slices.Equal(got, want[name]) {
			t.Errorf("%s is on %v, want %v", name, got, want[name])
		}
		if len(want[name]) == 0 && s.NetworkMode != "none" {
			t.Errorf("%s has the network mode %q, want none", name, s.NetworkMode)
		}
		if s.Pid != "" || s.Ipc != "" || s.Uts != "" || s.Privileged || len(s.Devices) > 0 || len(s.VolumesFrom) > 0 ||
			len(s.Links) > 0 {
			t.Errorf("%s shares more with others than networks and volumes", name)
		}
	}
	for _, name := range []string{"database", "bus"} {
		if !p.Networks[name].Internal {
			t.Errorf("the network %s leads outside", name)
		}
	}
}

// Each service listens in its own folder. Only the service can write to it, and only its callers see it. The operator's
// socket of the gateway is in no volume.
func TestSocketsAreSeenByCallersOnly(t *testing.T) {
	t.Parallel()
	p := load(t)
	f := &config.File{}
	for owner, may := range callers() {
		dir := "/run/kaged/" + owner
		for name, s := range p.Services {
			m := mount(s, dir)
			switch {
			case name == owner && owner == "gateway":
				if m != nil || !slices.ContainsFunc(s.Tmpfs, func(t string) bool { return strings.HasPrefix(t, dir+":") }) {
					t.Errorf("the operator's socket is in %+v, want a tmpfs of the gateway's own", m)
				}
			case name == owner:
				if m == nil || m.ReadOnly || m.Source != "sockets-"+owner {
					t.Errorf("%s listens in %+v", name, m)
				}
			case slices.Contains(may, name):
				if m == nil || !m.ReadOnly || m.Source != "sockets-"+owner {
					t.Errorf("%s calls %s through %+v, want it read-only", name, owner, m)
				}
			case m != nil:
				t.Errorf("%s sees the socket of %s", name, owner)
			}
			if m := mount(s, "/run/kaged"); m != nil {
				t.Errorf("%s sees the sockets of all: %+v", name, m)
			}
			if !slices.Contains(services, name) {
				continue
			}
			listen, _, err := f.Place(owner, func(k string) string {
				if v := s.Environment[k]; v != nil {
					return *v
				}
				return ""
			})
			if err != nil || !slices.Equal(listen, []string{"unix:" + path.Join(dir, owner+".sock")}) {
				t.Errorf("%s takes %s to be at %q", name, owner, listen)
			}
		}
	}
	for name, v := range p.Volumes {
		o := v.DriverOpts
		if strings.HasPrefix(name, "sockets-") && (o["type"] != "tmpfs" || !strings.Contains(o["o"], "mode=0777")) {
			t.Errorf("%s is %v, want a tmpfs for any uid", name, o)
		}
	}
}

// A secret is visible only to the services that need it, read-only, and never in a volume with a socket, a project or
// an agent's home folder.
func TestSecretsAreSeenWhereTheyAreNeeded(t *testing.T) {
	t.Parallel()
	p := load(t)
	want := map[string][]string{
		"secret-database": {"issue", "postgres", "session-manager"},
		"secret-bus":      {"gateway", "issue", "nats", "session-manager"},
		"secret-services": services,
	}
	for volume, may := range want {
		for name, s := range p.Services {
			i := slices.IndexFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Source == volume })
			if name == "setup" {
				if i < 0 || s.Volumes[i].ReadOnly {
					t.Errorf("setup cannot make %s", volume)
				}
				continue
			}
			if (i >= 0) != slices.Contains(may, name) {
				t.Errorf("%s sees %s: %t", name, volume, i >= 0)
			}
			if i >= 0 &&
				(!s.Volumes[i].ReadOnly || s.Volumes[i].Target != "/run/secrets/"+strings.TrimPrefix(volume, "secret-")) {
				t.Errorf("%s has %s at %+v", name, volume, s.Volumes[i])
			}
		}
	}
	for _, name := range services {
		if v := service(t, p, name).Environment["KAGED_SERVICE_TOKEN_FILE"]; v == nil || *v != "/run/secrets/services/token" {
			t.Errorf("%s has no token of the services", name)
		}
	}
}

// secretName matches the names of variables with secrets.
var secretName = regexp.MustCompile(`PASSWORD|TOKEN|SECRET|_KEY\b|AUTH`)

// No secret has a default or is part of a command or an environment: a variable of that kind names a file, or is a
// provider's key, which is empty unless the operator sets it and is passed only to session-manager.
func TestNoSecretHasADefault(t *testing.T) {
	t.Parallel()
	compose := text(t, "docker-compose.yml")
	for name, fallback := range defaults(compose) {
		if secretName.MatchString(name) && fallback != "" && fallback != "none" {
			t.Errorf("%s has the default %q", name, fallback)
		}
	}
	p := load(t, "ANTHROPIC_API_KEY=sk-one", "OPENAI_API_KEY=sk-two", "GEMINI_API_KEY=sk-three",
		"KAGED_OPENAI_API_KEY=sk-four")
	for name, s := range p.Services {
		for _, arg := range slices.Concat(s.Command, s.Entrypoint) {
			if secretName.MatchString(strings.ToUpper(arg)) && !strings.HasPrefix(arg, "/run/secrets/") {
				t.Errorf("the command of %s holds %q", name, arg)
			}
		}
		for key, value := range s.Environment {
			switch {
			case value == nil:
				t.Errorf("%s takes %s from whatever environment there is", name, key)
			case strings.HasPrefix(*value, "sk-"):
				if name != "session-manager" {
					t.Errorf("the key %s reaches %s", key, name)
				}
			case secretName.MatchString(key) && !strings.HasSuffix(key, "_FILE"):
				t.Errorf("%s has %s=%s", name, key, *value)
			case strings.Contains(*value, "://") && strings.Contains(*value, "@"):
				t.Errorf("%s has the credentials of %s in its environment", name, key)
			}
		}
	}
}

var (
	variable = regexp.MustCompile(`\$\{([A-Z_]+)(?:[:][-?+]([^}]*))?\}`)
	comment  = regexp.MustCompile(`(?m)^\s*#.*$`)
)

// variables returns the variables that a compose file reads.
func variables(compose string) []string { return slices.Sorted(maps.Keys(defaults(compose))) }

// defaults returns the variables that a compose file reads, with their defaults.
func defaults(compose string) map[string]string {
	found := map[string]string{}
	for _, m := range variable.FindAllStringSubmatch(comment.ReplaceAllString(compose, ""), -1) {
		found[m[1]] = m[2]
	}
	return found
}
