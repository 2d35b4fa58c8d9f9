package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

var soon = time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC)

func personal(change func(*script.Personal)) script.Spec {
	p := &script.Personal{Of: "route", Key: "ann-12345678", From: "request.headers.x-dev", Until: soon}
	if change != nil {
		change(p)
	}
	return script.Spec{Personal: p}
}

// TestPersonalDocument: a document has the personal version, and another key makes another version.
func TestPersonalDocument(t *testing.T) {
	s := personal(nil)
	got, err := script.ParseSpec(s.Document())
	if err != nil || !got.Equal(s) {
		t.Errorf("came back as %+v, %v", got, err)
	}
	for what, other := range map[string]script.Spec{
		"none":        {},
		"of":          personal(func(p *script.Personal) { p.Of = "other" }),
		"key":         personal(func(p *script.Personal) { p.Key = "bob-12345678" }),
		"from":        personal(func(p *script.Personal) { p.From = "" }),
		"until":       personal(func(p *script.Personal) { p.Until = soon.Add(time.Second) }),
		"in a zone":   personal(func(p *script.Personal) { p.Until = soon.In(time.FixedZone("X", 3600)) }),
		"in the same": personal(nil),
	} {
		same := strings.HasPrefix(what, "in ")
		if s.Equal(other) != same || (script.Version{}.With(s).Spec == script.Version{}.With(other).Spec) != same {
			t.Errorf("%s: equal is %v", what, s.Equal(other))
		}
	}
}

func TestPersonalIsValid(t *testing.T) {
	now := soon.Add(-time.Hour)
	for what, c := range map[string]struct {
		name   string
		spec   script.Spec
		wanted string // in the error; "" for none
	}{
		"valid":             {"route-dev-ann", personal(nil), ""},
		"without a source":  {"route-dev-ann", personal(func(p *script.Personal) { p.From = "" }), ""},
		"another name":      {"route-ann", personal(nil), `name: acme/route-ann does not begin with "route-dev-"`},
		"nobody's":          {"route-dev-", personal(nil), `does not begin with "route-dev-"`},
		"of nothing":        {"route-dev-ann", personal(func(p *script.Personal) { p.Of = "" }), "s.personal.of: must not be empty"},
		"of another tenant": {"route-dev-ann", personal(func(p *script.Personal) { p.Of = "other/route" }), "s.personal.of: "},
		"a short key":       {"route-dev-ann", personal(func(p *script.Personal) { p.Key = "1234567" }), "s.personal.key: has 7 bytes"},
		"a long key":        {"route-dev-ann", personal(func(p *script.Personal) { p.Key = strings.Repeat("k", 1025) }), "s.personal.key: has 1025 bytes"},
		"a key of bytes":    {"route-dev-ann", personal(func(p *script.Personal) { p.Key = "\xff2345678" }), "s.personal.key: "},
		"expired":           {"route-dev-ann", personal(func(p *script.Personal) { p.Until = now }), "s.personal.until: 2026-11-27T17:00:00Z is over"},
		"for ever":          {"route-dev-ann", personal(func(p *script.Personal) { p.Until = now.Add(169 * time.Hour) }), "is more than 168h0m0s from now"},
		"another source":    {"route-dev-ann", personal(func(p *script.Personal) { p.From = "request.body" }), "s.personal.from: "},
		"a source in capitals": {
			"route-dev-ann", personal(func(p *script.Personal) { p.From = "request.headers.X-Dev" }),
			`is not in the form "request.headers.x-dev"`,
		},
		"a library":      {"route-dev-ann", script.Spec{Library: true, Personal: personal(nil).Personal}, "s.library: "},
		"with a trigger": {"route-dev-ann", script.Spec{Trigger: script.Trigger{Event: "pre-route"}, Personal: personal(nil).Personal}, "s.trigger: a personal version has none: it runs where route runs"},
	} {
		err := c.spec.Personal.Validate("s", script.Name{Tenant: "acme", Script: c.name}, c.spec, now)
		if c.wanted == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), c.wanted) {
			t.Errorf("%s: %v, want %s", what, err, c.wanted)
		}
	}
	if err := (*script.Personal)(nil).Validate("s", script.Name{}, script.Spec{}, now); err != nil {
		t.Errorf("none: %v", err)
	}
}
