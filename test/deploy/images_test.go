package deploy

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/mtls"
)

// stages returns the stages of the Dockerfile by name, each with its instructions.
func stages(t *testing.T) map[string]string {
	t.Helper()
	found, name := map[string]string{}, ""
	for line := range strings.Lines(text(t, "deploy", "Dockerfile")) {
		if m := regexp.MustCompile(`^FROM (\S+) AS (\S+)`).FindStringSubmatch(line); m != nil {
			name = m[2]
		}
		if !strings.HasPrefix(line, "#") {
			found[name] += line
		}
	}
	return found
}

// There are two images, each built once: that of the control plane, without a compiler, and that of the workspace.
func TestTwoImages(t *testing.T) {
	t.Parallel()
	p := load(t, "KAGED_VERSION=9.8.7", "KAGED_REVISION=abc")
	built := map[string]string{}
	for name, s := range p.Services {
		switch {
		case slices.Contains(stores, name):
			continue
		case s.Build != nil:
			if built[s.Image] != "" {
				t.Errorf("%s and %s both build %s", name, built[s.Image], s.Image)
			}
			built[s.Image] = name
			if v := s.Build.Args["VERSION"]; v == nil || *v != "9.8.7" {
				t.Errorf("%s is built as version %v", s.Image, v)
			}
		case s.PullPolicy != "never":
			t.Errorf("%s asks a registry for %s (%q)", name, s.Image, s.PullPolicy)
		}
		want := "kaged"
		if slices.Contains(workspace, name) {
			want = "kaged-workspace"
		}
		if s.Image != want {
			t.Errorf("%s runs %s, want %s", name, s.Image, want)
		}
	}
	if len(built) != 2 || p.Services[built["kaged"]].Build.Target != "control-plane" ||
		p.Services[built["kaged-workspace"]].Build.Target != "workspace" {
		t.Errorf("the images are built by %v", built)
	}
	all := stages(t)
	for _, word := range []string{"gcc", "libc6-dev", "/usr/local/go", "make git"} {
		if strings.Contains(all["base"], word) || strings.Contains(all["control-plane"], word) {
			t.Errorf("the control plane's image has %s", word)
		}
		if word != "make git" && !strings.Contains(all["workspace"], word) {
			t.Errorf("the workspace's image lacks %s", word)
		}
	}
	for _, stage := range []string{"control-plane", "workspace"} {
		if !strings.Contains(all[stage], "/src/bin/images/"+stage+"/ /usr/local/bin/") {
			t.Errorf("the %s does not have its programs", stage)
		}
		for _, label := range []string{"title", "description", "licenses", `version="$VERSION"`, `revision="$REVISION"`} {
			if !strings.Contains(all[stage], "org.opencontainers.image."+label) {
				t.Errorf("the %s has no label %s", stage, label)
			}
		}
		for _, line := range []string{"\nENV KAGED_CONTAINER=" + stage, "\nUSER kaged\n", "\nCMD [\"kaged\", \"doctor\"]\n"} {
			if !strings.Contains(all[stage], line) {
				t.Errorf("the %s lacks %q", stage, line)
			}
		}
	}
}

// Each image has the programs of its services: make images sorts them by the contract's list.
func TestProgramsByImage(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", root,
		"--eval", "workspace-services: ; @echo $(WORKSPACE)", "workspace-services").Output()
	if got := strings.Fields(string(out)); err != nil || !slices.Equal(got, mtls.WorkspaceServices()) {
		t.Errorf("make images puts %q into the workspace's image (%v), want %q", got, err, mtls.WorkspaceServices())
	}
}

// The compiler's cache survives a cancelled build, and only changes of compiled files repeat the compilation.
func TestBuildIsCached(t *testing.T) {
	t.Parallel()
	build := stages(t)["build"]
	if strings.Contains(build, "COPY . ") || strings.Contains(text(t, "deploy", "Dockerfile"), "# syntax=") {
		t.Error("the build copies everything, or names a frontend from elsewhere")
	}
	for _, dir := range []string{"/go/pkg/mod", "/root/.cache/go-build"} {
		if !strings.Contains(build, "--mount=type=cache,target="+dir) {
			t.Errorf("%s is not cached", dir)
		}
	}
	ignore := strings.Fields(comment.ReplaceAllString(text(t, ".dockerignore"), ""))
	if ignore[0] != "*" {
		t.Errorf(".dockerignore begins with %q, want everything left out that is not named", ignore[0])
	}
	for _, m := range regexp.MustCompile(`(?m)^COPY (?:--chmod=\S+ )?([^-].*) \S+$`).
		FindAllStringSubmatch(text(t, "deploy", "Dockerfile"), -1) {
		for _, source := range strings.Fields(m[1]) {
			first, _, _ := strings.Cut(source, "/")
			if !slices.Contains(ignore, "!"+source) && !slices.Contains(ignore, "!"+first) {
				t.Errorf("the Dockerfile copies %s, which .dockerignore leaves out", source)
			}
		}
	}
	for _, kept := range []string{"!docs", "!docker-compose.yml", "!deploy", "!scripts", "!examples", "!.env.example"} {
		if slices.Contains(ignore, kept) {
			t.Errorf("a change of %s builds everything again", kept[1:])
		}
	}
}

// The version in the labels of the images is that of the build.
func TestImagesAndBuildHaveOneVersion(t *testing.T) {
	t.Parallel()
	find := func(pattern, in string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(in)
		if m == nil {
			t.Fatalf("no %s", pattern)
		}
		return m[1]
	}
	want := find(`(?m)^VERSION\s*\?=\s*(\S+)`, text(t, "Makefile"))
	for _, got := range regexp.MustCompile(`(?m)^ARG VERSION=(\S+)`).
		FindAllStringSubmatch(text(t, "deploy", "Dockerfile"), -1) {
		if got[1] != want {
			t.Errorf("the Dockerfile says %s, the Makefile %s", got[1], want)
		}
	}
	if got := find(`KAGED_VERSION:-([^}]+)`, text(t, "docker-compose.yml")); got != want {
		t.Errorf("docker-compose.yml says %s, the Makefile %s", got, want)
	}
}

// The configurations of the containers are ones that kaged reads, and hold no place of a service; the operator's is
// mounted as a folder, so that an editor may replace the file, and no agent can read it.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"config", "workspace"} {
		f, err := config.Load(root + "/deploy/" + dir + "/local.toml")
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Services) > 0 || f.Database != (config.Database{}) || f.NATS != (config.NATS{}) || len(f.RawKeys()) > 0 {
			t.Errorf("deploy/%s/local.toml says where services or stores are, or holds a key", dir)
		}
		for alias, targets := range f.Models {
			for _, target := range targets {
				if name, _, _ := config.SplitTarget(target); f.Providers[name].DriverOf(name) == "" ||
					f.Providers[name].APIKey == "" {
					t.Errorf("models.%s goes to %s, which is not configured", alias, target)
				}
			}
		}
	}
	p := load(t, "KAGED_CONFIG_DIR=/home/ada/.config/kaged")
	for _, name := range controlPlane {
		m := mount(service(t, p, name), "/etc/kaged")
		if m == nil || m.Type != "bind" || m.Source != "/home/ada/.config/kaged" ||
			m.ReadOnly != (name != "session-manager") {
			t.Errorf("%s has the configuration %+v", name, m)
		}
	}
	for _, name := range workspace {
		if m := mount(service(t, p, name), "/etc/kaged"); m == nil || !m.ReadOnly ||
			!strings.HasSuffix(m.Source, "/deploy/workspace") {
			t.Errorf("%s has the configuration %+v", name, m)
		}
	}
}

// An OpenAI-compatible server is two variables: its address and a model. They reach session-manager, which resolves
// them, and the machine that runs Docker has a name where models are called from.
func TestOpenAICompatibleServer(t *testing.T) {
	t.Parallel()
	p := load(t, "KAGED_OPENAI_BASE_URL=http://host.docker.internal:11434/v1", "KAGED_OPENAI_MODEL=qwen3")
	env := service(t, p, "session-manager").Environment
	f, err := config.Load(root + "/deploy/config/local.toml")
	if err != nil {
		t.Fatal(err)
	}
	provider := f.Providers["local"]
	for _, ref := range []string{provider.BaseURL, provider.APIKey, f.Models["smart-generalist"][0]} {
		for _, m := range variable.FindAllStringSubmatch(ref, -1) {
			if v := env[m[1]]; v == nil || *v == "" {
				t.Errorf("%s is not set in session-manager's environment", m[1])
			}
		}
	}
	if hosts := service(t, p, "harness").ExtraHosts; !slices.Equal(hosts["host.docker.internal"],
		[]string{"host-gateway"}) {
		t.Errorf("the harness knows %v", hosts)
	}
	if hosts := service(t, p, "sandbox-supervisor").ExtraHosts; len(hosts) > 0 {
		t.Errorf("agents are told of %v", hosts)
	}
}
