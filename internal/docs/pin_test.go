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
)

// TestPagesSayWhatPublishingDoesToAPin: what the pages warn of is what happens. Who
// changes what happens changes the pages.
func TestPagesSayWhatPublishingDoesToAPin(t *testing.T) {
	t.Parallel()
	r := registry.New(registry.Config{Store: memstore.New(), Engines: map[string]engine.Checker{"lua": lua.New()}})
	for _, step := range []struct {
		spec, source   string
		active, latest uint64
		pinned         bool
	}{
		{"", "return 1", 1, 1, false},
		{"", "return 2", 2, 2, false},
		{"version: 1", "return 2", 1, 2, true},
		{"version: 1", "return 3", 1, 3, true}, // the way to keep a pin
		{"", "return 4", 4, 4, false},          // what the pages warn of
		{"version: 1", "return 4", 1, 4, true},
		{"", "return 4", 4, 4, false}, // also without new source
	} {
		text := "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: route}\nspec:\n  tenantId: acme\n" +
			"  source: function handle() " + step.source + " end\n  " + step.spec + "\n"
		manifests, err := manifest.Parse("route.yaml", []byte(text), "")
		if err != nil {
			t.Fatal(err)
		}
		request := manifests[0].Publish()
		published, err := r.Publish(t.Context(), registry.PublishRequest{
			Write:  registry.Write{Name: request.Name, Author: "ann", By: access.Everybody("unix")},
			Source: request.Source, Engine: request.Engine, Entrypoint: *request.Entrypoint,
			Settings: request.Settings, Enabled: request.Enabled, Pin: request.Pin,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := published.Release; got.Active.Number != step.active || got.Latest != step.latest || got.Pinned != step.pinned {
			t.Errorf("after %q with %q: version %d of %d, pinned: %t; want %d of %d, %t",
				step.spec, step.source, got.Active.Number, got.Latest, got.Pinned, step.active, step.latest, step.pinned)
		}
	}

	all := pages(t)
	for _, name := range []string{"concepts.md", "rollouts.md"} {
		if text := all[filepath.Join(root, "docs", name)]; !strings.Contains(text, "> **Warning: publishing a manifest without `version:` removes the pin.**") {
			t.Errorf("%s does not warn that publishing removes a pin", name)
		}
	}
}
