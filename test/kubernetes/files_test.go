package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"kaged.dev/pkg/config"
)

func text(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// kustomize refuses files above its folder, so two files of deploy/ are copied here.
func TestCopiesAreEqual(t *testing.T) {
	t.Parallel()
	for copied, original := range map[string]string{
		"components/nats/mtls.conf": "../nats/mtls.conf", "components/apache/kaged.conf": "../apache/kaged.conf",
		"components/seccomp-installer/seccomp.json": "../seccomp.json",
	} {
		if text(t, copied) != text(t, original) {
			t.Errorf("deploy/k8s/%s is another file than deploy/%s; copy it", copied, strings.TrimPrefix(original, "../"))
		}
	}
}

// Each component builds with the base, the services can read the configurations, and each address has a listener.
func TestComponentsAndConfigurations(t *testing.T) {
	t.Parallel()
	m := build(t, "base")
	for name, c := range m.configs {
		if _, err := config.Parse(name, []byte(c.Data["local.toml"])); err != nil {
			t.Errorf("the configuration %s: %v", name, err)
		}
	}
	listens := map[string]string{}
	for _, p := range m.pods {
		for _, c := range p.containers() {
			key := "KAGED_SERVICES_" + strings.ToUpper(strings.ReplaceAll(c.Name, "-", "_"))
			if at := env(c, key+"_LISTEN"); strings.Contains(at, ":74") {
				listens[key] = at[strings.LastIndex(at, ":"):]
				if port, _ := strings.CutPrefix(listens[key], ":"); fmt.Sprint(portOf(c.Name)) != port {
					t.Errorf("%s listens on %s, want %d as in the howto", c.Name, at, portOf(c.Name))
				}
				if env(c, key+"_ADDRESS") == "" || env(c, "KAGED_TLS_KEY_FILE") == "" {
					t.Errorf("%s listens on %s without an address or a certificate", c.Name, at)
				}
			}
		}
	}
	for _, p := range m.pods {
		for _, c := range p.containers() {
			for _, e := range c.Env {
				key, isAddress := strings.CutSuffix(e.Name, "_ADDRESS")
				if isAddress && strings.Contains(e.Value, ":74") && !strings.HasSuffix(e.Value, listens[key]) {
					t.Errorf("%s calls %s at %s, where it does not listen", c.Name, key, e.Value)
				}
			}
		}
	}
	if len(listens) != len(ports) {
		t.Errorf("services listen on TCP as %v, want those of %v", listens, ports)
	}
	components, err := filepath.Glob(filepath.Join(root, "components", "*"))
	if err != nil || len(components) < 6 {
		t.Fatalf("%v, %v", components, err)
	}
	for _, path := range components {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build(t, alone(t, name))
		})
	}
}

// alone creates an overlay of the base and one component, and returns its folder.
func alone(t *testing.T, component string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "k8s"), os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "k8s", "overlays", "alone")
	if err := os.MkdirAll(overlay, 0o755); err != nil {
		t.Fatal(err)
	}
	on := "base"
	if component == "several-operators" {
		on = "control"
	}
	overlayed := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n" +
		"resources: [../../" + on + "]\ncomponents: [../../components/" + component + "]\n"
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(overlayed), 0o600); err != nil {
		t.Fatal(err)
	}
	return within(t, overlay)
}

// within returns a folder as build takes it.
func within(t *testing.T, folder string) string {
	t.Helper()
	base, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	out, err := filepath.Rel(base, folder)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// portOf returns the port of a service between pods, 0 for a service without one.
func portOf(service string) int32 {
	for port, name := range ports {
		if name == service {
			return port
		}
	}
	return 0
}

// The files of oauth2-proxy replace each header with the identity for the gateway, and the proxy uses ports that exist
// in the pod. oauth2-proxy itself is not run.
func TestSignInProxy(t *testing.T) {
	t.Parallel()
	var file struct {
		Server struct {
			BindAddress string `yaml:"BindAddress"`
		} `yaml:"server"`
		UpstreamConfig struct {
			Upstreams []struct {
				URI             string `yaml:"uri"`
				PassHostHeader  bool   `yaml:"passHostHeader"`
				ProxyWebSockets bool   `yaml:"proxyWebSockets"`
			} `yaml:"upstreams"`
		} `yaml:"upstreamConfig"`
		InjectRequestHeaders []struct {
			Name                 string `yaml:"name"`
			PreserveRequestValue bool   `yaml:"preserveRequestValue"`
		} `yaml:"injectRequestHeaders"`
	}
	if err := yaml.Unmarshal([]byte(text(t, "components", "oauth2-proxy", "oauth2-proxy.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	want := []string{"X-Kaged-User-Id", "X-Kaged-User-Email", "X-Kaged-User-Groups", "X-Kaged-Auth-Nonce"}
	var headers []string
	for _, h := range file.InjectRequestHeaders {
		headers = append(headers, h.Name)
		if h.PreserveRequestValue {
			t.Errorf("a client can send %s through the proxy", h.Name)
		}
	}
	if !slices.Equal(headers, want) {
		t.Errorf("the proxy sets %v, want %v", headers, want)
	}
	for _, p := range build(t, "overlays/production").pods {
		if p.name != "gateway" {
			continue
		}
		at := "http://" + env(p.spec.Containers[0], "KAGED_LISTEN")
		up := file.UpstreamConfig.Upstreams
		if len(up) != 1 || up[0].URI != at || !up[0].PassHostHeader || !up[0].ProxyWebSockets {
			t.Errorf("the proxy leads to %+v, want %s with its host and sockets", up, at)
		}
		proxy := p.containers()[0]
		if proxy.Name != "sign-in" || !strings.HasSuffix(file.Server.BindAddress, fmt.Sprintf(":%d",
			proxy.Ports[0].ContainerPort)) {
			t.Errorf("%s listens on %s, want its port %v", proxy.Name, file.Server.BindAddress, proxy.Ports)
		}
	}
}
