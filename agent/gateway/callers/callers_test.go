package callers_test

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/callers"
	"github.com/scriptorium-dev/scriptorium/script"
)

func digest(token string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token))) }

func TestCertificates(t *testing.T) {
	const text = `callers:
  - {name: one, certificates: [{commonName: gw, dns: gw.example.org}], tenants: [acme]}
  - {name: two, certificates: [{uri: "spiffe://x/y"}, {dns: other.example.org}], tenants: ["*"]}
`
	known, err := callers.Parse("c", []byte(text))
	if err != nil || !known.HasCertificates() {
		t.Fatal(err)
	}
	now := time.Now()
	uri, _ := url.Parse("spiffe://x/y")
	for _, tt := range []struct {
		cert x509.Certificate
		want string // the caller, or what the error says
	}{
		{x509.Certificate{Subject: pkix.Name{CommonName: "gw"}, DNSNames: []string{"GW.example.org"}}, "caller one"},
		{x509.Certificate{Subject: pkix.Name{CommonName: "gw"}}, "names neither"},
		{x509.Certificate{DNSNames: []string{"gw.example.org"}}, "names neither"},
		{x509.Certificate{DNSNames: []string{"other.example.org"}}, "caller two"},
		{x509.Certificate{URIs: []*url.URL{uri}}, "caller two"},
		{x509.Certificate{URIs: []*url.URL{uri}, NotAfter: now.Add(-time.Second)}, "has expired"},
		{x509.Certificate{}, "names neither"},
	} {
		if tt.cert.NotAfter.IsZero() {
			tt.cert.NotAfter = now.Add(time.Hour)
		}
		grant, err := known.Identify(nil, &tt.cert, now)
		got := grant.Caller()
		if err != nil {
			got = err.Error()
			if script.KindOf(err) != script.Denied || !grant.None() {
				t.Errorf("%v: %v, %v", tt.cert.Subject, grant, err)
			}
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%v %v %v: %s, want %s", tt.cert.Subject, tt.cert.DNSNames, tt.cert.URIs, got, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const secret = "a-token-and-no-digest-of-one"
	good := digest(secret)
	for text, want := range map[string]string{
		"":                   "is empty",
		"callers: []":        "has 0 callers",
		"subjects: []":       "field subjects not found",
		"callers: " + secret: "line 1",
		"callers: [{name: " + secret + ", tokens: " + secret + "}]":                                                       "line 1",
		"callers: [{name: a, tenants: [acme]}]":                                                                           "nobody can be this caller",
		"callers: [{name: a, tokens: [" + secret + "], tenants: [acme]}]":                                                 "tokens[0]: is not the digest",
		"callers: [{name: a, tokens: ['" + digest("") + "'], tenants: [acme]}]":                                           "digest of nothing",
		"callers: [{name: a, tokens: ['" + good + "']}]":                                                                  "tenants: is missing",
		"callers: [{name: a, tokens: ['" + good + "'], tenants: [Acme]}]":                                                 "is not a tenant",
		"callers: [{name: 'a b', tokens: ['" + good + "'], tenants: [acme]}]":                                             "name: want",
		"callers: [{name: a, tokens: ['" + good + "', '" + good + "'], tenants: [acme]}]":                                 "is in the file twice",
		"callers: [{name: a, certificates: [{}], tenants: [acme]}]":                                                       "certificates[0]: want",
		"callers: [{name: a, tokens: ['" + good + "'], tenants: [acme], grants: x}]":                                      "field grants not found",
		"callers: [{name: a, tokens: ['" + good + "'], tenants: [acme]}]\n---\ncallers: []":                               "more than one document",
		"callers: [{name: a, tokens: ['" + good + "'], tenants: [b]}, {name: a, certificates: [{dns: x}], tenants: [b]}]": "another caller has the name",
	} {
		_, err := callers.Parse("c.yaml", []byte(text))
		if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "c.yaml") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats a token: %v", err)
		}
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := callers.Load(large); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := callers.Load(large + "x"); script.KindOf(err) != script.Invalid {
		t.Errorf("no file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("callers: [{name: a, tokens: ['" + digest("x") + "'], tenants: [acme]}]"))
	f.Add([]byte("callers: [{name: a, certificates: [{uri: x}], tenants: ['*']}]"))
	f.Add([]byte("callers: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		known, err := callers.Parse("f", data)
		if err != nil {
			return
		}
		if grant, err := known.Identify(nil, nil, time.Now()); err == nil || !grant.None() {
			t.Errorf("who shows nothing gets %v", grant)
		}
	})
}
