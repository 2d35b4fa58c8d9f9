package validate_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// peer is one end of a connection: a pod, or something that is none.
type peer struct {
	name      string
	pod       labels.Set // nil: no pod, such as the API server
	namespace labels.Set // nil: that of the fleet
}

// connection is one that has to work, or must not.
type connection struct {
	from, to string
	port     int
	allowed  bool
}

// TestConnections asks the NetworkPolicies which pods may reach which, as a network would.
func TestConnections(t *testing.T) {
	inTry := []connection{
		{"registry", "etcd", 2379, true},
		{"registry", "nats", 4222, true},
		{"agent", "nats", 4222, true},
		{"agent", "etcd", 2379, false},
		{"operator", "etcd", 2379, false},
		{"bootstrap", "etcd", 2379, false},
		{"operator", "nats", 4222, false},
		{"prometheus", "etcd", 2381, false},
		{"nats", "world", 443, false},
		{"etcd", "world", 443, false},
		{"etcd", "world", 53, false},
		{"gateway", "nats", 4222, false},
		{"gateway", "etcd", 2379, false},
	}
	everywhere := []connection{
		{"registry", "world", 2379, true}, // an etcd of one's own
		{"registry", "world", 4222, true},
		{"agent", "world", 4222, true},
		{"agent", "registry", 7070, true},
		{"operator", "registry", 7070, true},
		{"pipeline", "registry", 7070, true},
		{"operator", "world", 6443, true}, // the API server
		{"bootstrap", "world", 443, true},
		{"world", "operator", 9443, true},
		{"prometheus", "operator", 8080, true},
		{"prometheus", "registry", 8080, true},
		{"prometheus", "agent", 8081, true},
		{"registry", "world", 53, true},
		{"agent", "world", 53, true},
		{"operator", "world", 53, true},
		{"bootstrap", "world", 53, true},
		{"gateway", "registry", 7070, false},
		{"gateway", "registry", 8080, false},
		{"gateway", "agent", 8081, false},
		{"bootstrap", "registry", 7070, false},
		{"agent", "world", 443, false},
		{"agent", "agent", 8081, false},
		{"registry", "world", 443, false},
		{"registry", "registry", 7070, false},
		{"registry", "operator", 8080, false},
		{"operator", "world", 80, false},
		{"world", "registry", 7070, false},
	}
	for _, way := range renderings(t) {
		t.Run(way.name, func(t *testing.T) {
			policies, peers := network(t, way.make(t))
			if len(policies) == 0 && way.name == "chart with least" {
				return
			}
			connections := everywhere
			if _, ok := peers["etcd"]; ok {
				connections = slices.Concat(everywhere, inTry)
			}
			for _, c := range connections {
				from, to := peers[c.from], peers[c.to]
				if from.name == "" || to.name == "" {
					t.Fatalf("there is no %s, or no %s", c.from, c.to)
				}
				out, in := leaves(policies, from, to, c.port), enters(policies, from, to, c.port)
				if (out && in) != c.allowed {
					t.Errorf("%s to %s:%d: leaves %t, enters %t, want %t", c.from, c.to, c.port, out, in, c.allowed)
				}
			}
		})
	}
}

// TestPortsThatAreValues opens those and no others.
func TestPortsThatAreValues(t *testing.T) {
	rendered := template("--set=webhook.port=10250,networkPolicies.apiServerPorts={16443}")(t)
	policies, peers := network(t, rendered)
	for _, c := range []connection{
		{"world", "operator", 10250, true},
		{"world", "operator", 9443, false},
		{"operator", "world", 16443, true},
		{"operator", "world", 6443, false},
		{"bootstrap", "world", 16443, true},
		{"bootstrap", "world", 443, false},
	} {
		from, to := peers[c.from], peers[c.to]
		if got := leaves(policies, from, to, c.port) && enters(policies, from, to, c.port); got != c.allowed {
			t.Errorf("%s to %s:%d: %t", c.from, c.to, c.port, got)
		}
	}
	for _, p := range pods(t, parse(t, rendered)) {
		if p.of != "Deployment/scriptorium-operator" {
			continue
		}
		c := p.spec.Containers[0]
		listens := slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "webhook" && p.ContainerPort == 10250 })
		if !listens || !slices.Contains(c.Args, "--webhook-port=10250") {
			t.Errorf("the operator does not listen where the webhook is called: %v, %q", c.Ports, c.Args)
		}
	}
}

// TestNoPortWithoutAWebhook: nothing would listen there.
func TestNoPortWithoutAWebhook(t *testing.T) {
	rendered := template("--set=webhook.enabled=false")(t)
	policies, peers := network(t, rendered)
	if enters(policies, peers["world"], peers["operator"], 9443) {
		t.Error("the operator can be reached at the webhook's port")
	}
	if !enters(policies, peers["prometheus"], peers["operator"], 8080) {
		t.Error("the operator's metrics cannot be reached")
	}
	for _, o := range parse(t, rendered) {
		walk(o.Object, func(m map[string]any) {
			if m["name"] == "webhook" {
				t.Errorf("%s has the port %v", title(o), m)
			}
		})
	}
}

// network returns the policies of a rendering, and who there is.
func network(t *testing.T, rendered string) ([]networkingv1.NetworkPolicy, map[string]peer) {
	t.Helper()
	peers := map[string]peer{
		"world":      {name: "world"},
		"gateway":    {name: "gateway", pod: labels.Set{"app": "gateway"}, namespace: labels.Set{"team": "web"}},
		"pipeline":   {name: "pipeline", pod: labels.Set{}, namespace: labels.Set{"scriptorium.dev/registry-access": "true"}},
		"prometheus": {name: "prometheus", pod: labels.Set{}, namespace: labels.Set{"scriptorium.dev/metrics-access": "true"}},
	}
	objects := parse(t, rendered)
	var policies []networkingv1.NetworkPolicy
	for _, o := range objects {
		if o.GetKind() == "NetworkPolicy" {
			policies = append(policies, into[networkingv1.NetworkPolicy](t, o.Object))
		}
	}
	for _, p := range pods(t, objects) {
		name := p.labels["app.kubernetes.io/component"]
		peers[name] = peer{name: name, pod: p.labels}
	}
	return policies, peers
}

// leaves says whether what the sender's policies say lets a connection out.
func leaves(policies []networkingv1.NetworkPolicy, from, to peer, port int) bool {
	return passes(policies, networkingv1.PolicyTypeEgress, from, func(p networkingv1.NetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
			return matches(r.To, to) && opens(r.Ports, port)
		})
	})
}

func enters(policies []networkingv1.NetworkPolicy, from, to peer, port int) bool {
	return passes(policies, networkingv1.PolicyTypeIngress, to, func(p networkingv1.NetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return matches(r.From, from) && opens(r.Ports, port)
		})
	})
}

// passes is true for who has no policy, and where one of its policies allows it.
func passes(policies []networkingv1.NetworkPolicy, direction networkingv1.PolicyType, who peer, allows func(networkingv1.NetworkPolicy) bool) bool {
	if who.pod == nil || who.namespace != nil {
		return true // not of this namespace
	}
	bound := false
	for _, p := range policies {
		if slices.Contains(p.Spec.PolicyTypes, direction) && selects(&p.Spec.PodSelector, who.pod) {
			bound = true
			if allows(p) {
				return true
			}
		}
	}
	return !bound
}

func matches(peers []networkingv1.NetworkPolicyPeer, who peer) bool {
	if len(peers) == 0 {
		return true
	}
	return slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil || who.pod == nil {
			return false
		}
		if p.NamespaceSelector == nil {
			return who.namespace == nil && selects(p.PodSelector, who.pod)
		}
		return selects(p.NamespaceSelector, who.namespace) && (p.PodSelector == nil || selects(p.PodSelector, who.pod))
	})
}

func opens(ports []networkingv1.NetworkPolicyPort, port int) bool {
	if len(ports) == 0 {
		return true
	}
	return slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntValue() == port })
}

func selects(selector *metav1.LabelSelector, set labels.Set) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		panic(fmt.Sprintf("a selector of a validated policy: %v", err))
	}
	return s.Matches(set)
}

// TestServicesAndMonitorsFindTheirPods: selectors are written more than once.
func TestServicesAndMonitorsFindTheirPods(t *testing.T) {
	for _, way := range renderings(t) {
		objects := parse(t, way.make(t))
		all := pods(t, objects)
		for _, o := range objects {
			if o.GetKind() == "Service" {
				finds(t, way.name, into[corev1.Service](t, o.Object), all)
			}
		}
		monitored(t, way.name, objects)
	}
}

// monitored looks that each ServiceMonitor selects the Service of its name.
func monitored(t *testing.T, way string, objects []*unstructured.Unstructured) {
	t.Helper()
	services := map[string]corev1.Service{}
	for _, o := range objects {
		if o.GetKind() == "Service" {
			services[o.GetName()] = into[corev1.Service](t, o.Object)
		}
	}
	for _, o := range objects {
		if o.GetKind() != "ServiceMonitor" {
			continue
		}
		s, ok := services[o.GetName()]
		port := o.Object["spec"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)["port"]
		selector := into[metav1.LabelSelector](t, o.Object["spec"].(map[string]any)["selector"].(map[string]any))
		if !selects(&selector, s.Labels) {
			t.Errorf("%s: %s does not select the Service, whose labels are %v", way, title(o), s.Labels)
		}
		if !ok || !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == port }) {
			t.Errorf("%s: %s: no Service of that name has a port %v", way, title(o), port)
		}
	}
}

func finds(t *testing.T, way string, s corev1.Service, all []pod) {
	t.Helper()
	found := false
	for _, p := range all {
		if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.labels)) {
			continue
		}
		found = true
		for _, port := range s.Spec.Ports {
			if !slices.ContainsFunc(p.spec.Containers[0].Ports, func(c corev1.ContainerPort) bool { return c.Name == port.TargetPort.String() }) {
				t.Errorf("%s: Service %s: %s has no port %s", way, s.Name, p.of, port.TargetPort.String())
			}
		}
	}
	if !found {
		t.Errorf("%s: Service %s has no pods", way, s.Name)
	}
}
