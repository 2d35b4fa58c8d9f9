package registryclient_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	byAnn = registryclient.ChangeSetWrite{Author: "ann", Note: "why"}
	cart  = script.Name{Tenant: "acme", Script: "cart"}
)

func TestChangeSets(t *testing.T) {
	s := newTruth(t)
	c, ctx := s.client, t.Context()
	tested := &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "answers"}}}}
	one := registryclient.ChangeSetRequest{
		Tenant: "acme", Name: "one", ChangeSetWrite: byAnn,
		Scripts: []registryclient.PublishRequest{{Name: cart, Source: []byte("return 1"), Settings: tested}},
		Values:  []registryclient.ValueContent{{Key: beta.Key, Content: []byte("[]")}},
	}
	s.lose(1) // and sent again: it has happened once
	got, err := c.PublishChangeSet(ctx, one)
	if err != nil || got.Set.State != script.ChangeSetOnTrial || got.Set.FullName() != "acme/one" || got.Set.Author != "ann" || len(got.Releases) != 1 ||
		!got.Releases[0].Candidate.Is(&script.Membership{Name: "one", Attempt: got.Set.Attempt}) || s.sent.Swap(0) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, staged := got.Releases[0].Candidate.Set.Staged(beta.Key); !staged {
		t.Errorf("the candidate reads no staged value: %+v", got.Releases[0].Candidate.Set)
	}
	if set, err := c.ChangeSet(ctx, "acme", "one"); err != nil || set.Revision != got.Set.Revision {
		t.Errorf("%+v, %v", set, err)
	}
	back, err := c.RollbackChangeSet(ctx, "acme", "one", byAnn)
	if err != nil || !back.Changed || back.Set.State != script.ChangeSetFailed || back.Releases[0].Candidate.Failed == "" {
		t.Errorf("%+v, %v", back, err)
	}
	sets, unreadable, err := c.ChangeSets(ctx, "acme")
	if err != nil || len(sets) != 1 || len(unreadable) != 0 || sets[0].State != script.ChangeSetFailed {
		t.Errorf("%+v, %v, %v", sets, unreadable, err)
	}
	if _, err := c.ChangeSet(ctx, "acme", "none"); script.KindOf(err) != script.NotFound {
		t.Errorf("of none: %v", err)
	}
}

// TestNoPlan: a plan without steps is another than none, which leaves the choice to the scripts.
func TestNoPlan(t *testing.T) {
	s := newTruth(t)
	request := registryclient.ChangeSetRequest{
		Tenant: "acme", Name: "one", ChangeSetWrite: byAnn, DryRun: true,
		Scripts: []registryclient.PublishRequest{{Name: cart, Source: []byte("return 1"), Settings: &script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 10}}}}}},
	}
	if got, err := s.client.PublishChangeSet(t.Context(), request); err != nil || got.Set.State != script.ChangeSetOnTrial {
		t.Errorf("with the plan of the script: %+v, %v", got, err)
	}
	request.Plan = &script.Plan{}
	if got, err := s.client.PublishChangeSet(t.Context(), request); err != nil || got.Set.State != script.ChangeSetLive {
		t.Errorf("without: %+v, %v", got, err)
	}
}

// TestHeldMember: route is held in newTruth.
func TestHeldMember(t *testing.T) {
	s := newTruth(t)
	request := registryclient.ChangeSetRequest{
		Tenant: "acme", Name: "one", ChangeSetWrite: byAnn, Scripts: []registryclient.PublishRequest{{Name: route, Source: []byte("return 4")}},
	}
	_, err := s.client.PublishChangeSet(t.Context(), request)
	if e := script.AsError(err); e == nil || e.Kind != script.Denied || e.Field != script.FieldHold || !strings.Contains(e.Message, "--lift-hold") {
		t.Errorf("%v", err)
	}
	request.LiftHold = true
	s.lose(1) // and sent again: it has happened once
	got, err := s.client.PublishChangeSet(t.Context(), request)
	if err != nil || got.Releases[0].Hold != nil || got.Releases[0].Active.Number != 4 {
		t.Errorf("with its hold lifted: %+v, %v", got, err)
	}
}

// TestChangeSetsOfAnOlderRegistry: the error says what to upgrade.
func TestChangeSetsOfAnOlderRegistry(t *testing.T) {
	c := dialOlder(t)
	if _, err := c.PublishChangeSet(t.Context(), registryclient.ChangeSetRequest{Tenant: "acme", Name: "one", ChangeSetWrite: byAnn}); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "upgrade it") {
		t.Errorf("%v", err)
	}
	if _, _, err := c.ChangeSets(t.Context(), "acme"); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "upgrade it") {
		t.Errorf("%v", err)
	}
}
