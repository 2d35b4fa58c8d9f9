package cache_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// library returns what the tenant's library says in one version.
func library(tenant string, version uint64, source string) script.Library {
	return script.Library{Name: script.Name{Tenant: tenant, Script: "lib"}, Version: version, Digest: script.DigestOf([]byte(source)), Source: source}
}

// withLibraries is a live release of the source with the libraries.
func (s *shelf) withLibraries(tenant, source string, libraries ...script.Library) *cache.Release {
	s.put("any", source)
	spec := script.Spec{Libraries: libraries}
	v := script.Version{Number: 1, Digest: script.DigestOf([]byte(source)), Engine: "lua", Entrypoint: "handle"}.With(spec)
	return cache.NewRelease(script.Release{
		Name: script.Name{Tenant: tenant, Script: "route"}, Active: v, Retained: []script.Version{v}, Enabled: true, Settings: script.Settings{Spec: spec},
	})
}

// TestLibrariesMakeTheProgram: two versions with the same source and other libraries never share a program.
func TestLibrariesMakeTheProgram(t *testing.T) {
	s := &shelf{}
	programs := cache.NewPrograms(cache.Config{Engines: map[string]engine.Engine{"lua": lua.New()}, Sources: s, Budget: 1 << 20})
	const source = `function handle() return require("acme/lib") end`
	first, second := s.withLibraries("acme", source, library("acme", 1, "return 1")), s.withLibraries("acme", source, library("acme", 2, "return 2"))
	for range 2 {
		for want, r := range map[string]*cache.Release{"1": first, "2": second} {
			p, err := programs.Of(t.Context(), r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := run(t, p); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
	if got := programs.Stats().Programs; got != 2 {
		t.Errorf("%d programs, want 2", got)
	}
}

// TestLibrariesAreTheTenants: an agent does not believe a registry that hands a script a library of another tenant, or
// another source than the digest says.
func TestLibrariesAreTheTenants(t *testing.T) {
	s := &shelf{}
	programs := cache.NewPrograms(cache.Config{Engines: map[string]engine.Engine{"lua": lua.New()}, Sources: s, Budget: 1 << 20})
	altered := library("acme", 1, "return 1")
	altered.Source = "return 2"
	for name, l := range map[string]script.Library{"of another tenant": library("other", 1, "return 1"), "altered": altered} {
		r := s.withLibraries("acme", `function handle() end`, l)
		if _, err := programs.Of(t.Context(), r, nil); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: got %v, want Invalid", name, err)
		}
		key := cache.KeyOf(r.Runs)
		if err := programs.Prepare("acme", key, []byte(`function handle() end`), r.Inputs(), true); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: Prepare: got %v, want Invalid", name, err)
		}
		if err := programs.Check("acme", key, []byte(`function handle() end`), r.Inputs()); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: Check: got %v, want Invalid", name, err)
		}
	}
	r := s.withLibraries("acme", `function handle() end`, library("acme", 1, "return 1"))
	if err := programs.Prepare("acme", cache.KeyOf(r.Runs), []byte(`function handle() end`), script.Inputs{}, true); script.KindOf(err) != script.Invalid {
		t.Errorf("without its libraries: got %v, want Invalid", err)
	}
}
