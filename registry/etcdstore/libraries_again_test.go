package etcdstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAPublishThatIsAskedForAgain: the answer to a publish was lost, and the client asks again. It gets the result of the
// first request, whatever became of the library meanwhile.
func TestAPublishThatIsAskedForAgain(t *testing.T) {
	by := access.Everybody("unix")
	for what, meanwhile := range map[string]func(*shop){
		"deleted": func(s *shop) {
			if _, err := s.Delete(t.Context(), registry.DeleteRequest{Write: registry.Write{Name: in("acme", "lib"), Author: "ann", By: by}}); err != nil {
				t.Fatal(err)
			}
		},
		"published": func(s *shop) { s.publish(in("acme", "lib"), "return 2", library) },
	} {
		s := newShop(t)
		s.publish(in("acme", "lib"), "return 1", library)
		req := registry.PublishRequest{
			Write:  registry.Write{Name: in("acme", "route"), Author: "ann", By: by, RequestID: "0123456789abcdef"},
			Source: []byte(user), Entrypoint: registry.DefaultEntrypoint, Settings: &script.Settings{},
		}
		first, err := s.Publish(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		meanwhile(s)
		again, err := s.Publish(t.Context(), req)
		if err != nil || again.Version.Number != 1 || again.Release.Revision != first.Release.Revision {
			t.Errorf("the library is %s: v%d, %v", what, again.Version.Number, err)
		}
	}
}

// TestImportsOfLibraries: an archive brings scripts with their libraries, and those that a publish refuses are refused.
func TestImportsOfLibraries(t *testing.T) {
	from, by := newShop(t), access.Everybody("unix")
	from.publish(in("acme", "lib"), "return 1", library)
	from.publish(in("acme", "route"), user, script.Spec{})
	var items []registry.Item
	for item, err := range from.Export(t.Context(), registry.ExportRequest{By: by}) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	// altered returns the archive with other libraries of acme/route.
	altered := func(libraries ...script.Library) []registry.Item {
		e, err := from.Source(t.Context(), by, in("acme", "route"), 1)
		if err != nil {
			t.Fatal(err)
		}
		before, spec := e.Version.Spec, e.Spec
		spec.Libraries = libraries
		changed := slices.Clone(items)
		for i, item := range changed {
			switch {
			case item.Source != nil && item.Source.Digest == before:
				document := spec.Document()
				changed[i].Source = &registry.Source{Digest: script.DigestOf(document), Content: document}
			case item.Record != nil && item.Record.Release.Name == in("acme", "route"):
				r := *item.Record
				r.Versions = []script.Version{r.Versions[0].With(spec)}
				r.Release.Retained = []script.Version{r.Release.Retained[0].With(spec)}
				r.Release.Active, r.Release.Settings.Spec = r.Release.Active.With(spec), spec
				changed[i].Record = &r
			}
		}
		return changed
	}
	lib := func(name script.Name, source string) script.Library {
		return script.Library{Name: name, Version: 1, Digest: script.DigestOf([]byte(source)), Source: source}
	}
	for want, archive := range map[string][]registry.Item{
		"": items,
		"the library other/lib of another tenant": altered(lib(in("other", "lib"), "return 1")),
		"at most 131072 (128 KiB) are allowed":    altered(lib(in("acme", "lib"), "return '"+strings.Repeat("x", script.MaxLibrariesBytes)+"'")),
		"unexpected":                              altered(lib(in("acme", "lib"), "return return")),
	} {
		_, err := newShop(t).Import(t.Context(), registry.ImportRequest{By: by, Author: "ann"}, func(yield func(registry.Item, error) bool) {
			for _, item := range archive {
				if !yield(item, nil) {
					return
				}
			}
		})
		if (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
