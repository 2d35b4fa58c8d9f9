package validate_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestLint runs helm lint, in which a warning is an error.
func TestLint(t *testing.T) {
	for _, values := range []string{"values.yaml", "values-production.yaml"} {
		if out, err := runHelm(t, "lint", "--strict", "--quiet", chart, "--values="+chart+"/"+values); err != nil {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
	}
}

// TestValuesThatAreWrong are refused, and the message names the value.
func TestValuesThatAreWrong(t *testing.T) {
	for _, tt := range []struct{ set, want string }{
		{"registry.replica=3", "replica"},
		{"registry.replicas=0", "replicas"},
		{"registry.replicas=many", "replicas"},
		{"agent.socketDir=run/scriptorium", "socketDir"},
		{"agent.allow={101=acme}", "allow"},
		{"agent.tenantSockets.acme=nogroup", "tenantSockets"},
		{"agent.maxUnavailable=0", "maxUnavailable"},
		{"agent.maxUnavailable=10 %", "maxUnavailable"},
		{"agent.extraArgs={counter-metrics}", "extraArgs"},
		{"image.pullPolicy=Sometimes", "pullPolicy"},
		{"webhook.port=443", "port"},
		{"webhook.port=8080", "port"},
		{"networkPolicies.apiServerPorts={}", "apiServerPorts"},
		{"etcd.enabled=false", "etcd.endpoints"},
		{"nats.enabled=false", "nats.urls"},
		{"etcd.endpoints={https://etcd:2379}", "etcd.endpoints"}, // while etcd.enabled
		{"nats.urls={tls://nats:4222}", "nats.urls"},
		{"etcd.nodeSelector.disk=1", "nodeSelector"},
		{"bootstrap.toleration={}", "toleration"},
		{"webhook.certSecret=mine", "webhook.caBundle"},
		{"webhook.caBundle=-----BEGIN CERTIFICATE-----", "webhook.certSecret"},
		{"etcd.endpoints={http://etcd:2379}", "endpoints"},
		{"nats.urls={nats://nats:4222}", "urls"},
		{"operater.replicas=2", "operater"},
		{"tenantKeys=Keys", "tenantKeys"},
		{"gates.secret=Gates", "gates"},
		{"gates.ports={}", "gates"},
		{"agent.http.enabled=true", "agent.http.tlsSecret"},
		{"agent.http.enabled=true,agent.http.tlsSecret=x", "agent.http.callers"},
		{"agent.http.port=443", "http"},
		{"agent.http.port=8081", "http"},
		{"agent.http.callers[0].name=x", "callers"},
		{"agent.http.enabled=true,agent.http.tlsSecret=x,agent.http.callers[0].name=x,agent.http.callers[0].tenants={acme},agent.http.callers[0].tokens={secret}", "tokens"},
		{"agent.http.enabled=true,agent.http.tlsSecret=x,agent.http.callers[0].name=x,agent.http.callers[0].tenants={acme},agent.http.callers[0].certificates[0].dns=x", "agent.http.clientCertificates"},
	} {
		if out, err := runHelm(t, "template", "scriptorium", chart, "--set="+tt.set); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want a refusal of %s\n%.200s", tt.set, err, tt.want, out)
		}
	}
}

// TestTenantSockets: the agent gets the groups as flags, and is in each of them once.
func TestTenantSockets(t *testing.T) {
	out, err := runHelm(t, "template", "scriptorium", chart, "--show-only=templates/agent.yaml",
		"--set=agent.tenantSockets.acme=2001,agent.tenantSockets.shop=2002,agent.tenantSockets.news=2001")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- --tenant-sockets=acme=2001\n", "- --tenant-sockets=news=2001\n", "- --tenant-sockets=shop=2002\n", "supplementalGroups:\n          - 2001\n          - 2002\n"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("the chart does not make %q:\n%s", want, out)
		}
	}
}

// TestEveryValueIsExplained: the comments of values.yaml are what there is to read.
func TestEveryValueIsExplained(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for key := range values {
		if !strings.Contains(string(docs), "`"+key) {
			t.Errorf("docs/kubernetes.md does not mention the value %s", key)
		}
		if !regexp.MustCompile(`(?m)^# .*\n` + key + `:`).Match(text) {
			t.Errorf("values.yaml says nothing above %s", key)
		}
	}
}

// TestTheCAOfACertificate: without it the API server would believe no webhook of such a
// certificate, and say nothing.
func TestTheCAOfACertificate(t *testing.T) {
	found := 0
	for _, o := range parse(t, template("--set=webhook.certSecret=mine,webhook.caBundle=-----BEGIN CERTIFICATE-----")(t)) {
		if o.GetKind() != "ValidatingWebhookConfiguration" {
			continue
		}
		for _, w := range into[admissionv1.ValidatingWebhookConfiguration](t, o.Object).Webhooks {
			found++
			if got := string(w.ClientConfig.CABundle); got != "-----BEGIN CERTIFICATE-----" {
				t.Errorf("%s has the CA %q", w.Name, got)
			}
		}
	}
	if found == 0 {
		t.Error("there is no webhook")
	}
}

// TestEveryPartCanBePlaced where its nodes are tainted.
func TestEveryPartCanBePlaced(t *testing.T) {
	var set []string
	for _, part := range []string{"operator", "registry", "agent", "bootstrap", "etcd", "nats"} {
		for _, value := range []string{"nodeSelector.infra=yes", "tolerations[0].key=infra", "affinity.podAntiAffinity.x=y", "priorityClassName=infra"} {
			set = append(set, part+"."+value)
		}
	}
	for _, o := range parse(t, template("--set="+strings.Join(set, ","))(t)) {
		walk(o.Object, func(m map[string]any) {
			spec, ok := m["spec"].(map[string]any)
			if !ok || spec["containers"] == nil {
				return
			}
			got := fmt.Sprint(spec["nodeSelector"], spec["tolerations"], spec["affinity"], spec["priorityClassName"])
			for _, want := range []string{"kubernetes.io/os:linux", "infra:yes", "key:infra", "podAntiAffinity:map[x:y]", "]infra"} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: no %s: %s", title(o), want, got)
				}
			}
		})
	}
}
