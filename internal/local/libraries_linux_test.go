package local_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestLibraries: a script has its libraries as they were when it was published, in each of its versions, whatever is
// published later, and after a restart of nothing but the script. Nobody calls a library.
func TestLibraries(t *testing.T) {
	for isolation, settings := range map[string]script.TenantSettings{
		"in the agent":            {},
		"in a process of its own": {Isolation: script.IsolationProcess},
	} {
		t.Run(isolation, func(t *testing.T) { testLibraries(t, settings) })
	}
}

func testLibraries(t *testing.T, settings script.TenantSettings) {
	t.Helper()
	s, ctx, by := start(t), t.Context(), registryclient.Write{Author: "test"}
	if _, _, err := s.registry.SetTenant(ctx, name.Tenant, &settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	lib := script.Name{Tenant: name.Tenant, Script: "lib"}
	publish := func(n script.Name, source string, library bool) script.Release {
		t.Helper()
		p, err := s.registry.Publish(ctx, registryclient.PublishRequest{
			Name: n, Source: []byte(source), Write: by,
			Settings: &script.Settings{Spec: script.Spec{Library: library, Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.convergeOf(n, p.Release.Revision)
		return p.Release
	}
	everywhere := func(ref, want string) {
		t.Helper()
		for i, client := range s.agents {
			result, err := client.Call(ctx, ref)
			if err != nil || string(result.Values[0]) != want {
				t.Errorf("agent-%d answers %s with %+v, %v; want %s", i+1, ref, result, err, want)
			}
		}
	}
	const user = `local l = require("acme/lib") function handle() return l.n() end`
	publish(lib, "local M = {} function M.n() return 1 end return M", true)
	publish(name, user, false)
	everywhere(name.String(), "1")
	publish(lib, "local M = {} function M.n() return 2 end return M", true)
	everywhere(name.String(), "1")
	second := publish(name, user, false)
	if second.Active.Number != 2 || second.Settings.Libraries[0].Version != 2 || second.Settings.Libraries[0].Source != "" {
		t.Errorf("published again: %+v", second)
	}
	everywhere(name.String(), "2")
	everywhere(name.String()+"@1", "1")

	if _, err := s.registry.Delete(ctx, lib, by); err != nil {
		t.Fatal(err)
	}
	back, _, err := s.registry.Rollback(ctx, name, 0, by)
	if err != nil {
		t.Fatal(err)
	}
	s.converge(back.Revision)
	everywhere(name.String(), "1")
	everywhere(name.String()+"@2", "2")

	publish(lib, "local M = {}\nfunction M.n()\nerror('no') end return M", true)
	for i, client := range s.agents {
		if _, err := client.Call(ctx, lib.String()); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "acme/lib is a library") {
			t.Errorf("agent-%d: a call of a library: %v", i+1, err)
		}
	}
	if _, _, err := s.registry.LiftHold(ctx, name, by); err != nil {
		t.Fatal(err)
	}
	publish(name, "\n"+user, false)
	for i, client := range s.agents {
		if _, err := client.Call(ctx, name.String()); !strings.Contains(script.AsError(err).Error(), "acme/lib:3: no (line 2)") {
			t.Errorf("agent-%d: an error in a library: %v", i+1, err)
		}
	}
}
