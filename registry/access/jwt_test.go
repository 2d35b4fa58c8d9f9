package access_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

const issuersText = `
issuers:
  - name: github
    url: https://token.actions.githubusercontent.com
    audiences: [scriptorium]
  - name: cluster
    url: https://kubernetes.default.svc.cluster.local
    audiences: [scriptorium, registry]
    keysURL: https://kubernetes.default.svc/openid/v1/jwks
    caFile: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
subjects:
  - name: ci
    jwts:
      - issuer: github
        subject: repo:acme/*:ref:refs/heads/main
        claims: {repository_owner: acme, groups: "deploy*"}
    grants: [{roles: [publish], tenants: [acme]}]
  - name: agents
    jwts: [{issuer: cluster, subject: "system:serviceaccount:*:agent"}]
    grants: [{roles: [read], tenants: ["*"]}]
  - name: old
    tokens:
      - digest: DIGEST
        expires: 2030-01-31
    grants: [{roles: [read], tenants: [acme]}]
`

// believing verifies every token as its claims say.
type believing struct{ claims access.Claims }

func (b believing) Verify(access.Issuer, string, time.Time) (access.Claims, error) {
	return b.claims, nil
}

func jwtOf(issuer string) string {
	payload := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iss":%q}`, issuer))
	return "eyJhbGciOiJSUzI1NiJ9." + payload + ".c2lnbmF0dXJl"
}

func TestIdentifyByJWT(t *testing.T) {
	const github, cluster = "https://token.actions.githubusercontent.com", "https://kubernetes.default.svc.cluster.local"
	owner := map[string]any{"repository_owner": "acme", "groups": []any{"x", "deployers"}}
	ends := time.Now().Add(time.Minute)
	for _, tt := range []struct {
		name, issuer, subject string
		claims                map[string]any
		want                  string
		reason                access.Reason
	}{
		{"subject and claims", github, "repo:acme/edge:ref:refs/heads/main", owner, "ci(repo:acme/edge:ref:refs/heads/main)", ""},
		{"another branch", github, "repo:acme/edge:ref:refs/heads/evil", owner, "", access.UnknownJWT},
		{"a star stays in its part", github, "repo:acme/edge:environment:x:ref:refs/heads/main", owner, "", access.UnknownJWT},
		{"without a claim", github, "repo:acme/edge:ref:refs/heads/main", map[string]any{"repository_owner": "acme"}, "", access.UnknownJWT},
		{"a claim that is a number", github, "repo:acme/edge:ref:refs/heads/main", map[string]any{"repository_owner": 1.0, "groups": "deployers"}, "", access.UnknownJWT},
		{"the subject of another issuer", cluster, "repo:acme/edge:ref:refs/heads/main", owner, "", access.UnknownJWT},
		{"a service account", cluster, "system:serviceaccount:prod:agent", nil, "agents(system:serviceaccount:prod:agent)", ""},
		{"an issuer that is not there", "https://evil.example", "system:serviceaccount:prod:agent", nil, "", access.UnknownToken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := access.Parse("policy.yaml", []byte(strings.Replace(issuersText, "DIGEST", digest(token), 1)), believing{access.Claims{Subject: tt.subject, All: tt.claims, Expires: ends}})
			if err != nil {
				t.Fatal(err)
			}
			who, err := p.Identify(access.Credentials{Token: jwtOf(tt.issuer)}, time.Now())
			if tt.reason == "" {
				if err != nil || who.Name != tt.want || !who.Expires.Equal(ends) {
					t.Errorf("%+v, %v, want %s", who, err, tt.want)
				}
				return
			}
			if unknown, ok := errors.AsType[*access.Unknown](err); !ok || unknown.Reason != tt.reason {
				t.Errorf("%+v, %v, want %s", who, err, tt.reason)
			}
		})
	}
}

// TestNameOfAJWT: what a token says of its subject forges no other name in the audit trail.
func TestNameOfAJWT(t *testing.T) {
	text := "issuers: [{name: i, url: \"https://i\", audiences: [a]}]\nsubjects: [{name: s, jwts: [{issuer: i, claims: {c: x}}], grants: [{roles: [read], tenants: [a]}]}]"
	p, err := access.Parse("policy.yaml", []byte(text), believing{access.Claims{Subject: "a)+root(\n\x1b[2Jü", All: map[string]any{"c": "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	who, err := p.Identify(access.Credentials{Token: jwtOf("https://i")}, time.Now())
	if want := "s(a__root___[2J_)"; err != nil || who.Name != want || who.Subject != "s" {
		t.Errorf("%q, %v, want %q", who.Name, err, want)
	}
}

func TestTokensExpire(t *testing.T) {
	p := parse(t, strings.Replace(issuersText, "DIGEST", digest(token), 1))
	end := time.Date(2030, 2, 1, 0, 0, 0, 0, time.UTC)
	who, err := p.Identify(access.Credentials{Token: token}, end.Add(-time.Second))
	if err != nil || who.Name != "old" || !who.Expires.Equal(end) {
		t.Errorf("on its last day: %+v, %v", who, err)
	}
	_, err = p.Identify(access.Credentials{Token: token}, end)
	if unknown, ok := errors.AsType[*access.Unknown](err); !ok || unknown.Reason != access.ExpiredToken || !strings.Contains(err.Error(), "scriptctl token") {
		t.Errorf("after it: %v", err)
	}
	if all := p.Expiries(); len(all) != 1 || all[0].Subject != "old" || !all[0].Expires.Equal(end) {
		t.Errorf("%v", all)
	}
}

func TestFaultsOfIssuers(t *testing.T) {
	const grants = ", grants: [{roles: [read], tenants: [a]}]}]"
	for text, want := range map[string]string{
		"issuers: [{name: I, url: \"https://i\", audiences: [a]}]\nsubjects: [{name: s, uids: [1]" + grants:                                                "issuers[0].name: \"I\" is no name",
		"issuers: [{name: i, url: \"http://i\", audiences: [a]}]\nsubjects: [{name: s, uids: [1]" + grants:                                                 "issuers[0].url: \"http://i\" is no address",
		"issuers: [{name: i, url: \"https://i\"}]\nsubjects: [{name: s, uids: [1]" + grants:                                                                "issuers[0].audiences: is missing",
		"issuers: [{name: i, url: \"https://i\", audiences: [a]}, {name: i, url: \"https://i\", audiences: [a]}]\nsubjects: [{name: s, uids: [1]" + grants: "issuers[1].name: another issuer has it",
		"issuers: [{name: i, url: \"https://i\", audiences: [a], secret: x}]\nsubjects: [{name: s, uids: [1]" + grants:                                     "issuers[0].secret: is not a field",
		"subjects: [{name: s, jwts: [{issuer: i, subject: x}]" + grants:                                                                                    "jwts[0].issuer: \"i\" is not among issuers",
		"issuers: [{name: i, url: \"https://i\", audiences: [a]}]\nsubjects: [{name: s, jwts: [{issuer: i}]" + grants:                                      "jwts[0]: matches every token",
		"issuers: [{name: i, url: \"https://i\", audiences: [a]}]\nsubjects: [{name: s, jwts: [{issuer: i, claims: x}]" + grants:                           "jwts[0].claims: want names of claims",
		"subjects: [{name: s, tokens: [{digest: \"" + digest(token) + "\", expires: soon}]" + grants:                                                       "tokens[0].expires: is no time",
		"subjects: [{name: s, tokens: [{expires: 2030-01-01}]" + grants:                                                                                    "tokens[0].digest: is missing",
	} {
		_, err := access.Parse("policy.yaml", []byte(text), nil)
		if script.KindOf(err) != script.Invalid && err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s\ngives %v, want %s", text, err, want)
		}
	}
}
