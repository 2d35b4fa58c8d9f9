package access_test

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

const agentsPolicy = `
subjects:
  - name: cluster
    uids: [1]
    agents: [node-*, spare]
    grants: [{roles: [read], tenants: ["*"]}]
  - name: edge
    certificates: [{dns: "*.edge.example.org"}]
    agents: ["{dns}"]
    grants: [{roles: [read], tenants: [edge-*]}]
  - name: shop
    certificates: [{commonName: "*"}]
    agents: ["{commonName}"]
    grants: [{roles: [read], tenants: [shop]}]
  - name: reader
    tokens: [` + "TOKEN" + `]
    grants: [{roles: [read], tenants: ["*"]}]
`

// TestAgentNames: where a policy names agents, nobody else can be one, and each of them can be
// no other.
func TestAgentNames(t *testing.T) {
	p := parse(t, strings.Replace(agentsPolicy, "TOKEN", digest(token), 1))
	shown := func(c *x509.Certificate) access.Credentials { return access.Credentials{Certificate: c} }
	edge := cert("shop-7", []string{"e1.edge.example.org", "e2.edge.example.org"})
	reader := access.Credentials{Token: token, Certificate: edge} // it is known by the token alone
	for _, tt := range []struct {
		who   access.Credentials
		agent string
		ok    bool
	}{
		{access.Credentials{Unix: true, UID: 1}, "node-12.example", true},
		{access.Credentials{Unix: true, UID: 1}, "spare", true},
		{access.Credentials{Unix: true, UID: 1}, "spare2", false},
		{access.Credentials{Unix: true, UID: 1}, "{dns}", false},
		{shown(edge), "e1.edge.example.org", true},
		{shown(edge), "e2.edge.example.org", true},
		{shown(edge), "shop-7", true},
		{shown(edge), "e3.edge.example.org", false},
		{shown(cert("shop-8", nil)), "shop-8", true},
		{shown(cert("shop-8", nil)), "shop-7", false},
		{reader, "node-12.example", false},
		{reader, "shop-7", false},
	} {
		who, err := p.Identify(tt.who, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		err = who.CheckAgent(tt.agent)
		if (err == nil) != tt.ok || err != nil && (script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), tt.agent)) {
			t.Errorf("%s as %s: %v, want %v", who.Name, tt.agent, err, tt.ok)
		}
	}
	unbound := parse(t, policyText)
	who, err := unbound.Identify(access.Credentials{Unix: true, UID: 0}, time.Now())
	if err != nil || who.CheckAgent("anything") != nil {
		t.Errorf("without names in the policy: %v, %v", err, who.CheckAgent("anything"))
	}
	if access.Everybody("unix").CheckAgent("anything") != nil || (access.Identity{}).CheckAgent("a") == nil {
		t.Error("everybody can be any agent, and nobody none")
	}
	_, err = access.Parse("p", []byte(strings.Replace(agentsPolicy, "{dns}", "{uri}", 1)), nil)
	if err == nil || !strings.Contains(err.Error(), "subject edge: agents[0]") {
		t.Errorf("a name that stands for nothing: %v", err)
	}
}
