package access_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

const token, otherToken = "a token that nobody guesses", "another that nobody guesses"

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

var policyText = `
subjects:
  - name: agents
    certificates:
      - uri: spiffe://example.org/ns/*/sa/agent
      - dns: "*.nodes.example.org"
        commonName: agent
    grants: [{roles: [read], tenants: ["*"]}]
  - name: ci
    tokens: [` + digest(token) + `, "` + digest(otherToken) + `"]
    grants:
      - roles: [publish, release]
        tenants: [acme, shop-*]
      - {roles: [read], tenants: [demo]}
  - name: root
    uids: [0]
    grants: [{roles: [admin], tenants: ["*"]}]
  - name: ops
    uids: [0, 1000]
    certificates: [{commonName: "ops-*"}]
    grants: [{roles: [release], tenants: [acme]}]
  - name: nobody
    uids: [99]
    grants: [{roles: [read], tenants: [empty]}]
`

func parse(t *testing.T, text string) *access.Policy {
	t.Helper()
	p, err := access.Parse("policy.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func cert(commonName string, dns []string, uris ...string) *x509.Certificate {
	c := &x509.Certificate{DNSNames: dns, NotAfter: time.Now().Add(time.Hour)}
	c.Subject.CommonName = commonName
	for _, u := range uris {
		parsed, err := url.Parse(u)
		if err != nil {
			panic(err)
		}
		c.URIs = append(c.URIs, parsed)
	}
	return c
}

func TestIdentify(t *testing.T) {
	p := parse(t, policyText)
	expired := cert("ops-1", nil)
	expired.NotAfter = time.Now().Add(-time.Minute)
	for _, tt := range []struct {
		name   string
		shown  access.Credentials
		want   string
		reason access.Reason
	}{
		{"nothing", access.Credentials{}, "", access.NothingShown},
		{"token", access.Credentials{Token: token}, "ci", ""},
		{"second token of a subject", access.Credentials{Token: otherToken}, "ci", ""},
		{"unknown token", access.Credentials{Token: token + "x"}, "", access.UnknownToken},
		{"a digest is no token", access.Credentials{Token: digest(token)}, "", access.UnknownToken},
		{"short token", access.Credentials{Token: "short"}, "", access.MalformedToken},
		{"an unknown token is not made good by what else is there", access.Credentials{Token: token + "x", Unix: true, Certificate: cert("ops-1", nil)}, "", access.UnknownToken},
		{"a token goes before a certificate", access.Credentials{Token: token, Certificate: cert("ops-1", nil)}, "ci", ""},
		{"spiffe", access.Credentials{Certificate: cert("", nil, "spiffe://example.org/ns/prod/sa/agent")}, "agents", ""},
		{"one of several URIs", access.Credentials{Certificate: cert("", nil, "urn:x", "spiffe://example.org/ns/prod/sa/agent")}, "agents", ""},
		{"a star stays in its path segment", access.Credentials{Certificate: cert("", nil, "spiffe://example.org/ns/a/b/sa/agent")}, "", access.UnknownCertificate},
		{"the whole URI has to match", access.Credentials{Certificate: cert("", nil, "spiffe://example.org/ns/prod/sa/agent/x")}, "", access.UnknownCertificate},
		{"a dot is a dot", access.Credentials{Certificate: cert("", nil, "spiffe://exampleXorg/ns/prod/sa/agent")}, "", access.UnknownCertificate},
		{"dns and common name", access.Credentials{Certificate: cert("agent", []string{"N1.nodes.example.org"})}, "agents", ""},
		{"dns alone", access.Credentials{Certificate: cert("other", []string{"n1.nodes.example.org"})}, "", access.UnknownCertificate},
		{"a star stays in its label", access.Credentials{Certificate: cert("agent", []string{"n1.evil.nodes.example.org"})}, "", access.UnknownCertificate},
		{"common name", access.Credentials{Certificate: cert("ops-1", nil)}, "ops", ""},
		{"common name with nothing for the star", access.Credentials{Certificate: cert("ops-", nil)}, "", access.UnknownCertificate},
		{"a line break does not end a name", access.Credentials{Certificate: cert("agent\n", []string{"n1.nodes.example.org"})}, "", access.UnknownCertificate},
		{"expired", access.Credentials{Certificate: expired}, "", access.ExpiredCertificate},
		{"uid of two subjects", access.Credentials{Unix: true}, "root+ops", ""},
		{"uid", access.Credentials{Unix: true, UID: 1000}, "ops", ""},
		{"uid without a socket", access.Credentials{UID: 1000}, "", access.NothingShown},
		{"unknown uid", access.Credentials{Unix: true, UID: 1001}, "", access.UnknownUser},
		{"a certificate goes before a uid", access.Credentials{Unix: true, Certificate: cert("nobody", nil)}, "", access.UnknownCertificate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.shown.Peer = "here"
			who, err := p.Identify(tt.shown, time.Now())
			if tt.reason == "" {
				if err != nil || who.Name != tt.want || who.Peer != "here" {
					t.Errorf("%+v, %v, want %s", who, err, tt.want)
				}
				return
			}
			unknown, ok := errors.AsType[*access.Unknown](err)
			if !ok || unknown.Reason != tt.reason || script.KindOf(err) != script.Denied {
				t.Errorf("%v, want %s", err, tt.reason)
			}
			if who.Allows(access.Read, "acme") {
				t.Error("who is not known may read")
			}
			if tt.shown.Token != "" && strings.Contains(err.Error(), tt.shown.Token) {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

func TestGrants(t *testing.T) {
	p := parse(t, policyText)
	for _, tt := range []struct {
		shown   access.Credentials
		role    access.Role
		tenants string
		want    bool
	}{
		{access.Credentials{Token: token}, access.Publish, "acme", true},
		{access.Credentials{Token: token}, access.Release, "shop-1", true},
		{access.Credentials{Token: token}, access.Read, "acme", true},
		{access.Credentials{Token: token}, access.Admin, "acme", false},
		{access.Credentials{Token: token}, access.Publish, "demo", false},
		{access.Credentials{Token: token}, access.Read, "demo", true},
		{access.Credentials{Token: token}, access.Read, "other", false},
		{access.Credentials{Unix: true}, access.Publish, "other", true},
		{access.Credentials{Unix: true, UID: 1000}, access.Release, "acme", true},
		{access.Credentials{Unix: true, UID: 1000}, access.Publish, "acme", false},
	} {
		who, err := p.Identify(tt.shown, time.Now())
		if err != nil || who.Allows(tt.role, tt.tenants) != tt.want {
			t.Errorf("%s %s on %s: %v, %v", who.Name, tt.role, tt.tenants, !tt.want, err)
		}
	}
	if (&access.Policy{}).HasCertificates() || !p.HasCertificates() {
		t.Error("HasCertificates")
	}
	if _, err := (&access.Policy{}).Identify(access.Credentials{Unix: true}, time.Now()); script.KindOf(err) != script.Denied {
		t.Errorf("the zero Policy: %v", err)
	}
}

// TestSeveralGrantsTogether allow what none of them allows alone.
func TestSeveralGrantsTogether(t *testing.T) {
	selector := func(globs ...string) script.Selector {
		s, err := script.ParseSelector(globs)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	who := access.Identity{Name: "several", Grants: []access.Grant{
		{Roles: []access.Role{access.Read}, Tenants: selector("acme")},
		{Roles: []access.Role{access.Publish}, Tenants: selector("globex", "shop-*")},
	}}
	for _, tt := range []struct {
		role    access.Role
		tenants script.Selector
		want    bool
	}{
		{access.Read, selector("acme", "globex"), true},
		{access.Read, selector("acme", "globex", "shop-1*"), true},
		{access.Read, selector("acme", "other"), false},
		{access.Read, selector("acme", "shop*"), false},
		{access.Read, selector("acme", "**"), false},
		{access.Read, selector(), false},
		{access.Publish, selector("globex", "shop-1"), true},
		{access.Publish, selector("acme", "globex"), false},
	} {
		if got := who.AllowsAll(tt.role, tt.tenants); got != tt.want || (who.CheckAll(tt.role, tt.tenants) == nil) != tt.want {
			t.Errorf("%s of %v: %v, want %v", tt.role, tt.tenants, got, tt.want)
		}
	}
	if !access.Everybody("unix").AllowsAll(access.Admin, selector()) || !access.Everybody("unix").AllowsAll(access.Read, selector("acme", "x*")) {
		t.Error("everybody may not do everything")
	}
	if (access.Identity{}).AllowsAll(access.Read, selector()) || (access.Identity{}).AllowsAll(access.Read, selector("acme")) {
		t.Error("the zero Identity may read")
	}
	if !who.AllowsAny(access.Publish) || !who.AllowsAny(access.Read) || who.AllowsAny(access.Admin) || (access.Identity{}).AllowsAny(access.Read) {
		t.Error("AllowsAny")
	}
}

func TestParseSaysWhatIsWrongAndWhere(t *testing.T) {
	subject := func(fields string) string {
		return "subjects:\n  - name: ci\n    uids: [1]\n    grants: [{roles: [read], tenants: [acme]}]\n" + fields
	}
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "policy.yaml:1: is empty"},
		{"no YAML", "subjects: [", "policy.yaml:1: is not YAML"},
		{"not a mapping", "- a", "policy.yaml:1: want fields: subjects"},
		{"null", "null", "policy.yaml:1: want fields: subjects"},
		{"two documents", "subjects: []\n---\nsubjects: []\n", "more than one document"},
		{"unknown at the top", "subject: []", "policy.yaml:1: subject: is not a field; the fields here are subjects"},
		{"no subjects", "{}", "policy.yaml:1: subjects: is missing"},
		{"none", "subjects: []", "policy.yaml:1: subjects: want a list with something in it"},
		{"no name", "subjects:\n  - uids: [1]\n    grants: [{roles: [read], tenants: [a]}]", "policy.yaml:2: subject subjects[0]: name: is missing"},
		{"bad name", "subjects:\n  - name: a+b\n    uids: [1]\n    grants: [{roles: [read], tenants: [a]}]", `policy.yaml:2: subject subjects[0]: name: "a+b" is no name`},
		{"taken name", "subjects:\n  - name: anonymous\n    uids: [1]\n    grants: [{roles: [read], tenants: [a]}]", "take another name"},
		{"name twice", subject("  - name: ci\n    uids: [2]\n    grants: [{roles: [read], tenants: [a]}]"), "policy.yaml:5: subject ci: name: another subject has it, in line 2"},
		{"nobody", "subjects:\n  - name: ci\n    grants: [{roles: [read], tenants: [a]}]", "policy.yaml:2: subject ci: nobody can be this subject"},
		{"no grants", "subjects:\n  - name: ci\n    uids: [1]", "policy.yaml:2: subject ci: grants: is missing"},
		{"field twice", subject("    uids: [2]"), "policy.yaml:5: subject ci: uids: is there twice, first in line 3"},
		{"unknown field", subject("    token: x"), "policy.yaml:5: subject ci: token: is not a field"},
		{"unknown field with control characters", subject("    \"to\\e[2Jken\": x"), `"to\x1b[2Jken": is not a field`},
		{"a token itself", subject("    tokens: [swordfish]"), "policy.yaml:5: subject ci: tokens[0]: is not the digest of a token; a token itself does not belong here"},
		{"short digest", subject("    tokens: [\"sha256:abcd\"]"), "tokens[0]: is not the digest of a token"},
		{"digest of nothing", subject("    tokens: [\"" + digest("") + "\"]"), "was $TOKEN empty?"},
		{"token twice", subject("    tokens: [\"" + digest("x") + "\", \"" + digest("x") + "\"]"), "tokens[1]: is in line 5 already"},
		{"uid", "subjects:\n  - name: ci\n    uids: [root]\n    grants: [{roles: [read], tenants: [a]}]", "policy.yaml:3: subject ci: uids[0]: is no uid"},
		{"negative uid", "subjects:\n  - name: ci\n    uids: [-1]\n    grants: [{roles: [read], tenants: [a]}]", "uids[0]: is no uid"},
		{"empty certificate", subject("    certificates: [{}]"), "certificates[0]: matches no certificate"},
		{"empty pattern", subject("    certificates: [{dns: \"\"}]"), "certificates[0].dns: has 0 characters"},
		{"certificate's field", subject("    certificates: [{cn: a}]"), "certificates[0].cn: is not a field; the fields here are commonName, dns, uri"},
		{"role", "subjects:\n  - name: ci\n    uids: [1]\n    grants:\n      - roles: [read, write]\n        tenants: [a]", "policy.yaml:5: subject ci: grants[0].roles[1]: \"write\" is no role: want some of [read publish release admin]"},
		{"no tenants", "subjects:\n  - name: ci\n    uids: [1]\n    grants: [{roles: [read]}]", "grants[0].tenants: is missing"},
		{"null tenants", "subjects:\n  - name: ci\n    uids: [1]\n    grants: [{roles: [read], tenants: }]", "grants[0].tenants: want a list"},
		{"empty tenants", "subjects:\n  - name: ci\n    uids: [1]\n    grants: [{roles: [read], tenants: []}]", "grants[0].tenants: want a list"},
		{"bad tenants", "subjects:\n  - name: ci\n    uids: [1]\n    grants: [{roles: [read], tenants: [Acme]}]", "grants[0].tenants: \"Acme\""},
		{"no roles", "subjects:\n  - name: ci\n    uids: [1]\n    grants: [{tenants: [a]}]", "grants[0].roles: is missing"},
		{"number as text", "subjects:\n  - name: 7\n    uids: [1]\n    grants: [{roles: [read], tenants: [a]}]", "name: want text; put it in quotes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := access.Parse("policy.yaml", []byte(tt.text), nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v\nwant %s", err, tt.want)
			}
			if script.KindOf(err) != script.Invalid {
				t.Errorf("kind %s, want Invalid", script.KindOf(err))
			}
			if strings.Contains(err.Error(), "swordfish") {
				t.Errorf("the error has what may be a token: %v", err)
			}
		})
	}
	_, err := access.Parse("policy.yaml", []byte("subjects:\n  - name: ci\n    uids: [x]\n    grants: [{roles: [y], tenants: [a]}]"), nil)
	if err == nil || strings.Count(err.Error(), "policy.yaml:") != 2 {
		t.Errorf("two faults: %v", err)
	}
	if _, err := access.Load("testdata/there-is-none", nil); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "there-is-none") {
		t.Errorf("no file: %v", err)
	}
}

func TestContext(t *testing.T) {
	if access.FromContext(t.Context()).Allows(access.Read, "acme") {
		t.Error("nobody may read")
	}
	who := access.Everybody("here")
	if got := access.FromContext(access.NewContext(t.Context(), who)); got.Name != who.Name || !got.Allows(access.Admin, "acme") {
		t.Errorf("%+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(policyText))
	f.Add([]byte("subjects: [{name: a, uids: [1], grants: [{roles: [read], tenants: [a]}]}]"))
	f.Add([]byte("subjects: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := access.Parse("policy.yaml", data, nil)
		if (p == nil) == (err == nil) {
			t.Fatalf("%v, %v", p, err)
		}
		if err != nil && script.KindOf(err) != script.Invalid {
			t.Errorf("%v is not Invalid", err)
		}
	})
}
