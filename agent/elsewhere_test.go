package agent

import (
	"log/slog"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestElsewhere: of a tenant that has a process, the agent keeps no program, neither of
// what comes nor of what was on disk; what does not compile is refused all the same.
func TestElsewhere(t *testing.T) {
	disk, _, err := store.Open(t.TempDir(), seal.NewKeyring())
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	s := &state{
		store: disk, table: cache.NewTable(), tenants: cache.NewTenants(),
		programs: cache.NewPrograms(cache.Config{Engines: map[string]engine.Engine{"lua": lua.New()}, Budget: 1 << 20}),
	}
	defer s.programs.Close()
	s.tenants.Update([]script.Tenant{{Name: "acme", Settings: script.TenantSettings{Isolation: script.IsolationProcess}}}, nil)
	release := func(tenant, source string) script.Release {
		d := script.DigestOf([]byte(source))
		if err := s.PutSources(map[script.Digest][]byte{d: []byte(source)}); err != nil {
			t.Fatal(err)
		}
		return script.Release{
			Name: script.Name{Tenant: tenant, Script: "a"}, Enabled: true, Active: script.Version{Number: 1, Digest: d, Engine: "lua"},
		}
	}
	for tenant, kept := range map[string]bool{"acme": false, "shop": true} {
		for _, source := range []string{"return 1 -- " + tenant, "return 2 -- " + tenant} {
			r := release(tenant, source)
			if source[7] == '1' {
				if err := s.Prepare(t.Context(), r, nil, false); err != nil {
					t.Errorf("%s: %v", tenant, err)
				}
			} else {
				s.table.Update([]*cache.Release{cache.NewRelease(r)}, nil)
				s.warm(t.Context(), slog.New(slog.DiscardHandler))
			}
			if got := s.programs.Has(cache.KeyOf(r.Active)); got != kept {
				t.Errorf("%q is kept: %v", source, got)
			}
		}
		if err := s.Prepare(t.Context(), release(tenant, "return return -- "+tenant), nil, false); script.KindOf(err) != script.Script {
			t.Errorf("%s, what does not compile: %v", tenant, err)
		}
	}
}
