package script_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestSpecWithoutLibraries: documents of before are read, and have the digests that they had.
func TestSpecWithoutLibraries(t *testing.T) {
	const before = `{"trigger":"pre-route","limits":{"instructions":7},"config":{"a":1},"tests":[{"name":"t","request":{}}]}`
	s, err := script.ParseSpec([]byte(before))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(s.Document()); got != before {
		t.Errorf("got %s, want %s", got, before)
	}
	v := script.Version{}.With(s)
	if v.Spec != script.DigestOf([]byte(before)) || !v.Inputs.IsZero() {
		t.Errorf("the digests are others: %+v", v)
	}
}

// TestSpecWithLibraries: a document has the libraries with their sources, and another library makes another program.
func TestSpecWithLibraries(t *testing.T) {
	lib := func(version uint64, source string) script.Spec {
		return script.Spec{Libraries: []script.Library{{
			Name: script.Name{Tenant: "acme", Script: "lib"}, Version: version, Digest: script.DigestOf([]byte(source)), Source: source,
		}}}
	}
	s := lib(2, "return {} -- <&> \u2028")
	got, err := script.ParseSpec(s.Document())
	if err != nil || !reflect.DeepEqual(got, s) || !got.Equal(s) {
		t.Errorf("%v: came back as %+v", err, got)
	}
	a, b, c := script.Version{}.With(s), script.Version{}.With(lib(2, "return 1")), script.Version{}.With(lib(3, "return 1"))
	if a.SameProgram(b) || !b.SameProgram(c) || b.SameVersion(c) {
		t.Error("the source of a library makes the program, and its version the version")
	}
	library := script.Spec{Library: true}
	if got, err := script.ParseSpec(library.Document()); err != nil || !got.Library || got.Equal(script.Spec{}) {
		t.Errorf("a library: %+v, %v", got, err)
	}
}

// TestCheckLibraries: a version has libraries of its own tenant, sorted and within the bounds.
func TestCheckLibraries(t *testing.T) {
	of := script.Name{Tenant: "acme", Script: "route"}
	lib := func(tenant, name, source string) script.Library {
		return script.Library{Name: script.Name{Tenant: tenant, Script: name}, Version: 1, Digest: script.DigestOf([]byte(source)), Source: source}
	}
	a, b := lib("acme", "a", "1"), lib("acme", "b", "2")
	altered := a
	altered.Source = "2"
	var many []script.Library
	for i := range script.MaxLibraries + 1 {
		many = append(many, lib("acme", strings.Repeat("a", i+1), "1"))
	}
	for name, list := range map[string][]script.Library{
		"another tenant": {lib("other", "a", "1")}, "unsorted": {b, a}, "doubled": {a, a}, "itself": {lib("acme", "route", "1")},
		"altered": {altered}, "many": many, "large": {lib("acme", "a", strings.Repeat("x", script.MaxLibrariesBytes+1))}, "no name": {{}},
	} {
		if err := script.CheckLibraries(of, list); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: got %v, want Invalid", name, err)
		}
	}
	if err := script.CheckLibraries(of, []script.Library{a, b}); err != nil {
		t.Error(err)
	}
}
