package rpc_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
)

func member(name, source string, settings *scriptv1.Settings) *registryv1.PublishRequest {
	return &registryv1.PublishRequest{Name: name, Source: []byte(source), Settings: settings}
}

// TestChangeSets: a change set there and back, at once and on trial.
func TestChangeSets(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	one := &registryv1.PublishChangeSetRequest{
		Tenant: "acme", Name: "one", Author: "ann", Note: "why",
		Scripts: []*registryv1.PublishRequest{member("route", "one", nil), member("cart", "one", nil)},
		Values:  []*registryv1.StagedContent{{Key: "flags", Content: []byte("on")}},
	}
	got, err := b.PublishChangeSet(ctx, one)
	if err != nil || !got.GetChanged() || got.GetChangeSet().GetState() != "Live" || len(got.GetReleases()) != 2 || got.GetReleases()[0].GetName() != "route" ||
		got.GetReleases()[0].GetRevision() != got.GetReleases()[1].GetRevision() || len(got.GetChangeSet().GetScripts()) != 2 || got.GetChangeSet().GetValues()[0].GetVersion() != 1 {
		t.Fatalf("at once: %v, %v", got, err)
	}
	if again, err := b.PublishChangeSet(ctx, one); err != nil || again.GetChanged() || again.GetChangeSet().GetRevision() != got.GetChangeSet().GetRevision() {
		t.Errorf("again: %v, %v", again, err)
	}

	tested := &scriptv1.Settings{Tests: []*scriptv1.Test{{Name: "answers"}}}
	two := &registryv1.PublishChangeSetRequest{
		Tenant: "acme", Name: "two", Author: "ann", DryRun: true,
		Scripts: []*registryv1.PublishRequest{member("route", "two", tested)},
		Values:  []*registryv1.StagedContent{{Key: "flags", Content: []byte("off")}},
		Plan:    &scriptv1.Plan{Steps: []*scriptv1.Step{{Selector: map[string]string{"zone": "a"}}, {Percent: 50}}},
	}
	dry, err := b.PublishChangeSet(ctx, two)
	if err != nil || !dry.GetChanged() || dry.GetChangeSet().GetState() != "OnTrial" || len(dry.GetWarnings()) != 1 || !strings.Contains(dry.GetWarnings()[0], "zone=a") {
		t.Errorf("a dry run: %v, %v", dry, err)
	}
	if _, err := b.GetChangeSet(ctx, &registryv1.GetChangeSetRequest{Tenant: "acme", Name: "two"}); status.Code(err) != codes.NotFound {
		t.Errorf("after a dry run: %v", err)
	}
	two.DryRun = false
	trial, err := b.PublishChangeSet(ctx, two)
	if c := trial.GetReleases()[0].GetCandidate(); err != nil || c.GetSet().GetName() != "two" || c.GetSet().GetValues()[0].GetKey() != "flags" || len(c.GetSet().GetPlan().GetSteps()) != 2 {
		t.Errorf("on trial: %v, %v", trial, err)
	}
	listed, err := b.ListChangeSets(ctx, &registryv1.ListChangeSetsRequest{Tenant: "acme"})
	var states []string
	for _, s := range listed.GetChangeSets() {
		states = append(states, s.GetName()+" "+s.GetState())
	}
	if err != nil || fmt.Sprint(states) != "[one Live two OnTrial]" {
		t.Errorf("listed: %v, %v", states, err)
	}
	back, err := b.RollbackChangeSet(ctx, &registryv1.RollbackChangeSetRequest{Tenant: "acme", Name: "two", Author: "eve", Note: "carts"})
	if err != nil || !back.GetChanged() || back.GetChangeSet().GetState() != "Failed" || !strings.Contains(back.GetChangeSet().GetReason(), "eve: carts") {
		t.Errorf("given up: %v, %v", back, err)
	}
	value, err := b.GetValue(ctx, &registryv1.GetValueRequest{Tenant: "acme", Key: "flags"})
	if err != nil || string(value.GetContent()) != "on" {
		t.Errorf("the value: %v, %v", value, err)
	}
}

// TestChangeSetErrors: what is wrong is said with its field, and with its script.
func TestChangeSetErrors(t *testing.T) {
	b := newBench(t)
	b.publish(t, "held", "one")
	if _, err := b.Pin(t.Context(), &registryv1.PinRequest{Tenant: "acme", Name: "held", Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*registryv1.PublishChangeSetRequest)
		code   codes.Code
		field  string
		says   string
	}{
		"no name":   {func(m *registryv1.PublishChangeSetRequest) { m.Name = "" }, codes.InvalidArgument, "name", ""},
		"no author": {func(m *registryv1.PublishChangeSetRequest) { m.Author = "" }, codes.InvalidArgument, "author", ""},
		"nothing":   {func(m *registryv1.PublishChangeSetRequest) { m.Scripts = nil }, codes.InvalidArgument, "scripts", "missing"},
		"broken":    {func(m *registryv1.PublishChangeSetRequest) { m.Scripts[0].Source = []byte("broken") }, codes.Aborted, "source", "acme/route: unexpected symbol"},
		"settings": {func(m *registryv1.PublishChangeSetRequest) {
			m.Scripts[0].Settings = &scriptv1.Settings{Tests: []*scriptv1.Test{{Name: ""}}}
		}, codes.InvalidArgument, "settings.tests[0].name", "acme/route: "},
		"plan": {func(m *registryv1.PublishChangeSetRequest) {
			m.Plan = &scriptv1.Plan{Steps: []*scriptv1.Step{{Percent: 100}}}
		}, codes.InvalidArgument, "plan.steps[0].percent", ""},
		"tenant": {func(m *registryv1.PublishChangeSetRequest) { m.Scripts[0].Tenant = "other" }, codes.InvalidArgument, "scripts[0].tenant", "other/route"},
		"held":   {func(m *registryv1.PublishChangeSetRequest) { m.Scripts[0].Name = "held" }, codes.PermissionDenied, "hold", "publish it with --lift-hold"},
	} {
		m := &registryv1.PublishChangeSetRequest{Tenant: "acme", Name: "set", Author: "ann", Scripts: []*registryv1.PublishRequest{member("route", "one", nil)}}
		test.change(m)
		_, err := b.PublishChangeSet(t.Context(), m)
		if e := detail(t, err); status.Code(err) != test.code || e.GetField() != test.field || !strings.Contains(e.GetMessage(), test.says) {
			t.Errorf("%s: %v at %q, want %v at %q", name, err, e.GetField(), test.code, test.field)
		}
	}
	lifted, err := b.PublishChangeSet(t.Context(), &registryv1.PublishChangeSetRequest{
		Tenant: "acme", Name: "set", Author: "ann", LiftHold: true, Scripts: []*registryv1.PublishRequest{member("held", "two", nil)},
	})
	if r := lifted.GetReleases()[0]; err != nil || r.GetHold() != nil || r.GetActive().GetNumber() != 2 {
		t.Errorf("lifted: %v, %v", r, err)
	}
	if _, err := b.RollbackChangeSet(t.Context(), &registryv1.RollbackChangeSetRequest{Tenant: "acme", Name: "none", Author: "ann"}); status.Code(err) != codes.NotFound {
		t.Errorf("a rollback of none: %v", err)
	}
}
