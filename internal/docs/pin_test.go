package docs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestPagesSayWhatPublishingDoes: what the pages say of a pin, and of a hold, is what happens. Who
// changes what happens changes the pages.
func TestPagesSayWhatPublishingDoes(t *testing.T) {
	t.Parallel()
	r := registry.New(registry.Config{Store: memstore.New(), Engines: map[string]engine.Checker{"lua": lua.New()}})
	write := registry.Write{Name: script.Name{Tenant: "acme", Script: "route"}, Author: "ann", By: access.Everybody("unix")}
	for _, step := range []struct {
		spec, source   string
		active, latest uint64
		pinned         bool
		then           func() (registry.Result, error)
	}{
		{spec: "", source: "return 1", active: 1, latest: 1},
		{spec: "", source: "return 2", active: 2, latest: 2},
		{spec: "version: 1", source: "return 2", active: 1, latest: 2, pinned: true},
		{spec: "version: 1", source: "return 3", active: 1, latest: 3, pinned: true}, // the way to keep a pin
		{spec: "", source: "return 4", active: 4, latest: 4},                         // the declaration ends
		{spec: "version: 1", source: "return 4", active: 1, latest: 4, pinned: true},
		{spec: "", source: "return 4", active: 4, latest: 4, then: func() (registry.Result, error) { // also without new source
			return r.Pin(t.Context(), registry.PinRequest{Write: write, Version: 2})
		}},
		{spec: "", source: "return 5", active: 2, latest: 5, pinned: true}, // a hold does not
		{spec: "version: 1", source: "return 6", active: 2, latest: 6, pinned: true, then: func() (registry.Result, error) {
			return r.LiftHold(t.Context(), registry.LiftHoldRequest{Write: write})
		}},
		{spec: "version: 1", source: "return 6", active: 1, latest: 6, pinned: true}, // as declared
	} {
		text := "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: route}\nspec:\n  tenantId: acme\n" +
			"  source: function handle() " + step.source + " end\n  " + step.spec + "\n"
		manifests, err := manifest.Parse("route.yaml", []byte(text), "")
		if err != nil {
			t.Fatal(err)
		}
		request := manifests[0].Publish()
		published, err := r.Publish(t.Context(), registry.PublishRequest{
			Write: write, Source: request.Source, Engine: request.Engine, Entrypoint: *request.Entrypoint,
			Settings: request.Settings, Enabled: request.Enabled, Pin: request.Pin,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := published.Release; got.Active.Number != step.active || got.Latest != step.latest || got.Pinned != step.pinned {
			t.Errorf("after %q with %q: version %d of %d, pinned: %t; want %d of %d, %t",
				step.spec, step.source, got.Active.Number, got.Latest, got.Pinned, step.active, step.latest, step.pinned)
		}
		if step.then != nil {
			if _, err := step.then(); err != nil {
				t.Fatal(err)
			}
		}
	}

	all := pages(t)
	for name, says := range map[string][]string{
		"concepts.md": {"The next publish of a manifest without `version:` follows the latest version again.", "A hold wins over every publish"},
		"rollouts.md": {"| you publish a manifest without `version:`, and the one before had it | The pin ends", "| you publish to a script that somebody holds | The registry stores the version. What runs does not change. |"},
	} {
		text := strings.Join(strings.Fields(all[filepath.Join(root, "docs", name)]), " ")
		for _, sentence := range says {
			if !strings.Contains(text, sentence) {
				t.Errorf("%s does not say %q", name, sentence)
			}
		}
	}
}
