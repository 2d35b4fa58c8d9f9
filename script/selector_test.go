package script_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

func selector(t *testing.T, globs ...string) script.Selector {
	t.Helper()
	s, err := script.ParseSelector(globs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSelectorMatches(t *testing.T) {
	for _, tt := range []struct {
		globs  string
		tenant string
		want   bool
	}{
		{"", "acme", true},
		{"*", "acme", true},
		{"acme", "acme", true},
		{"acme", "acme2", false},
		{"globex acme", "acme", true},
		{"team-*", "team-a", true},
		{"team-*", "team-", true},
		{"team-*", "steam-a", false},
		{"*-prod", "acme-prod", true},
		{"*-prod", "acme-prod-2", false},
		{"a*b*c", "a1b2b3c", true},
		{"a*b*c", "a1b2b3", false},
		{"a**", "a", true},
	} {
		if got := selector(t, strings.Fields(tt.globs)...).Matches(tt.tenant); got != tt.want {
			t.Errorf("%q matches %q: %v, want %v", tt.globs, tt.tenant, got, tt.want)
		}
	}
	long := selector(t, strings.Repeat("*a", 30)+"b")
	if long.Matches(strings.Repeat("a", 10_000)) {
		t.Error("matched although the last letter is not there")
	}
}

func TestSelectorWithin(t *testing.T) {
	for _, tt := range []struct {
		inner, outer string
		want         bool
	}{
		{"acme", "", true},
		{"", "acme", false},
		{"acme", "acme globex", true},
		{"team-a", "team-*", true},
		{"team-a-*", "team-*", true},
		{"team-*", "team-a", false},
		{"team-*", "team-*", true},
		{"acme team-a", "team-*", false},
		{"*", "*-prod", false},
		{"a*", "ab*", false},
	} {
		inner, outer := selector(t, strings.Fields(tt.inner)...), selector(t, strings.Fields(tt.outer)...)
		if got := inner.Within(outer); got != tt.want {
			t.Errorf("%v within %v: %v, want %v", inner, outer, got, tt.want)
		}
	}
}

func TestSelectorGroup(t *testing.T) {
	if got := selector(t, "acme", "*").Group(); got != script.GroupAll {
		t.Errorf("everything is group %q", got)
	}
	a, b := selector(t, "b", "a", "b"), selector(t, "a", "b")
	if a.Group() != b.Group() || len(a.Group()) != 18 {
		t.Errorf("groups %q and %q of the same tenants", a.Group(), b.Group())
	}
	if a.Group() == selector(t, "a").Group() {
		t.Error("two selectors share a group")
	}
	if got := a.String(); got != "a,b" {
		t.Errorf("String: %q", got)
	}
}

func TestSelectorRefuses(t *testing.T) {
	for _, glob := range []string{"", "Acme", "a.b", "a/b", "a?", strings.Repeat("a", 64), "é"} {
		if _, err := script.ParseSelector([]string{glob}); script.KindOf(err) != script.Invalid {
			t.Errorf("%q: %v, want Invalid", glob, err)
		}
	}
	if _, err := script.ParseSelector(make([]string, 65)); script.KindOf(err) != script.Invalid {
		t.Error("65 globs were accepted")
	}
}
