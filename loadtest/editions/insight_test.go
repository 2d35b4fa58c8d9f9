package editions_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// recorded publishes a version that returns the number, and whose calls are recorded.
func (r *registry) recorded(number int) {
	r.t.Helper()
	_, err := r.Publish(r.t.Context(), registryclient.PublishRequest{
		Name: route, Source: fmt.Appendf(nil, "function handle() return %d end", number), Write: byAnn,
		Settings: &script.Settings{Spec: script.Spec{Decisions: &script.Decisions{Sample: 1}}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// strict makes the audit of acme strict.
func (r *registry) strict() {
	r.t.Helper()
	if _, _, err := r.SetTenant(r.t.Context(), "acme", &script.TenantSettings{Audit: script.AuditStrict}, byBob); err != nil {
		r.t.Fatal(err)
	}
}

// collected returns all that a list yields, in words.
func collected[T any](t *testing.T, list iter.Seq2[T, error]) (lines []string) {
	t.Helper()
	for x, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%+v", x))
	}
	return lines
}

// told is what the registry tells of the past of acme: the history of acme/route, and the audit trail.
func (r *registry) told() []string {
	r.t.Helper()
	history, err := r.History(r.t.Context(), route)
	if err != nil {
		r.t.Fatal(err)
	}
	audit := collected(r.t, r.Audit(r.t.Context(), registryclient.AuditFilter{Name: script.Name{Tenant: "acme"}}))
	return append(audit, fmt.Sprintf("%+v", history))
}

// source returns what is kept of a version of acme/route.
func (r *registry) source(number uint64) script.Edition {
	r.t.Helper()
	e, err := r.Source(r.t.Context(), script.Ref{Name: route, Version: number})
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// trouble waits until this is the trouble of agents that the registry names.
func (r *registry) trouble(want ...string) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("the troubled agents are %q", want), func() error {
		var got []string
		for a, err := range r.Agents(r.t.Context(), true) {
			if err != nil {
				return err
			}
			got = append(got, fmt.Sprintf("%s %d %v", a.Name, a.Failed, a.Failures))
			for _, f := range a.Failures {
				got[len(got)-1] = fmt.Sprintf("%s: %s: %v", a.Name, f.Name, f.Err)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

// TestInsightBesideAnOlderEditionReadsItsData: a registry of this edition has the scripts, the history and the audit
// trail of the one before, and its timeline begins with them.
func TestInsightBesideAnOlderEditionReadsItsData(t *testing.T) {
	w := start(t)
	old := w.registry(older)
	a := w.agent(older, "a", old)
	old.publish(route, 1, script.Plan{})
	old.publish(route, 2, script.Plan{})
	w.answers(a, "2")
	old.put("on")
	if _, _, err := old.SetTenant(t.Context(), "acme", &script.TenantSettings{Concurrency: 7}, byBob); err != nil {
		t.Fatal(err)
	}
	if _, _, err := old.SetEnabled(t.Context(), route, false, byAnn); err != nil {
		t.Fatal(err)
	}
	before := old.told()
	old.stop()

	r := w.registry(newer)
	r.leads()
	if got := r.told(); !slices.Equal(got, before) {
		t.Errorf("the past is\n%q, want\n%q", got, before)
	}
	var events []string
	for e, err := range r.Events(t.Context(), registryclient.EventFilter{Name: script.Name{Tenant: "acme"}}) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, fmt.Sprint(e.Type, " ", e.What, " ", e.Script, e.Key, " ", e.Author))
	}
	want := []string{"publish disable route ann", "tenant settenant  bob", "value put beta bob", "publish publish route ann", "publish publish route ann"}
	if !slices.Equal(events, want) {
		t.Errorf("the timeline is %q, want %q", events, want)
	}
	if e := r.source(1); string(e.Source) != "function handle() return 1 end" {
		t.Errorf("version 1 is %q", e.Source)
	}
	r.recorded(3)
	if _, _, err := r.SetEnabled(t.Context(), route, true, byAnn); err != nil {
		t.Fatal(err)
	}
	w.answers(a, "3")
}

// TestInsightBesideAnOlderEditionAgents: an agent of the edition before runs a version whose calls are recorded, and
// records none. If the tenant's audit is strict, the registry says that such an agent is in trouble, until it is upgraded.
func TestInsightBesideAnOlderEditionAgents(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	r.recorded(1)
	w.answers(a, "1")
	r.converged(route)
	if got := answer(t.Context(), b); got != "1" {
		t.Errorf("the newer agent answers %s", got)
	}
	r.trouble()

	const why = "acme/tenant:settings: audit: the audit of the tenant is strict, and the agent answers its calls without a record: upgrade agentd"
	r.strict()
	r.trouble("a: " + why)
	c := w.agent(older, "c", r)
	r.trouble("a: "+why, "c: "+why)
	w.answers(c, "1") // docs/operating.md says so
	w.answers(a, "1")

	w.nodes["c"].stop()
	w.nodes["a"].stop()
	a = w.agent(newer, "a", r)
	r.trouble()
	w.answers(a, "1")
	if text, err := os.ReadFile(filepath.Join(w.dir, "a", decisions)); err != nil || len(text) == 0 {
		t.Errorf("the upgraded agent has no record: %v", err)
	}
}

// TestInsightBesideAnOlderEditionOfTheRegistry: an agent of this edition starts and serves under a registry of the one
// before, which leaves out which calls are recorded.
func TestInsightBesideAnOlderEditionOfTheRegistry(t *testing.T) {
	w := start(t)
	old := w.registry(older)
	a := w.agent(newer, "a", old)
	old.recorded(1)
	w.answers(a, "1")
	old.strict()
	old.publish(route, 2, script.Plan{})
	w.answers(a, "2")
	old.converged(route)
	old.trouble()
	if e := old.source(1); e.Spec.Decisions != nil {
		t.Errorf("it keeps %v", e.Spec.Decisions)
	}
	if settings, err := old.Tenant(t.Context(), "acme"); err != nil || settings.Settings.Audit != "" {
		t.Errorf("the audit is %q, %v", settings.Settings.Audit, err)
	}
	// The agent keeps what it has while no registry is there, and takes up the next one.
	old.stop()
	w.nodes["a"].stop()
	a = w.agent(newer, "a")
	w.answers(a, "2")
	r := w.registry(newer)
	r.recorded(3)
	w.answers(a, "3")
	r.converged(route)
}

// TestInsightBesideAnOlderEditionGoingBack: a registry of the edition before serves what one of this edition has
// written, also to agents of both editions, and loses nothing of it.
func TestInsightBesideAnOlderEditionGoingBack(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	r.leads()
	a := w.agent(newer, "a", r)
	r.recorded(1)
	r.recorded(2)
	r.put("on")
	r.strict()
	w.answers(a, "2")
	r.converged(route)
	before, first := r.told(), r.source(1)
	r.stop()

	old := w.registry(older)
	old.leads()
	b := w.agent(older, "b", old)
	w.answers(b, "2")
	w.answers(a, "2")
	if got := old.told(); !slices.Equal(got, before) {
		t.Errorf("the past is\n%q, want\n%q", got, before)
	}
	if e := old.source(1); string(e.Source) != string(first.Source) || old.content() != "on" {
		t.Errorf("version 1 is %q, the value %q", e.Source, old.content())
	}
	for f, err := range old.Doctor(t.Context(), registryclient.DoctorOptions{}) {
		t.Errorf("the doctor finds %+v, %v", f, err)
	}
	old.publish(lib, 1, script.Plan{})
	w.answersTo(a, lib.String(), "1")
	w.answersTo(b, lib.String(), "1")
	old.stop()

	r = w.registry(newer)
	r.leads()
	if got := r.told(); !slices.Equal(got[len(got)-len(before):], before) {
		t.Errorf("after the upgrade the past is\n%q, want\n%q", got, before)
	}
	for version := range uint64(2) {
		if e := r.source(version + 1); !e.Spec.Decisions.Equal(&script.Decisions{Sample: 1}) {
			t.Errorf("version %d records %v", version+1, e.Spec.Decisions)
		}
	}
	if settings, err := r.Tenant(t.Context(), "acme"); err != nil || settings.Settings.Audit != script.AuditStrict {
		t.Errorf("the audit is %q, %v", settings.Settings.Audit, err)
	}
	for f, err := range r.Doctor(t.Context(), registryclient.DoctorOptions{}) {
		t.Errorf("after the upgrade the doctor finds %+v, %v", f, err)
	}
}
