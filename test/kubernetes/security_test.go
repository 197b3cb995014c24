package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/rpc"
	"kaged.dev/services/kaged"
)

// evaluator returns pod security as the API server applies it.
func evaluator(t *testing.T) policy.Evaluator {
	t.Helper()
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// allowed returns the reason why a pod is not allowed at a level, "" if it is.
func allowed(e policy.Evaluator, level psa.Level, p pod) string {
	r := policy.AggregateCheckResults(e.EvaluatePod(
		psa.LevelVersion{Level: level, Version: psa.LatestVersion()}, &metav1.ObjectMeta{Labels: p.labels}, &p.spec))
	if r.Allowed {
		return ""
	}
	return r.ForbiddenDetail()
}

// Every pod is restricted except the workspace's. In that pod only sandbox-supervisor has further rights, and only
// those that cages need. The namespace of each pod admits it.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *manifests, _ string) {
		e := evaluator(t)
		for _, p := range m.pods {
			ns := m.namespaces[p.namespace]
			if ns == nil {
				t.Fatalf("%s is in the namespace %s, which is not there", p.name, p.namespace)
			}
			level := psa.Level(ns.Labels[psa.EnforceLevelLabel])
			if why := allowed(e, level, p); why != "" {
				t.Errorf("%s is refused in %s: %s", p.name, p.namespace, why)
			}
			if p.name == "seccomp-installer" {
				continue
			}
			if p.app() == "workspace" {
				p.spec.InitContainers = slices.Clone(p.spec.InitContainers)
				checkCages(t, p)
				for i, c := range p.spec.InitContainers {
					if c.Name == "sandbox-supervisor" {
						context := *c.SecurityContext
						context.ProcMount, context.AppArmorProfile = nil, nil
						p.spec.InitContainers[i].SecurityContext = &context
					}
				}
			}
			if why := allowed(e, psa.LevelRestricted, p); why != "" {
				t.Errorf("%s is not restricted: %s", p.name, why)
			}
		}
	})
}

// checkCages checks that only sandbox-supervisor has the rights that cages need.
func checkCages(t *testing.T, p pod) {
	t.Helper()
	if p.spec.HostUsers == nil || *p.spec.HostUsers {
		t.Error("the workspace shares uids with its node")
	}
	for _, c := range p.containers() {
		s := c.SecurityContext
		caged := c.Name == "sandbox-supervisor"
		if has := s.ProcMount != nil && *s.ProcMount == corev1.UnmaskedProcMount; has != caged {
			t.Errorf("%s has a whole /proc: %t, want %t", c.Name, has, caged)
		}
		if has := s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeLocalhost; has != caged {
			t.Errorf("%s has the profile of cages: %t, want %t", c.Name, has, caged)
		}
		if has := s.AppArmorProfile != nil && s.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined; has != caged {
			t.Errorf("%s is without AppArmor: %t, want %t", c.Name, has, caged)
		}
		if len(s.Capabilities.Add) > 0 {
			t.Errorf("%s has the capabilities %v", c.Name, s.Capabilities.Add)
		}
	}
}

// calls returns the pairs of caller and service between hosts, by the options of the contract.
func calls() map[[2]string]bool {
	modules := map[string]string{} // by the name in packages
	for _, m := range kaged.Modules() {
		modules[strings.ReplaceAll(m.Name, "-", "")] = m.Name
	}
	edges := map[[2]string]bool{}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		name, ours := strings.CutPrefix(string(f.Package()), "kaged.")
		name, _, _ = strings.Cut(name, ".")
		if !ours || modules[name] == "" {
			return true
		}
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				for _, caller := range rpc.CallersOf("/" + string(m.Parent().FullName()) + "/" + string(m.Name())) {
					edges[[2]string{caller, modules[name]}] = true
				}
			}
		}
		return true
	})
	return edges
}

// where returns the pod of a service.
func where(service string) string {
	if mtls.InWorkspace(service) {
		return "workspace"
	}
	return service
}

// ports are the ports of services between pods.
var ports = map[int32]string{
	7421: "session-manager", 7422: "harness", 7423: "issue", 7424: "tool-runner", 7425: "sandbox-supervisor",
}

// Policies match the caller table: each call between pods may leave and arrive, and a policy admits only callers.
func TestPoliciesAreTheCallerTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *manifests, _ string) {
		edges := calls()
		if len(edges) < 10 || !edges[[2]string{"gateway", "sandbox-supervisor"}] {
			t.Fatalf("the caller table has %v", edges)
		}
		for _, fault := range m.policyFaults(edges) {
			t.Error(fault)
		}
	})
}

// The comparison with the caller table finds a missing call, an extra caller, an extra port and a missing policy.
func TestPolicyFaultsAreFound(t *testing.T) {
	t.Parallel()
	find := func(t *testing.T, m *manifests, name string) *networkingv1.NetworkPolicySpec {
		t.Helper()
		for _, p := range m.policies {
			if p.Name == name {
				return &p.Spec
			}
		}
		t.Fatalf("the policy %s is missing", name)
		return nil
	}
	for want, mutate := range map[string]func(t *testing.T, m *manifests){
		"gateway calls sandbox-supervisor and Ingress refuses it": func(t *testing.T, m *manifests) {
			p := find(t, m, "workspace")
			p.Ingress = p.Ingress[:1]
		},
		"harness calls tool-runner and Egress refuses it": func(t *testing.T, m *manifests) {
			find(t, m, "harness").Egress = nil
		},
		"gateway reaches harness and may not call it": func(t *testing.T, m *manifests) {
			p := find(t, m, "harness")
			p.Ingress[0].From = append(p.Ingress[0].From, networkingv1.NetworkPolicyPeer{
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "gateway"}},
			})
		},
		"harness reaches sandbox-supervisor and may not call it": func(t *testing.T, m *manifests) {
			find(t, m, "workspace").Ingress[0].Ports = nil
		},
		"session-manager calls issue and Ingress refuses it": func(t *testing.T, m *manifests) {
			m.policies = slices.DeleteFunc(m.policies, func(p *networkingv1.NetworkPolicy) bool { return p.Name == "issue" })
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			m := build(t, "base")
			mutate(t, m)
			if faults := m.policyFaults(calls()); !slices.Contains(faults, want) {
				t.Errorf("found %q, want %q among them", faults, want)
			}
		})
	}
}

// policyFaults compares the policies with the caller table.
func (m *manifests) policyFaults(edges map[[2]string]bool) (faults []string) {
	for edge := range edges {
		from, to, port := where(edge[0]), where(edge[1]), portOf(edge[1])
		if from == to && edge[0] != edge[1] {
			continue // a call over a socket in the pod
		}
		if port == 0 {
			faults = append(faults, fmt.Sprintf("%s calls %s, which has no port", edge[0], edge[1]))
			continue
		}
		for _, side := range []networkingv1.PolicyType{networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress} {
			if !m.reaches(from, to, port, side) {
				faults = append(faults, fmt.Sprintf("%s calls %s and %s refuses it", edge[0], edge[1], side))
			}
		}
	}
	for _, from := range m.pods {
		for port, service := range ports {
			may := false
			for edge := range edges {
				may = may || where(edge[0]) == from.app() && edge[1] == service
			}
			if !may && m.reaches(from.app(), where(service), port, networkingv1.PolicyTypeIngress) {
				faults = append(faults, fmt.Sprintf("%s reaches %s and may not call it", from.name, service))
			}
		}
	}
	return faults
}

// A pod without a policy of its own has no network access. The metadata addresses cannot be reached, and private ranges
// only by the labels of a pod.
func TestNothingIsReachedByDefault(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *manifests, _ string) {
		for ns := range m.namespaces {
			if !slices.ContainsFunc(m.policies, func(p *networkingv1.NetworkPolicy) bool {
				return p.Namespace == ns && len(p.Spec.PodSelector.MatchLabels) == 0 && len(
					p.Spec.PodSelector.MatchExpressions) == 0 &&
					len(p.Spec.PolicyTypes) == 2 && len(p.Spec.Ingress) == 0 && len(p.Spec.Egress) == 0
			}) {
				t.Errorf("the namespace %s lets everything through", ns)
			}
		}
		for _, p := range m.policies {
			for _, rule := range p.Spec.Egress {
				if len(rule.To) == 0 {
					t.Errorf("the policy %s lets everything out", p.Name)
				}
				for _, to := range rule.To {
					if to.IPBlock != nil && to.IPBlock.CIDR == "0.0.0.0/0" && !slices.Contains(to.IPBlock.Except, "169.254.0.0/16") {
						t.Errorf("the policy %s lets pods reach metadata", p.Name)
					}
				}
			}
			for _, rule := range p.Spec.Ingress {
				if len(rule.From) == 0 {
					t.Errorf("the policy %s lets everything in", p.Name)
				}
			}
		}
	})
}

// reaches reports whether a policy allows the pods of one name to reach those of another, on one side.
func (m *manifests) reaches(from, to string, port int32, side networkingv1.PolicyType) bool {
	find := func(name string) *pod {
		for i := range m.pods {
			if m.pods[i].app() == name {
				return &m.pods[i]
			}
		}
		return nil
	}
	a, b := find(from), find(to)
	if a == nil || b == nil {
		return false
	}
	self, other := b, a
	if side == networkingv1.PolicyTypeEgress {
		self, other = a, b
	}
	for _, p := range m.policies {
		if p.Namespace != self.namespace || !matches(&p.Spec.PodSelector, self.labels) {
			continue
		}
		rules := [][]networkingv1.NetworkPolicyPeer{}
		at := [][]networkingv1.NetworkPolicyPort{}
		for _, r := range p.Spec.Egress {
			if side == networkingv1.PolicyTypeEgress {
				rules, at = append(rules, r.To), append(at, r.Ports)
			}
		}
		for _, r := range p.Spec.Ingress {
			if side == networkingv1.PolicyTypeIngress {
				rules, at = append(rules, r.From), append(at, r.Ports)
			}
		}
		for i, peers := range rules {
			if m.onPort(at[i], port) && slices.ContainsFunc(peers, func(
				peer networkingv1.NetworkPolicyPeer,
			) bool {
				return m.is(peer, p.Namespace, other)
			}) {
				return true
			}
		}
	}
	return false
}

func (m *manifests) onPort(list []networkingv1.NetworkPolicyPort, port int32) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(
		p networkingv1.NetworkPolicyPort,
	) bool {
		return p.Port != nil && p.Port.IntVal == port
	})
}

// is reports whether a peer of a policy in a namespace matches a pod.
func (m *manifests) is(peer networkingv1.NetworkPolicyPeer, namespace string, p *pod) bool {
	if peer.IPBlock != nil {
		return false
	}
	if peer.NamespaceSelector != nil {
		has := map[string]string{"kubernetes.io/metadata.name": p.namespace}
		for k, v := range m.namespaces[p.namespace].Labels {
			has[k] = v
		}
		if !matches(peer.NamespaceSelector, has) {
			return false
		}
	} else if p.namespace != namespace {
		return false
	}
	return peer.PodSelector == nil || matches(peer.PodSelector, p.labels)
}

func matches(s *metav1.LabelSelector, has map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(has))
}
