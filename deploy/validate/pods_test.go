package validate_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
)

// pod is a pod that something makes.
type pod struct {
	of     string // Deployment/scriptorium-registry
	labels map[string]string
	spec   corev1.PodSpec
}

// pods finds all pods of the objects, in kinds that nobody thought of, too.
func pods(t *testing.T, objects []*unstructured.Unstructured) []pod {
	t.Helper()
	var found []pod
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		walk(o.Object, func(m map[string]any) {
			spec, ok := m["spec"].(map[string]any)
			if !ok || spec["containers"] == nil {
				return
			}
			p := pod{of: title(o), spec: into[corev1.PodSpec](t, spec)}
			claims, _, _ := unstructured.NestedSlice(o.Object, "spec", "volumeClaimTemplates")
			for _, c := range claims {
				name := into[corev1.PersistentVolumeClaim](t, c.(map[string]any)).Name
				p.spec.Volumes = append(p.spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
				}})
			}
			if meta, ok := m["metadata"].(map[string]any); ok {
				p.labels, _, _ = unstructured.NestedStringMap(meta, "labels")
			}
			found = append(found, p)
		})
	}
	if len(found) < 3 {
		t.Fatalf("found %d pods: are they made in another way?", len(found))
	}
	return found
}

func walk(value any, visit func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(v)
		for _, child := range v {
			walk(child, visit)
		}
	case []any:
		for _, child := range v {
			walk(child, visit)
		}
	}
}

const nonroot = 65532

var (
	podContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(nonroot)), RunAsGroup: new(int64(nonroot)), FSGroup: new(int64(nonroot)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	containerContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	// prepareContext is the only one that is root.
	prepareContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"CHOWN"}},
		RunAsNonRoot: new(false), RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)),
	}
)

// TestEveryPodIsConfined: each has all of the security contexts, bounds, and no more
// of Kubernetes than it uses.
func TestEveryPodIsConfined(t *testing.T) {
	for _, way := range renderings(t) {
		t.Run(way.name, func(t *testing.T) {
			for _, p := range pods(t, parse(t, way.make(t))) {
				confined(t, p)
			}
		})
	}
}

func confined(t *testing.T, p pod) {
	t.Helper()
	security := p.spec.SecurityContext.DeepCopy()
	if p.of == "DaemonSet/scriptorium-agent" && security != nil {
		security.SELinuxOptions, security.SupplementalGroups = nil, nil // choices of the chart's
	}
	if diff := cmp.Diff(podContext, security); diff != "" {
		t.Errorf("%s: securityContext (-want +got):\n%s", p.of, diff)
	}
	if p.spec.HostNetwork || p.spec.HostPID || p.spec.HostIPC {
		t.Errorf("%s is in a namespace of the node's", p.of)
	}
	if p.spec.NodeSelector["kubernetes.io/os"] != "linux" {
		t.Errorf("%s may be put on a node that is not Linux", p.of)
	}
	for _, s := range p.spec.TopologySpreadConstraints {
		if s.NodeTaintsPolicy == nil || *s.NodeTaintsPolicy != corev1.NodeInclusionPolicyHonor {
			t.Errorf("%s: %s counts nodes that it may not run on", p.of, s.TopologyKey)
		}
	}
	if p.spec.EnableServiceLinks == nil || *p.spec.EnableServiceLinks {
		t.Errorf("%s gets a variable for each Service: SCRIPTORIUM_… are flags", p.of)
	}
	talks := strings.Contains(p.of, "operator") || strings.Contains(p.of, "bootstrap")
	if token := p.spec.AutomountServiceAccountToken; !talks && (token == nil || *token) {
		t.Errorf("%s has a token for the API server, which it never asks", p.of)
	}
	for _, v := range p.spec.Volumes {
		if v.HostPath != nil && p.of != "DaemonSet/scriptorium-agent" {
			t.Errorf("%s mounts %s of the node", p.of, v.HostPath.Path)
		}
		if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440) {
			t.Errorf("%s mounts the Secret %s for others to read", p.of, v.Secret.SecretName)
		}
	}
	for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
		want := containerContext
		if p.of == "DaemonSet/scriptorium-agent" && c.Name == "prepare" {
			want = prepareContext
		}
		if diff := cmp.Diff(want, c.SecurityContext); diff != "" {
			t.Errorf("%s, container %s: securityContext (-want +got):\n%s", p.of, c.Name, diff)
		}
		if c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s, container %s: no requests, or no limit of memory", p.of, c.Name)
		}
		if len(c.Command) > 0 {
			t.Errorf("%s, container %s: command %q: images have an entry point", p.of, c.Name, c.Command)
		}
		if c.ImagePullPolicy != corev1.PullIfNotPresent {
			t.Errorf("%s, container %s: imagePullPolicy %q", p.of, c.Name, c.ImagePullPolicy)
		}
	}
	if !strings.Contains(p.of, "bootstrap") {
		for _, c := range p.spec.Containers {
			if c.ReadinessProbe == nil || c.LivenessProbe == nil {
				t.Errorf("%s, container %s: a probe is missing", p.of, c.Name)
			}
		}
	}
}

// TestAStartMayTakeLong: who reads all of etcd, or of a large disk, before it serves its
// probes is not killed for it.
func TestAStartMayTakeLong(t *testing.T) {
	for _, way := range renderings(t) {
		for _, p := range pods(t, parse(t, way.make(t))) {
			if p.of != "Deployment/scriptorium-registry" && p.of != "DaemonSet/scriptorium-agent" {
				continue
			}
			alive, start := p.spec.Containers[0].LivenessProbe, p.spec.Containers[0].StartupProbe
			if start == nil || start.PeriodSeconds*start.FailureThreshold < 600 {
				t.Errorf("%s: %s is killed while it starts: %+v", way.name, p.of, start)
			} else if diff := cmp.Diff(alive.ProbeHandler, start.ProbeHandler); diff != "" {
				t.Errorf("%s: %s is asked something else at the start (-alive +start):\n%s", way.name, p.of, diff)
			}
		}
	}
}

// TestTheWebhookStaysUntilItIsNotAsked: at SIGTERM it closes at once, when the nodes may
// yet have its address.
func TestTheWebhookStaysUntilItIsNotAsked(t *testing.T) {
	for _, way := range renderings(t) {
		for _, p := range pods(t, parse(t, way.make(t))) {
			if p.of != "Deployment/scriptorium-operator" {
				continue
			}
			l := p.spec.Containers[0].Lifecycle
			if !slices.ContainsFunc(p.spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == "webhook" }) {
				if l != nil {
					t.Errorf("%s: the operator waits for a webhook that it has not", way.name)
				}
				continue
			}
			if l == nil || l.PreStop == nil || l.PreStop.Sleep == nil || l.PreStop.Sleep.Seconds < 5 {
				t.Errorf("%s: the operator is ended at once: %+v", way.name, l)
			} else if left := *p.spec.TerminationGracePeriodSeconds - l.PreStop.Sleep.Seconds; left < 35 {
				t.Errorf("%s: the operator has %d s to end in", way.name, left)
			}
		}
	}
}

// TestSecretsAreWhereTheyBelong: a pod has its own Secrets only, as they are on its node.
func TestSecretsAreWhereTheyBelong(t *testing.T) {
	want := map[string][]string{
		"DaemonSet/scriptorium-agent":     {"scriptorium-agent-nats", "scriptorium-agent-tls", "scriptorium-trust"},
		"Deployment/scriptorium-operator": {"scriptorium-operator-tls"},
		"Deployment/scriptorium-registry": {"scriptorium-access", "scriptorium-registry-etcd", "scriptorium-registry-nats", "scriptorium-registry-tls", "scriptorium-signing"},
		"Deployment/scriptorium-nats":     {"scriptorium-nats-tls", "scriptorium-nats-users"},
		"StatefulSet/scriptorium-etcd":    {"scriptorium-etcd-tls"},
	}
	for _, way := range renderings(t) {
		for _, p := range pods(t, parse(t, way.make(t))) {
			got := map[string]bool{}
			for _, v := range p.spec.Volumes {
				if v.Secret != nil {
					got[v.Secret.SecretName] = true
				}
			}
			for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
				for _, e := range c.EnvFrom {
					got[e.SecretRef.Name] = true
				}
			}
			delete(got, "scriptorium-webhook-cert") // choices of the chart's
			delete(got, "agent-http")
			if diff := cmp.Diff(want[p.of], slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("%s: %s has these Secrets (-want +got):\n%s", way.name, p.of, diff)
			}
		}
	}
}

// TestArgumentsAreFlags gives the arguments and variables of each of our containers to
// the command that it runs.
func TestArgumentsAreFlags(t *testing.T) {
	commands := map[string]func() *cobra.Command{"registryd": registryd.Command, "agentd": agentd.Command, "operator": operatord.Command}
	// Read by scriptctl, for whom they are there.
	others := []string{"SCRIPTORIUM_CA", "SCRIPTORIUM_CERT", "SCRIPTORIUM_KEY", "SCRIPTORIUM_AGENT"}
	for _, way := range renderings(t) {
		for _, p := range pods(t, parse(t, way.make(t))) {
			for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
				image, _, _ := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
				root := commands[image]
				if root == nil {
					continue
				}
				cmd, rest, err := root().Find(c.Args)
				if err == nil {
					err = cmd.ParseFlags(rest)
				}
				if err != nil {
					t.Errorf("%s: %s, container %s: %v", way.name, p.of, c.Name, err)
					continue
				}
				if left := cmd.Flags().Args(); len(left) > 0 {
					t.Errorf("%s: %s, container %s: arguments %q", way.name, p.of, c.Name, left)
				}
				for _, e := range c.Env {
					flag, ours := strings.CutPrefix(e.Name, "SCRIPTORIUM_")
					flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-"))
					if ours && cmd.Flags().Lookup(flag) == nil && !slices.Contains(others, e.Name) {
						t.Errorf("%s: %s, container %s: %s is no flag of it", way.name, p.of, c.Name, e.Name)
					}
				}
			}
		}
	}
}

// TestTenantKeys: the value brings the file to those that verify publishers' signatures.
func TestTenantKeys(t *testing.T) {
	const flag, volume = "--tenant-keys=/etc/scriptorium/publishers/tenant-keys.yaml", "publishers"
	verifying := map[string]bool{}
	for _, p := range pods(t, parse(t, template("--set=tenantKeys=keys")(t))) {
		c := p.spec.Containers[0]
		mounts := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == volume && m.MountPath == "/etc/scriptorium/publishers"
		})
		has := slices.ContainsFunc(p.spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == volume && v.ConfigMap != nil && v.ConfigMap.Name == "keys"
		})
		if flagged := slices.Contains(c.Args, flag); flagged != mounts || flagged != has {
			t.Errorf("%s: flag %v, mount %v, volume %v", p.of, flagged, mounts, has)
		} else if flagged {
			verifying[p.of] = true
		}
	}
	if !verifying["DaemonSet/scriptorium-agent"] || !verifying["Deployment/scriptorium-registry"] || len(verifying) != 2 {
		t.Errorf("they verify: %v", verifying)
	}
}

// TestGatesOfTheChart: the value brings the file to the registry, and lets it out to what that names.
func TestGatesOfTheChart(t *testing.T) {
	objects := parse(t, template("--set=gates.secret=gates,gates.ports={9443}")(t))
	var asking []string
	for _, p := range pods(t, objects) {
		c := p.spec.Containers[0]
		mounts := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "gates" && m.MountPath == "/etc/scriptorium/gates" })
		has := slices.ContainsFunc(p.spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == "gates" && v.Secret != nil && v.Secret.SecretName == "gates" && *v.Secret.DefaultMode == 0o440
		})
		if flagged := slices.Contains(c.Args, "--gates=/etc/scriptorium/gates/gates.yaml"); flagged != mounts || flagged != has {
			t.Errorf("%s: flag %v, mount %v, volume %v", p.of, flagged, mounts, has)
		} else if flagged {
			asking = append(asking, p.of)
		}
	}
	if len(asking) != 1 || asking[0] != "Deployment/scriptorium-registry" {
		t.Errorf("gates are asked by %v", asking)
	}
}
