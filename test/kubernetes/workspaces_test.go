package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"kaged.dev/pkg/config"
)

// Each workspace in the configuration of a deployment that operators share is a pod with one replica, a volume, a
// service and certificates of its own, at the configured address. No workspace reaches another, no label selects two,
// and no process of the control plane has an address of a workspace for all.
func TestEachOperatorHasAWorkspace(t *testing.T) {
	t.Parallel()
	m := build(t, "overlays/shared")
	checkShared(t, m, "a", "b")
}

// A third workspace is a copy of the folder of the first with another letter, as the howto says.
func TestAWorkspaceIsAdded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k8s := filepath.Join(dir, "deploy", "k8s")
	if err := os.CopyFS(k8s, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	howto, err := os.ReadFile("../../docs/howto/run-on-kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^cd deploy/k8s && cp .*$`).Find(howto)
	typed := exec.CommandContext(t.Context(), "bash", "-c", string(line))
	typed.Dir = dir
	if out, err := typed.CombinedOutput(); err != nil || len(line) == 0 {
		t.Fatalf("%q: %v\n%s", line, err, out)
	}
	component := filepath.Join(k8s, "components", "several-operators")
	rewrite(t, filepath.Join(component, "kustomization.yaml"), "workspaces/b]", "workspaces/b, ../../workspaces/c]")
	toml, err := os.ReadFile(filepath.Join(component, "local.toml"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(toml), "[[workspaces]]")
	table, _, _ = strings.Cut(table, "[[workspaces]]")
	more := string(toml) + "\n[[workspaces]]" + strings.ReplaceAll(table, "workspace-a", "workspace-c")
	if err := os.WriteFile(filepath.Join(component, "local.toml"), []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	checkShared(t, build(t, within(t, filepath.Join(k8s, "overlays", "shared"))), "a", "b", "c")
}

func rewrite(t *testing.T, path, from, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), from) {
		t.Fatalf("%s does not have %q", path, from)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(data), from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func checkShared(t *testing.T, m *manifests, letters ...string) {
	t.Helper()
	f := m.control(t)
	var names, want []string
	for _, w := range f.Workspaces {
		names = append(names, w.Name)
	}
	for _, l := range letters {
		want = append(want, "workspace-"+l)
	}
	if !f.System.Enabled || f.System.AdminGroup == "" || !slices.Equal(names, want) {
		t.Fatalf("the control plane has %+v and workspaces %v, want %v", f.System, names, want)
	}
	count := 0
	for _, p := range m.pods {
		if p.app() == "workspace" {
			count++
		}
		for _, c := range p.containers() {
			for _, e := range c.Env {
				if strings.Contains(e.Value, "workspace-0.") {
					t.Errorf("%s has the address of a workspace for all: %s", c.Name, e.Value)
				}
			}
		}
	}
	if count != len(names) {
		t.Errorf("%d workspaces run, want %d", count, len(names))
	}
	for _, w := range f.Workspaces {
		m.checkOperators(t, f, w)
	}
	if m.reaches("workspace", "workspace", portOf("tool-runner"), networkingv1.PolicyTypeIngress) ||
		m.reaches("workspace", "workspace", portOf("sandbox-supervisor"), networkingv1.PolicyTypeIngress) {
		t.Error("a workspace reaches another")
	}
}

// control returns the configuration of the control plane.
func (m *manifests) control(t *testing.T) *config.File {
	t.Helper()
	for name, c := range m.configs {
		if strings.HasPrefix(name, "kaged/kaged-config") {
			f, err := config.Parse(name, []byte(c.Data["local.toml"]))
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
	}
	t.Fatal("the control plane has no configuration")
	return nil
}

// checkOperators checks one workspace of the configuration.
func (m *manifests) checkOperators(t *testing.T, f *config.File, w config.Workspace) {
	t.Helper()
	i := slices.IndexFunc(m.pods, func(p pod) bool { return p.name == w.Name })
	if i < 0 {
		t.Errorf("%s does not run", w.Name)
		return
	}
	p, letter := m.pods[i], strings.TrimPrefix(w.Name, "workspace-")
	if p.replicas != 1 || !slices.Equal(p.claims, []string{"files"}) {
		t.Errorf("%s has %d replicas and the volumes %v", w.Name, p.replicas, p.claims)
	}
	for service, at := range map[string]string{"tool-runner": w.Address, "sandbox-supervisor": w.Supervisor} {
		want := fmt.Sprintf("%s-0.%s.kaged-workspaces.svc:%d", w.Name, w.Name, portOf(service))
		if at != want {
			t.Errorf("%s of %s is configured at %s, want %s", service, w.Name, at, want)
		}
		for _, c := range p.containers() {
			key := config.EnvName("services", service, "address")
			if c.Name == service && env(c, key) != strings.Replace(at, w.Name+"-0", "$(POD_NAME)", 1) {
				t.Errorf("%s of %s says that it is at %s", service, w.Name, env(c, key))
			}
		}
		if !slices.ContainsFunc(p.spec.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == "kaged-tls-"+service+"-"+letter
		}) {
			t.Errorf("%s of %s has no certificate of its own", service, w.Name)
		}
	}
	selects := 0
	for _, s := range m.services {
		for _, other := range m.pods {
			if s.Name != w.Name || !slices.ContainsFunc(s.Spec.Ports, func(port corev1.ServicePort) bool {
				return s.Namespace == other.namespace && offers(other, s.Spec.Selector, port)
			}) {
				continue
			}
			if selects++; other.name != w.Name {
				t.Errorf("the service %s leads to %s", s.Name, other.name)
			}
		}
	}
	if selects != 1 {
		t.Errorf("the service %s leads to %d pods", w.Name, selects)
	}
	for _, other := range m.pods {
		if other.name != w.Name && other.app() == "workspace" && matches(p.selector, other.labels) {
			t.Errorf("%s selects the pods of %s", w.Name, other.name)
		}
	}
	m.checkItsConfig(t, f, p)
}

// checkItsConfig checks that a workspace has the shared mode, and neither models nor the addresses of other workspaces.
func (m *manifests) checkItsConfig(t *testing.T, control *config.File, p pod) {
	t.Helper()
	for _, v := range p.spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		c := m.configs[p.namespace+"/"+v.ConfigMap.Name]
		if c == nil {
			t.Fatalf("%s has no configuration %s", p.name, v.ConfigMap.Name)
		}
		f, err := config.Parse(p.name, []byte(c.Data["local.toml"]))
		if err != nil {
			t.Fatal(err)
		}
		if f.System.Root() != control.System.Root() || len(f.Workspaces) > 0 || len(f.Providers) > 0 {
			t.Errorf("%s is configured with %+v, workspaces %v", p.name, f.System, f.Workspaces)
		}
	}
}
