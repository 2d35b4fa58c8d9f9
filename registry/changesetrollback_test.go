package registry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// interrupted is a store where something happens once a record of a change set was read.
type interrupted struct {
	registry.Store
	then func()
}

func (s *interrupted) ChangeSet(ctx context.Context, tenant, name string) (script.ChangeSet, error) {
	set, err := s.Store.ChangeSet(ctx, tenant, name)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return set, err
}

// TestARollbackOfWhatJustWentLive: a change set that goes live while its rollback looks at it is rolled back.
func TestARollbackOfWhatJustWentLive(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	b.publishSet(changeSet("cart", "b", &inStep.Rollout, "one"))
	other := registry.New(registry.Config{
		Engines: map[string]engine.Checker{"lua": b.checker},
		Store: &interrupted{b.store, func() {
			if err := b.steerNamed("one", registry.Promote); err != nil {
				t.Fatal(err)
			}
		}},
	})
	result, err := other.RollbackChangeSet(t.Context(), registry.ChangeSetRollback{Tenant: "acme", Name: "cart", Author: "ann", By: everybody})
	if err != nil || !result.Changed || result.Set.State != script.ChangeSetRolledBack {
		t.Errorf("%+v, %v", result, err)
	}
	if r, err := b.Get(t.Context(), everybody, named("one")); err != nil || r.Active.Number != 1 || b.content("of/cart") != "" {
		t.Errorf("it runs version %d, and the value is %q, %v", r.Active.Number, b.content("of/cart"), err)
	}
}

// TestARollbackOfWhatIsGone says what has become of the change set.
func TestARollbackOfWhatIsGone(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	b.publishSet(changeSet("cart", "b", &inStep.Rollout, "one"))
	b.storeAs("one", "c", nil)
	result, err := b.RollbackChangeSet(t.Context(), registry.ChangeSetRollback{Tenant: "acme", Name: "cart", Author: "ann", By: everybody})
	if err != nil || result.Changed || result.Set.State != script.ChangeSetFailed {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestASignedChangeSet: each of its versions is signed, also one that is made for a value.
func TestASignedChangeSet(t *testing.T) {
	key := keyOf(1)
	b, _ := requiring(t, key)
	request := func(value string, sign ...func(*registry.PublishRequest)) registry.ChangeSetRequest {
		req := changeSet("cart", "b", nil, "one")
		req.Values[0].Content, req.Scripts[0].Settings = []byte(value), tested
		for _, f := range sign {
			f(&req.Scripts[0])
		}
		return req
	}
	_, err := b.PublishChangeSet(t.Context(), request("a"))
	refused(t, "unsigned", err, script.Denied, "signature")
	_, err = b.PublishChangeSet(t.Context(), request("a", signed(t, keyOf(2))))
	refused(t, "by a stranger", err, script.Denied, "signature")
	b.publishSet(request("a", signed(t, key)))
	if err := b.steerNamed("one", registry.Promote); err != nil {
		t.Fatal(err)
	}
	_, err = b.PublishChangeSet(t.Context(), request("other"))
	refused(t, "unsigned, with another value", err, script.Denied, "signature")
	result := b.publishSet(request("other", signed(t, key)))
	if c := result.Releases[0].Candidate; c == nil || c.Version.Number != 2 || c.Version.Signature == "" {
		t.Errorf("%+v", c)
	}
}

// TestWhoMaySteerAChangeSet: a publisher stages, and somebody with the role release decides.
func TestWhoMaySteerAChangeSet(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	publisher := who(t, "pat", "acme", access.Publish)
	req := changeSet("cart", "b", &inStep.Rollout, "one")
	req.By = publisher
	b.publishSet(req)
	for _, how := range []registry.Steering{registry.Promote, registry.Abort, registry.Retry} {
		w := write(named("one"))
		w.By = publisher
		if _, err := b.Steer(t.Context(), registry.SteerRequest{Write: w, Steering: how}); script.KindOf(err) != script.Denied {
			t.Errorf("%s by a publisher without the role release: %v", how, err)
		}
	}
	back := func(by access.Identity) error {
		_, err := b.RollbackChangeSet(t.Context(), registry.ChangeSetRollback{Tenant: "acme", Name: "cart", Author: "ann", By: by, Force: true})
		return err
	}
	stranger := who(t, "eve", "other", access.Admin)
	for what, by := range map[string]access.Identity{"a publisher": publisher, "a reader": who(t, "rea", "acme", access.Read), "a stranger": stranger} {
		if err := back(by); script.KindOf(err) != script.Denied {
			t.Errorf("a rollback by %s: %v", what, err)
		}
	}
	if err := b.steerNamed("one", registry.Promote); err != nil {
		t.Fatal(err)
	}
	if err := back(publisher); script.KindOf(err) != script.Denied {
		t.Errorf("a rollback of a live one by a publisher without the role release: %v", err)
	}
	if _, err := b.ChangeSet(t.Context(), stranger, "acme", "cart"); script.KindOf(err) != script.Denied || strings.Contains(err.Error(), "cart") {
		t.Errorf("a stranger reads: %v", err)
	}
}
