// Package kubernetes tests deploy/k8s without a cluster: kustomize's library builds the overlays, a strict decoder
// reads them into the types of the API, and the tests check them with pod security and the caller table.
package kubernetes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"kaged.dev/pkg/mtls"
)

const root = "../../deploy/k8s"

// pod is a pod that a manifest creates.
type pod struct {
	kind, name, namespace string
	replicas              int32 // 0 for unset
	labels                map[string]string
	selector              *metav1.LabelSelector // nil for the pod of a job
	claims                []string
	spec                  corev1.PodSpec
}

// app returns the name of the services in the pod: workspaces have different names, and are the same application.
func (p pod) app() string {
	if strings.HasPrefix(p.name, "workspace") {
		return p.labels["app.kubernetes.io/name"]
	}
	return p.name
}

// containers returns the containers, with the native sidecars.
func (p pod) containers() (list []corev1.Container) {
	for _, c := range p.spec.InitContainers {
		if c.RestartPolicy != nil {
			list = append(list, c)
		}
	}
	return append(list, p.spec.Containers...)
}

// manifests are the manifests of an overlay.
type manifests struct {
	namespaces map[string]*corev1.Namespace
	pods       []pod
	services   []*corev1.Service
	policies   []*networkingv1.NetworkPolicy
	budgets    []*policyv1.PodDisruptionBudget
	scalers    []*autoscalingv2.HorizontalPodAutoscaler
	configs    map[string]*corev1.ConfigMap // by namespace/name
	accounts   map[string]bool
	foreign    []string // kinds in the APIs of other projects
}

// build builds a folder of deploy/k8s and decodes the result. A field unknown to the API is an error.
func build(t *testing.T, folder string) *manifests {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root,
		folder))
	if err != nil {
		t.Fatalf("%s does not build: %v", folder, err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme,
		policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	m := &manifests{
		namespaces: map[string]*corev1.Namespace{}, configs: map[string]*corev1.ConfigMap{},
		accounts: map[string]bool{},
	}
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		if group := r.GetGvk().Group; strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") {
			m.foreign = append(m.foreign, r.GetGvk().Kind)
			continue
		}
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Errorf("%s %s of %s: %v", r.GetKind(), r.GetName(), folder, err)
			continue
		}
		m.add(t, object)
	}
	return m
}

func (m *manifests) add(t *testing.T, object runtime.Object) {
	t.Helper()
	made := func(kind string, meta metav1.ObjectMeta, template corev1.PodTemplateSpec) *pod {
		m.pods = append(m.pods, pod{
			kind: kind, name: meta.Name, namespace: meta.Namespace, labels: template.Labels, spec: template.Spec,
		})
		return &m.pods[len(m.pods)-1]
	}
	switch o := object.(type) {
	case *corev1.Namespace:
		m.namespaces[o.Name] = o
	case *appsv1.Deployment:
		p := made("Deployment", o.ObjectMeta, o.Spec.Template)
		p.selector = o.Spec.Selector
		if o.Spec.Replicas != nil {
			p.replicas = *o.Spec.Replicas
		}
	case *appsv1.StatefulSet:
		p := made("StatefulSet", o.ObjectMeta, o.Spec.Template)
		p.selector, p.replicas = o.Spec.Selector, *o.Spec.Replicas
		for _, c := range o.Spec.VolumeClaimTemplates {
			p.claims = append(p.claims, c.Name)
		}
	case *appsv1.DaemonSet:
		made("DaemonSet", o.ObjectMeta, o.Spec.Template).selector = o.Spec.Selector
	case *batchv1.Job:
		made("Job", o.ObjectMeta, o.Spec.Template)
	case *corev1.Service:
		m.services = append(m.services, o)
	case *networkingv1.NetworkPolicy:
		m.policies = append(m.policies, o)
	case *policyv1.PodDisruptionBudget:
		m.budgets = append(m.budgets, o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		m.scalers = append(m.scalers, o)
	case *corev1.ConfigMap:
		m.configs[o.Namespace+"/"+o.Name] = o
	case *corev1.ServiceAccount:
		m.accounts[o.Namespace+"/"+o.Name] = true
		if o.AutomountServiceAccountToken == nil || *o.AutomountServiceAccountToken {
			t.Errorf("the account %s gives tokens", o.Name)
		}
	default:
		t.Errorf("%T is not looked at by this test", object)
	}
}

// overlays are the folders to apply. base alone needs an external Postgres and NATS.
var overlays = []string{"base", "overlays/dev", "overlays/production", "overlays/shared"}

func each(t *testing.T, check func(t *testing.T, m *manifests, overlay string)) {
	t.Helper()
	for _, overlay := range overlays {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			check(t, build(t, overlay), overlay)
		})
	}
}

// Every service runs: two or more of gateway, session-manager, harness and issue, but one of each in the overlay dev;
// the four of a workspace in one pod with one volume. base and dev apply to a bare cluster.
func TestEveryServiceRuns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *manifests, overlay string) {
		found := map[string]int32{}
		for _, p := range m.pods {
			for _, c := range p.containers() {
				found[c.Name] = p.replicas
			}
			if p.app() == "workspace" {
				checkWorkspace(t, p)
			}
		}
		scaled := map[string]bool{}
		for _, s := range m.scalers {
			scaled[s.Spec.ScaleTargetRef.Name] = s.Spec.MinReplicas != nil && *s.Spec.MinReplicas >= 2
		}
		replicated := []string{"gateway", "session-manager", "harness", "issue"}
		for _, name := range slices.Concat(mtls.WorkspaceServices(), []string{"migrate"}, replicated) {
			n, there := found[name]
			switch {
			case !there:
				t.Errorf("%s does not run", name)
			case slices.Contains(replicated, name) && (overlay == "overlays/dev") != (n == 1) && !scaled[name]:
				t.Errorf("%s has %d replicas", name, n)
			}
		}
		if overlay != "overlays/production" && len(m.foreign) > 0 {
			t.Errorf("a bare cluster does not know %v", m.foreign)
		}
		for _, store := range []string{"postgres", "nats"} {
			inCluster := overlay == "overlays/dev" || overlay == "overlays/shared"
			if _, there := found[store]; there != inCluster {
				t.Errorf("%s runs in the cluster: %t", store, there)
			}
		}
	})
}

// checkWorkspace checks that the other services of a workspace start before tool-runner and end after it, so that
// a drain finds the cages and servers of the runs.
func checkWorkspace(t *testing.T, p pod) {
	t.Helper()
	var beside []string
	for _, c := range p.spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			beside = append(beside, c.Name)
		}
	}
	want := slices.DeleteFunc(mtls.WorkspaceServices(), func(name string) bool { return name == "tool-runner" })
	first := len(beside) > 0 && beside[0] == "sandbox-supervisor" // the others need it
	slices.Sort(beside)
	slices.Sort(want)
	if !first || !slices.Equal(beside, want) || len(p.spec.Containers) != 1 || len(p.claims) != 1 {
		t.Errorf("beside %d containers of the workspace are %v, want %v, sandbox-supervisor first; volumes %v",
			len(p.spec.Containers), beside, want, p.claims)
	}
}

// Every container has three different probes on its own port. A service stops within its grace period, a disruption
// stops one pod at a time, every referenced name is defined, and no pod has a token of Kubernetes.
func TestPodsAreWhole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *manifests, _ string) {
		for _, p := range m.pods {
			what := p.kind + " " + p.name
			if p.spec.AutomountServiceAccountToken == nil || *p.spec.AutomountServiceAccountToken {
				t.Errorf("%s has a token of Kubernetes", what)
			}
			if a := p.spec.ServiceAccountName; a != "" && !m.accounts[p.namespace+"/"+a] {
				t.Errorf("%s uses the account %s, which is not there", what, a)
			}
			if p.selector != nil {
				s, err := metav1.LabelSelectorAsSelector(p.selector)
				if err != nil || !s.Matches(labels.Set(p.labels)) {
					t.Errorf("%s selects other pods than its own: %v", what, err)
				}
			}
			ports := map[int32]bool{}
			for _, c := range p.containers() {
				checkContainer(t, p, c)
				for _, port := range c.Ports {
					if ports[port.ContainerPort] {
						t.Errorf("%s has the port %d twice", what, port.ContainerPort)
					}
					ports[port.ContainerPort] = true
				}
			}
			checkVolumes(t, m, p)
			if isKaged(p) && p.kind != "Job" && !slices.ContainsFunc(m.budgets, func(b *policyv1.PodDisruptionBudget) bool {
				return b.Namespace == p.namespace && matches(b.Spec.Selector, p.labels) &&
					b.Spec.MaxUnavailable.IntValue() == 1
			}) {
				t.Errorf("%s has no disruption budget of one", what)
			}
		}
		for _, s := range m.services {
			for _, port := range s.Spec.Ports {
				if !slices.ContainsFunc(m.pods, func(p pod) bool {
					return p.namespace == s.Namespace && offers(p, s.Spec.Selector,
						port)
				}) {
					t.Errorf("the port %s of the service %s leads nowhere", port.Name, s.Name)
				}
			}
		}
	})
}

func offers(p pod, selector map[string]string, port corev1.ServicePort) bool {
	for k, v := range selector {
		if p.labels[k] != v {
			return false
		}
	}
	for _, c := range p.containers() {
		for _, have := range c.Ports {
			if have.Name == port.TargetPort.StrVal {
				return true
			}
		}
	}
	return false
}

// isKaged reports whether a pod runs images of kaged.
func isKaged(p pod) bool {
	return isImage(p.spec.Containers[0].Image)
}

func isImage(image string) bool {
	name := image[strings.LastIndex(image, "/")+1:]
	return strings.HasPrefix(name, "kaged:") || strings.HasPrefix(name, "kaged-workspace:") || strings.HasPrefix(name,
		"kaged@") || strings.HasPrefix(name, "kaged-workspace@")
}

func env(c corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func checkContainer(t *testing.T, p pod, c corev1.Container) {
	t.Helper()
	what := p.name + "/" + c.Name
	names := map[string]bool{}
	for _, e := range c.Env {
		if names[e.Name] {
			t.Errorf("%s sets %s twice", what, e.Name)
		}
		names[e.Name] = true
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() ||
		c.Resources.Requests.Memory().IsZero() {
		t.Errorf("%s has no requests or no limit of memory", what)
	}
	if strings.HasSuffix(c.Image, ":latest") || !strings.ContainsAny(c.Image[strings.LastIndex(c.Image, "/")+1:], ":@") {
		t.Errorf("%s runs %s, of no version", what, c.Image)
	}
	if !isImage(c.Image) || p.kind == "Job" {
		return
	}
	probes := env(c, "KAGED_PROBE_LISTEN")
	for path, probe := range map[string]*corev1.Probe{
		"/startupz": c.StartupProbe, "/livez": c.LivenessProbe,
		"/readyz": c.ReadinessProbe,
	} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path {
			t.Errorf("%s is not asked for %s", what, path)
			continue
		}
		port := probe.HTTPGet.Port.StrVal
		if !slices.ContainsFunc(c.Ports, func(have corev1.ContainerPort) bool {
			return have.Name == port && strings.HasSuffix(probes, fmt.Sprintf(":%d", have.ContainerPort))
		}) {
			t.Errorf("%s is asked at %s and answers at %s", what, port, probes)
		}
	}
	if c.RestartPolicy != nil {
		return // it ends after tool-runner
	}
	// preStop, drain_grace, stop_timeout, and 10 s; sandbox-supervisor's drain_grace and stop_timeout follow.
	drain := int64(10)
	if c.Name == "tool-runner" {
		drain = 30 + 3 + 30
	}
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
		t.Errorf("%s stops before addresses have ceased to lead to it", what)
	} else if need := c.Lifecycle.PreStop.Sleep.Seconds + drain + 3 + 10; *p.spec.TerminationGracePeriodSeconds < need ||
		*p.spec.TerminationGracePeriodSeconds > 120 {
		t.Errorf("%s has %d s to stop, want from %d to 120", what, *p.spec.TerminationGracePeriodSeconds, need)
	}
}

// secrets are the secrets in docs/howto/run-on-kubernetes.md, by namespace.
var secrets = map[string][]string{
	"kaged": {
		"kaged-tls-gateway", "kaged-tls-session-manager", "kaged-tls-harness", "kaged-tls-issue", "kaged-tls-postgres",
		"kaged-tls-nats",
		"kaged-database", "kaged-nats", "kaged-providers", "kaged-sidecar",
	},
	"kaged-workspaces": {
		"kaged-tls-tool-runner", "kaged-tls-sandbox-supervisor", "kaged-services", "kaged-tls-tool-runner-a",
		"kaged-tls-sandbox-supervisor-a", "kaged-tls-tool-runner-b", "kaged-tls-sandbox-supervisor-b",
	},
}

func checkVolumes(t *testing.T, m *manifests, p pod) {
	t.Helper()
	volumes := map[string]bool{}
	for _, c := range p.claims {
		volumes[c] = true
	}
	for _, v := range p.spec.Volumes {
		volumes[v.Name] = true
		if v.Secret != nil && !slices.Contains(secrets[p.namespace], v.Secret.SecretName) {
			t.Errorf("%s mounts the secret %s, missing in the howto", p.name, v.Secret.SecretName)
		}
		if v.ConfigMap != nil && m.configs[p.namespace+"/"+v.ConfigMap.Name] == nil {
			t.Errorf("%s mounts the configuration %s, which is not there", p.name, v.ConfigMap.Name)
		}
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
			t.Errorf("the volume %s of %s has no limit", v.Name, p.name)
		}
		if v.HostPath != nil && p.name != "seccomp-installer" {
			t.Errorf("%s mounts a folder of the node", p.name)
		}
	}
	for _, c := range append(slices.Clone(p.spec.InitContainers), p.spec.Containers...) {
		for _, mount := range c.VolumeMounts {
			if !volumes[mount.Name] {
				t.Errorf("%s/%s mounts %s, which is not there", p.name, c.Name, mount.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !slices.Contains(secrets[p.namespace],
				e.ValueFrom.SecretKeyRef.Name) {
				t.Errorf("%s/%s reads the secret %s, missing in the howto", p.name, c.Name, e.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
}
