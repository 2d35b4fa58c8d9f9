package suite_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

const librarySource = "return {n = 1}"

// TestANewerLibraryPublishesNothing: the newest version of a script does not run, because the script is held or pinned.
// The operator starts anew, and a library is newer than the version's. The version stays the newest one.
func TestANewerLibraryPublishesNothing(t *testing.T) {
	for name, keepsOld := range map[string]func(*world, *v1alpha1.LuaScript) *v1alpha1.LuaScript{
		"held": func(w *world, ls *v1alpha1.LuaScript) *v1alpha1.LuaScript {
			if _, _, err := w.registry.Rollback(t.Context(), nameOf("route"), 0, registryclient.Write{Author: "ann"}); err != nil {
				t.Fatal(err)
			}
			return w.held(ls, "by ann since ")
		},
		"pinned": func(w *world, ls *v1alpha1.LuaScript) *v1alpha1.LuaScript {
			return w.converged(w.change(ls, func(s *spec) { s.Version = new(int64(1)) }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, 1)
			library := func(source string) {
				t.Helper()
				request := registryclient.PublishRequest{
					Name: script.Name{Tenant: tenant, Script: "lib"}, Source: []byte(source), Entrypoint: new(""),
					Settings: &script.Settings{Spec: script.Spec{Library: true}}, Write: registryclient.Write{Author: "ann"},
				}
				if _, err := w.registry.Publish(t.Context(), request); err != nil {
					t.Fatal(err)
				}
			}
			requires := func(s *spec) { s.Source = new("local lib = require('acme/lib') function handle() return lib.n end") }
			library(librarySource)
			ls := w.converged(w.create("route", 1))
			keepsOld(w, w.converged(w.change(ls, requires)))
			library("return {n = 2}")
			w.stopOperator()
			w.startOperator()
			w.converged(w.create("other", 1)) // after those that were there before
			if r, err := w.release("route"); err != nil || r.Latest != 2 {
				t.Errorf("the newest version is %d, want 2 (%v)", r.Latest, err)
			}
		})
	}
}
