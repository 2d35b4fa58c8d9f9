package validate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/callers"
)

const httpPort = "--set=agent.http.enabled=true,agent.http.tlsSecret=agent-http," +
	"agent.http.callers[0].name=traefik,agent.http.callers[0].tokens={sha256:" + digest + "},agent.http.callers[0].tenants={acme}"

const digest = "0d8a000000000000000000000000000000000000000000000000000000000000"

// TestHTTPPort: the values give the agent the port, its files and nothing else, and gateways a Service.
func TestHTTPPort(t *testing.T) {
	rendered := template(httpPort)(t)
	objects := parse(t, rendered)
	agents := 0
	for _, p := range pods(t, objects) {
		c := p.spec.Containers[0]
		if p.of != "DaemonSet/scriptorium-agent" {
			if strings.Contains(strings.Join(c.Args, " "), "--http-") {
				t.Errorf("%s has the arguments %q", p.of, c.Args)
			}
			continue
		}
		agents++
		var flags []string
		for _, arg := range c.Args {
			if strings.HasPrefix(arg, "--http-") {
				flags = append(flags, arg)
			}
		}
		want := []string{
			"--http-listen=:7071", "--http-callers=/etc/scriptorium/http-callers/callers.yaml",
			"--http-cert=/etc/scriptorium/http-tls/tls.crt", "--http-key=/etc/scriptorium/http-tls/tls.key",
		}
		if diff := cmp.Diff(want, flags); diff != "" {
			t.Errorf("flags (-want +got):\n%s", diff)
		}
		for _, folder := range []string{"/etc/scriptorium/http-callers", "/etc/scriptorium/http-tls"} {
			if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == folder && m.ReadOnly && m.SubPath == "" }) {
				t.Errorf("%s is not mounted as a folder, to be read", folder)
			}
		}
		if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == 7071 && p.HostPort == 0 }) {
			t.Errorf("the container has the ports %v", c.Ports)
		}
	}
	services := 0
	for _, o := range objects {
		switch title(o) {
		case "Service/scriptorium-agent-http":
			services++
			s := into[corev1.Service](t, o.Object)
			if s.Spec.InternalTrafficPolicy == nil || *s.Spec.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyLocal || s.Spec.Ports[0].Port != 7071 {
				t.Errorf("the Service is %+v", s.Spec)
			}
			finds(t, "chart", s, pods(t, objects))
		case "ConfigMap/scriptorium-agent-http":
			services++
			known, err := callers.Parse("callers.yaml", []byte(into[corev1.ConfigMap](t, o.Object).Data["callers.yaml"]))
			if err != nil || known.HasCertificates() {
				t.Errorf("the agent cannot read the callers: %v", err)
			}
		}
	}
	if agents != 1 || services != 2 {
		t.Errorf("the chart has %d agents, and %d objects for the port", agents, services)
	}
	policies, peers := network(t, rendered)
	for from, want := range map[string]bool{"gateway": false, "world": false, "caller": true} {
		peers["caller"] = peer{name: "caller", namespace: map[string]string{"scriptorium.dev/http-access": "true"}, pod: map[string]string{}}
		if got := enters(policies, peers[from], peers["agent"], 7071); got != want {
			t.Errorf("%s reaches the port: %t", from, got)
		}
	}
}

// TestHTTPPortWithCertificates: the agent asks for certificates of callers, by the CA beside its own.
func TestHTTPPortWithCertificates(t *testing.T) {
	out := template("--set=agent.http.enabled=true,agent.http.tlsSecret=agent-http,agent.http.port=8443,agent.http.clientCertificates=true," +
		"agent.http.callers[0].name=edge,agent.http.callers[0].certificates[0].dns=edge.shop,agent.http.callers[0].tenants={acme}")(t)
	for _, want := range []string{"- --http-listen=:8443\n", "- --http-client-ca=/etc/scriptorium/http-tls/ca.crt\n", "targetPort: http\n"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("the chart does not make %q", want)
		}
	}
}

// TestNoHTTPPort: without the values there is nothing of it.
func TestNoHTTPPort(t *testing.T) {
	for _, way := range renderings(t) {
		if out := way.make(t); way.name != "chart with everything" && (strings.Contains(out, "--http-") || strings.Contains(out, "scriptorium-agent-http")) {
			t.Errorf("%s opens an HTTP port", way.name)
		}
	}
}
