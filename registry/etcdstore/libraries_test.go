package etcdstore_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// shop is a registry over etcd, with the engine that registries have.
type shop struct {
	*registry.Registry
	t *testing.T
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return &shop{registry.New(registry.Config{Store: open(t, "/"+rand.Text()), Engines: map[string]engine.Checker{"lua": lua.New()}}), t}
}

func in(tenant, name string) script.Name { return script.Name{Tenant: tenant, Script: name} }

func (s *shop) try(name script.Name, source string, spec script.Spec) (registry.PublishResult, error) {
	return s.Publish(s.t.Context(), registry.PublishRequest{
		Write:  registry.Write{Name: name, Author: "ann", By: access.Everybody("unix")},
		Source: []byte(source), Entrypoint: registry.DefaultEntrypoint, Settings: &script.Settings{Spec: spec},
	})
}

func (s *shop) publish(name script.Name, source string, spec script.Spec) registry.PublishResult {
	s.t.Helper()
	result, err := s.try(name, source, spec)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	return result
}

var library = script.Spec{Library: true}

const user = `local l = require("acme/lib") function handle() return l end`

// libraries returns what the version of acme/route has.
func (s *shop) libraries(number uint64) string {
	s.t.Helper()
	e, err := s.Source(s.t.Context(), access.Everybody("unix"), in("acme", "route"), number)
	if err != nil {
		s.t.Fatal(err)
	}
	var texts []string
	for _, l := range e.Spec.Libraries {
		texts = append(texts, fmt.Sprintf("%s=%s", l, l.Source))
	}
	return strings.Join(texts, " ")
}

// TestLibrariesArePinned: a version has the libraries that were active when it was published, and keeps them, whatever
// becomes of these.
func TestLibrariesArePinned(t *testing.T) {
	s := newShop(t)
	s.publish(in("acme", "base"), "return 1", library)
	s.publish(in("acme", "lib"), `return require("acme/base")`, library)
	first := s.publish(in("acme", "route"), user, script.Spec{})
	const pinned = `acme/base v1=return 1 acme/lib v1=return require("acme/base")`
	if got := s.libraries(1); got != pinned || len(first.Libraries) != 2 {
		t.Errorf("got %s", got)
	}
	s.publish(in("acme", "base"), "return 2", library)
	if got := s.libraries(1); got != pinned {
		t.Errorf("a publish of a library has changed a script: %s", got)
	}
	again := s.publish(in("acme", "route"), user, script.Spec{})
	if !again.Changed || again.Version.Number != 2 || s.libraries(2) != `acme/base v2=return 2 acme/lib v1=return require("acme/base")` {
		t.Errorf("published again: v%d, %s", again.Version.Number, s.libraries(2))
	}
	if same := s.publish(in("acme", "route"), user, script.Spec{}); same.Changed {
		t.Error("without another library, publishing again made a version")
	}
	by := registry.Write{Author: "ann", By: access.Everybody("unix")}
	for _, name := range []string{"base", "lib"} {
		by.Name = in("acme", name)
		if _, err := s.Delete(t.Context(), registry.DeleteRequest{Write: by}); err != nil {
			t.Fatal(err)
		}
	}
	by.Name = in("acme", "route")
	back, err := s.Rollback(t.Context(), registry.RollbackRequest{Write: by})
	if err != nil || back.Release.Active.Number != 1 || !strings.HasPrefix(script.Library.String(back.Release.Settings.Libraries[0]), "acme/base v1") {
		t.Errorf("rolled back: %v, %+v", err, back.Release.Settings.Libraries)
	}
}

// TestLibrariesAreRefused: each refusal says what to do.
func TestLibrariesAreRefused(t *testing.T) {
	s := newShop(t)
	s.publish(in("acme", "plain"), "function handle() end", script.Spec{})
	s.publish(in("other", "lib"), "return 1", library)
	s.publish(in("acme", "x"), "return 1", library)
	s.publish(in("acme", "y"), `return require("acme/x")`, library)
	s.publish(in("acme", "tried"), "return 1", library) // and then on trial only
	tests := []script.Test{{Name: "t"}}
	for source, want := range map[string]string{
		`local l = require("acme/lib") function handle() end`:   "there is no library acme/lib: publish it first (line 1)",
		`local l = require("acme/plain") function handle() end`: "acme/plain is no library: set spec.library to true",
		`local l = require("other/lib") function handle() end`:  "the library other/lib is of another tenant",
		`local l = require("cjson") function handle() end`:      `there is no module "cjson"`,
	} {
		if _, err := s.try(in("acme", "route"), source, script.Spec{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", source, err, want)
		}
	}
	for want, try := range map[string]func() error{
		"acme/x requires itself": func() error { _, err := s.try(in("acme", "x"), `return require("acme/y")`, library); return err },
		"settings.tests: a library has none": func() error {
			_, err := s.try(in("acme", "z"), "return 1", script.Spec{Library: true, Tests: tests})
			return err
		},
		"settings.trigger: a library has none": func() error {
			_, err := s.try(in("acme", "z"), "return 1", script.Spec{Library: true, Trigger: script.Trigger{Event: "pre-route"}})
			return err
		},
		"the library returns nothing": func() error { _, err := s.try(in("acme", "z"), "local M = {}", library); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// What a client says of libraries counts for nothing.
	lying := script.Spec{Libraries: []script.Library{{Name: in("other", "lib"), Version: 1, Digest: script.DigestOf([]byte("return 1")), Source: "return 1"}}}
	if got := s.publish(in("acme", "route"), "function handle() end", lying); len(got.Release.Settings.Libraries) > 0 {
		t.Errorf("a client's libraries: %+v", got.Release.Settings.Libraries)
	}
}

// TestLibrariesOfOneMoment: a publish that races with changes of two libraries, which are made together, has both or
// none of them.
func TestLibrariesOfOneMoment(t *testing.T) {
	s := newShop(t)
	together := func(n int) {
		source := []byte(fmt.Sprintf("return %d", n))
		req := registry.ChangeSetRequest{Tenant: "acme", Name: "both", Author: "ann", By: access.Everybody("unix")}
		for _, name := range []string{"a", "b"} {
			req.Scripts = append(req.Scripts, registry.PublishRequest{
				Write: registry.Write{Name: in("acme", name)}, Source: source, Entrypoint: registry.DefaultEntrypoint, Settings: &script.Settings{Spec: library},
			})
		}
		if _, err := s.PublishChangeSet(t.Context(), req); err != nil {
			t.Error(err)
		}
	}
	together(0)
	var writers sync.WaitGroup
	writers.Go(func() {
		for n := range 30 {
			together(n + 1)
		}
	})
	for range 30 {
		result, err := s.try(in("acme", "route"), `local a, b = require("acme/a"), require("acme/b") function handle() end`, script.Spec{})
		if script.KindOf(err) == script.Conflict {
			continue // the libraries were published again and again
		}
		if err != nil {
			t.Fatal(err)
		}
		if l := result.Libraries; l[0].Source != l[1].Source {
			t.Errorf("a mix: %+v", l)
		}
	}
	writers.Wait()
}

// TestLibrariesOfAChangeSet: a script has the library that is published with it.
func TestLibrariesOfAChangeSet(t *testing.T) {
	s := newShop(t)
	req := registry.ChangeSetRequest{Tenant: "acme", Name: "both", Author: "ann", By: access.Everybody("unix")}
	req.Scripts = []registry.PublishRequest{
		{Write: registry.Write{Name: in("acme", "route")}, Source: []byte(user), Entrypoint: registry.DefaultEntrypoint, Settings: &script.Settings{}},
		{Write: registry.Write{Name: in("acme", "lib")}, Source: []byte("return 1"), Entrypoint: registry.DefaultEntrypoint, Settings: &script.Settings{Spec: library}},
	}
	for range 2 {
		if _, err := s.PublishChangeSet(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if got := s.libraries(0); got != "acme/lib v1=return 1" {
			t.Errorf("got %s", got)
		}
	}
}

// TestLibrariesAreSigned: a signature covers the libraries, so the registry refuses one that was made of others.
func TestLibrariesAreSigned(t *testing.T) {
	s := newShop(t)
	s.publish(in("acme", "lib"), "return 1", library)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	by, err := publisher.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(spec script.Spec) error {
		v := script.Version{Digest: script.DigestOf([]byte(user)), Engine: "lua", Entrypoint: registry.DefaultEntrypoint}
		signature, err := publisher.Sign(t.Context(), publisher.StatementOf(in("acme", "route"), v, spec), by)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Publish(t.Context(), registry.PublishRequest{
			Write:  registry.Write{Name: in("acme", "route"), Author: "ann", By: access.Everybody("unix")},
			Source: []byte(user), Entrypoint: registry.DefaultEntrypoint, Settings: &script.Settings{}, Signature: signature,
		})
		return err
	}
	seen := script.Spec{Libraries: []script.Library{{Name: in("acme", "lib"), Digest: script.DigestOf([]byte("return 1"))}}}
	if err := signed(seen); err != nil {
		t.Error(err)
	}
	s.publish(in("acme", "lib"), "return 2", library)
	for name, spec := range map[string]script.Spec{"an older library": seen, "no library": {}} {
		if err := signed(spec); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "is of another set of libraries: sign again") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
