package registry_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// sources are gates of acme, by their text.
type sources map[string]bool

func (s sources) Check(field, tenant string, g script.Gate) error {
	if tenant == "acme" && s[g.String()] {
		return nil
	}
	return script.Errorf(script.Invalid, field, "the registry has no gate %s for tenant %s", g, tenant)
}

// asks is a plan whose second step asks the webhook.
func asks(source string) func(*registry.PublishRequest) {
	return settings(script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 1}, {Percent: 2, Gate: script.Gate{Kind: script.Webhook, Source: source}}}}})
}

// TestPublishWithGates: what the registry cannot ask is refused, if a candidate would wait for it.
func TestPublishWithGates(t *testing.T) {
	const field = "settings.rollout.steps[1].gate"
	has := sources{"webhook/ci": true}
	b := &bench{t: t, store: memstore.New(), checker: &checker{}}
	b.Registry = registry.New(registry.Config{Store: b.store, Engines: map[string]engine.Checker{"lua": b.checker}, Gates: has})
	b.publish("1")
	dry := func(r *registry.PublishRequest) { r.DryRun = true }
	for _, also := range [][]func(*registry.PublishRequest){nil, {dry}} {
		_, err := b.tryPublish("2", append(also, asks("other"))...)
		wantKind(t, err, script.Invalid, field)
		_, err = b.tryPublish("1", append(also, asks("other"))...)
		wantKind(t, err, script.Invalid, field)
	}
	b.publish("2", asks("ci"))

	delete(has, "webhook/ci") // the operator removes it
	if again := b.publish("2", asks("ci")); again.Changed {
		t.Error("the same again is a change")
	}
	b.publish("2", asks("ci"), func(r *registry.PublishRequest) { r.Owner = "team" }) // another owner, and the same plan
	owned := func(r *registry.PublishRequest) { r.Owner = "team" }
	_, err := b.tryPublish("3", asks("ci"), owned)
	wantKind(t, err, script.Invalid, field)
	_, err = b.tryPublish("3", owned) // the plan stays what it is
	wantKind(t, err, script.Invalid, field)
	b.publish("3", settings(script.Settings{}), owned)
}

// TestNobodyApprovesAGate: it is asked, and nobody answers in its place.
func TestNobodyApprovesAGate(t *testing.T) {
	b := &bench{t: t, store: memstore.New(), checker: &checker{}}
	b.Registry = registry.New(registry.Config{Store: b.store, Engines: map[string]engine.Checker{"lua": b.checker}, Gates: sources{"webhook/ci": true}})
	b.publish("1")
	b.publish("2", asks("ci"))
	for step := 1; step <= 2; step++ {
		if _, err := b.Advance(t.Context(), registry.AdvanceRequest{Name: route, At: b.get().Revision, Move: registry.Move{Step: step, Threshold: 1 << 30}}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Steer(t.Context(), registry.SteerRequest{Write: write(route), Steering: registry.Approve})
	wantKind(t, err, script.Invalid, "candidate")
	if err == nil || !strings.Contains(err.Error(), "its gate webhook/ci: to go on without the gate, promote the candidate") {
		t.Errorf("%v", err)
	}
}

// TestGatesOfNoRegistry: one that asks nobody takes no plan with gates.
func TestGatesOfNoRegistry(t *testing.T) {
	b := newBench(t)
	_, err := b.tryPublish("1", asks("ci"))
	wantKind(t, err, script.Invalid, "settings.rollout.steps[1].gate")
}
