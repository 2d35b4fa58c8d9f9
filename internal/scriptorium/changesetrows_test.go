package scriptorium_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// pairs are change sets of a fleet. A pair is two scripts and a value: NAME-a, NAME-b and NAME. Edition
// n of the scripts returns n and the value, and edition n of the value is n.
type pairs struct{ *canaries }

// request is a change set of the pair's name with that edition, until somebody approves it.
func (p pairs) request(pair string, n int) registryclient.ChangeSetRequest {
	plan := untilApproved()
	req := registryclient.ChangeSetRequest{Tenant: "acme", Name: pair, Plan: &plan, Values: p.value(pair, n), ChangeSetWrite: registryclient.ChangeSetWrite{Author: "ann"}}
	for _, part := range []string{"-a", "-b"} {
		req.Scripts = append(req.Scripts, p.script(pair, part, n))
	}
	return req
}

func (p pairs) script(pair, part string, n int) registryclient.PublishRequest {
	return registryclient.PublishRequest{Name: of(pair + part), Source: fmt.Appendf(nil, "function handle() return '%d ' .. kv.get('%s') end -- %s", n, pair, part)}
}

func (p pairs) value(pair string, n int) []registryclient.ValueContent {
	return []registryclient.ValueContent{{Key: pair, Content: fmt.Append(nil, n)}}
}

func (p pairs) publish(req registryclient.ChangeSetRequest) registryclient.ChangeSetResult {
	p.t.Helper()
	result, err := p.client.PublishChangeSet(p.t.Context(), req)
	if err != nil {
		p.t.Fatalf("publish the change set %s: %v", req.Name, err)
	}
	return result
}

// refuses fails the test unless the change set is refused, and its scripts and value stay as they are.
func (p pairs) refuses(req registryclient.ChangeSetRequest, kind script.Kind, says string) {
	p.t.Helper()
	before := p.state(req.Name)
	if _, err := p.client.PublishChangeSet(p.t.Context(), req); script.KindOf(err) != kind || !strings.Contains(err.Error(), says) {
		p.t.Errorf("the change set %s: %v; want %s with %q", req.Name, err, kind, says)
	}
	if after := p.state(req.Name); after != before {
		p.t.Errorf("the change set %s was refused. What it has was %s, and is %s", req.Name, before, after)
	}
}

// state is what the registry has of the pair.
func (p pairs) state(pair string) (state string) {
	for _, part := range []string{"-a", "-b"} {
		r, err := p.client.Get(p.t.Context(), of(pair+part))
		state += fmt.Sprint(part, " ", r.Revision, " ", script.KindOf(err), ", ")
	}
	return state + p.content(pair)
}

// content returns the content of the pair's value, or the kind of the error.
func (p pairs) content(pair string) string {
	_, content, err := p.client.Value(p.t.Context(), script.ValueKey{Tenant: "acme", Key: pair})
	if err != nil {
		return string(script.KindOf(err))
	}
	return string(content)
}

// ready publishes edition 1, which is live.
func (p pairs) ready(pair string) {
	p.t.Helper()
	req := p.request(pair, 1)
	req.Name, req.Plan = pair+"-1", nil
	p.publish(req)
}

// tries publishes edition 2 after edition 1, and waits until the canary runs it.
func (p pairs) tries(pair string) {
	p.t.Helper()
	p.ready(pair)
	p.publish(p.request(pair, 2))
	p.onTrial(pair)
}

func (p pairs) onTrial(pair string) {
	p.t.Helper()
	for _, part := range []string{"-a", "-b"} {
		p.canaries.onTrial(pair+part, 1, 2)
	}
}

// becomes waits until the change set is so.
func (p pairs) becomes(name string, want script.ChangeSetState) (set script.ChangeSet) {
	p.t.Helper()
	await(p.t, fmt.Sprintf("the change set %s is %s", name, want), func() bool {
		var err error
		set, err = p.client.ChangeSet(p.t.Context(), "acme", name)
		return err == nil && set.State == want
	})
	return set
}

// answer waits until both scripts answer so on all agents, and compares the value.
func (p pairs) answer(pair, a, b, value string) {
	p.t.Helper()
	for agent := range p.agents {
		p.answersTo(agent, of(pair+"-a"), a)
		p.answersTo(agent, of(pair+"-b"), b)
	}
	if got := p.content(pair); got != value {
		p.t.Errorf("the value %s is %s, want %s", pair, got, value)
	}
}

// put writes the value by itself.
func (p pairs) put(pair, content string) {
	p.t.Helper()
	if _, _, err := p.client.PutValue(p.t.Context(), script.ValueKey{Tenant: "acme", Key: pair}, []byte(content), registryclient.DataWrite{Author: "bob"}); err != nil {
		p.t.Fatal(err)
	}
}

func (p pairs) rollback(name string, force bool) error {
	_, err := p.client.RollbackChangeSet(p.t.Context(), "acme", name, registryclient.ChangeSetWrite{Author: "bob", Note: "too slow", Force: force})
	return err
}

func (p pairs) mustRollback(name string, force bool) {
	p.t.Helper()
	if err := p.rollback(name, force); err != nil {
		p.t.Fatal(err)
	}
}

// TestChangesDuringAChangeSet: what each change does to a change set on trial, to one that is live and to
// one that was given up.
func TestChangesDuringAChangeSet(t *testing.T) {
	needs.Time(t, "starts four processes")
	needs.NoRace(t)
	t.Parallel()
	p := pairs{startGated(t, 2, "")}
	t.Run("the same again", p.sameAgain)
	t.Run("one script alone", p.oneAlone)
	t.Run("a test fails", p.testFails)
	t.Run("the candidate of one", p.steersOne)
	t.Run("what equals", p.equals)
	t.Run("the same name", p.sameName)
	t.Run("a value is written", p.valueIsWritten)
	t.Run("a new script", p.newScript)
	t.Run("staged", p.staged)
	t.Run("refused", p.refused)
	t.Run("rollback", p.rollsBack)
	t.Run("changed since", p.changedSince)
	t.Run("frozen", p.whileFrozen)
}

// in is the pairs for a part of the test.
func (p pairs) in(t *testing.T) pairs {
	t.Helper()
	m, c := *p.mistaken, *p.canaries
	m.t, c.mistaken = t, &m
	return pairs{&c}
}

func (p pairs) sameAgain(t *testing.T) {
	p = p.in(t)
	unchanged := func() {
		t.Helper()
		before := p.state("again")
		if result := p.publish(p.request("again", 2)); result.Changed || p.state("again") != before {
			t.Errorf("published again, it changes %+v", result)
		}
	}
	p.tries("again")
	unchanged()
	p.steer("again-a", registryclient.Abort)
	failed := p.becomes("again", script.ChangeSetFailed)
	if result := p.publish(p.request("again", 2)); !result.Changed || result.Set.Attempt == failed.Attempt {
		t.Errorf("after it failed: %+v", result)
	}
	p.onTrial("again")
	p.steer("again-a", registryclient.Promote)
	p.becomes("again", script.ChangeSetLive)
	unchanged()
}

func (p pairs) oneAlone(t *testing.T) {
	p = p.in(t)
	p.tries("alone")
	p.publishes("alone-a", 3, func(r *registryclient.PublishRequest) { r.Source = p.script("alone", "-a", 3).Source })
	p.becomes("alone", script.ChangeSetFailed)
	p.live("alone-a", 3)
	p.fails("alone-b")
	p.answer("alone", "3 1", "1 1", "1")
}

func (p pairs) testFails(t *testing.T) {
	p = p.in(t)
	p.ready("fails")
	req := p.request("fails", 2)
	req.Scripts[1].Settings = &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "the value", Expect: []byte(`"2 3"`)}}}}
	p.publish(req)
	if set := p.becomes("fails", script.ChangeSetFailed); !strings.HasSuffix(set.Reason, `tests[the value]: want "2 3", got "2 2"`) {
		t.Errorf("it failed because of %s", set.Reason)
	}
	p.fails("fails-a")
	p.answer("fails", "1 1", "1 1", "1")
}

func (p pairs) steersOne(t *testing.T) {
	p = p.in(t)
	p.tries("steered")
	p.steer("steered-a", registryclient.Abort)
	p.becomes("steered", script.ChangeSetFailed)
	p.fails("steered-b")
	p.answer("steered", "1 1", "1 1", "1")
	p.steer("steered-b", registryclient.Retry)
	p.becomes("steered", script.ChangeSetOnTrial)
	p.onTrial("steered")
	p.steer("steered-a", registryclient.Approve)
	p.oneRevision("steered", p.becomes("steered", script.ChangeSetLive))
	p.answer("steered", "2 2", "2 2", "2")
	p.tries("promoted")
	p.steer("promoted-b", registryclient.Promote)
	p.oneRevision("promoted", p.becomes("promoted", script.ChangeSetLive))
	p.answer("promoted", "2 2", "2 2", "2")
}

// oneRevision fails the test unless all of the change set is of one transaction.
func (p pairs) oneRevision(pair string, set script.ChangeSet) {
	p.t.Helper()
	v, _, err := p.client.Value(p.t.Context(), script.ValueKey{Tenant: "acme", Key: pair})
	if err != nil || v.Revision != set.Revision {
		p.t.Errorf("the change set is of revision %d, and the value of %d, %v", set.Revision, v.Revision, err)
	}
	for _, name := range set.ScriptNames() {
		if r, err := p.client.Get(p.t.Context(), name); err != nil || r.Revision != set.Revision {
			p.t.Errorf("the change set is of revision %d, and %s of %d, %v", set.Revision, name, r.Revision, err)
		}
	}
}

func (p pairs) equals(t *testing.T) {
	p = p.in(t)
	p.ready("equal")
	req := p.request("equal", 1)
	req.Plan, req.Scripts[0] = nil, p.script("equal", "-a", 2)
	if set := p.publish(req).Set; len(set.Scripts) != 1 || set.Scripts[0].Name != "equal-a" || len(set.Values) != 0 || set.State != script.ChangeSetLive {
		t.Errorf("the change set is %+v", set)
	}
	p.answer("equal", "2 1", "1 1", "1")

	p.ready("value")
	req = p.request("value", 1)
	req.Values = p.value("value", 2)
	p.publish(req)
	p.onTrial("value")
	for _, part := range []string{"-a", "-b"} {
		r := p.is("value"+part, "has a candidate", func(r *script.Release) bool { return r.Candidate != nil })
		if r.Candidate.Version.Digest != r.Active.Digest {
			t.Errorf("the candidate of %s has another source", r.Name)
		}
		p.answersTo(p.runs(&r), r.Name, "1 2")
	}
	p.steer("value-a", registryclient.Approve)
	p.becomes("value", script.ChangeSetLive)
	p.answer("value", "1 2", "1 2", "2")
}

// runs is the agent that runs the candidate.
func (p pairs) runs(r *script.Release) (canary string) {
	p.t.Helper()
	for agent := range p.agents {
		if r.RunsOn(script.Agent{Name: agent}).Number == r.Candidate.Version.Number {
			canary = agent
		}
	}
	return canary
}

func (p pairs) sameName(t *testing.T) {
	p = p.in(t)
	p.tries("named")
	other := p.request("named", 2)
	other.Scripts = []registryclient.PublishRequest{p.script("named", "-c", 1)}
	p.refuses(other, script.Conflict, "is on trial with other scripts (acme/named-a, acme/named-b)")
	other.Scripts = []registryclient.PublishRequest{p.script("named", "-a", 3)}
	p.publish(other)
	p.fails("named-b")
	p.canaries.onTrial("named-a", 1, 3)
	p.steer("named-a", registryclient.Approve)
	p.becomes("named", script.ChangeSetLive)
	p.answer("named", "3 2", "1 2", "2")
}

func (p pairs) valueIsWritten(t *testing.T) {
	p = p.in(t)
	for pair, tt := range map[string]struct {
		write func(pair string)
		is    string // the value then
	}{
		"written": {func(pair string) { p.put(pair, "9") }, "9"},
		"deleted": {func(pair string) {
			if _, err := p.client.DeleteValue(t.Context(), script.ValueKey{Tenant: "acme", Key: pair}, registryclient.DataWrite{Author: "bob"}); err != nil {
				t.Fatal(err)
			}
		}, string(script.NotFound)},
		"by-another": {func(pair string) {
			p.publish(registryclient.ChangeSetRequest{Tenant: "acme", Name: "another", Values: p.value(pair, 9), ChangeSetWrite: registryclient.ChangeSetWrite{Author: "bob"}})
		}, "9"},
	} {
		p.tries(pair)
		tt.write(pair)
		if got := p.content(pair); got != tt.is {
			t.Errorf("the value %s is %s, want %s", pair, got, tt.is)
		}
		p.steer(pair+"-a", registryclient.Approve)
		p.becomes(pair, script.ChangeSetLive)
		p.answer(pair, "2 2", "2 2", "2")
		p.mustRollback(pair, false)
		await(t, "the value is as before", func() bool { return p.content(pair) == tt.is })
	}
}

func (p pairs) newScript(t *testing.T) {
	p = p.in(t)
	req := p.request("new", 2)
	req.Scripts = append(req.Scripts, p.script("new", "-c", 2))
	fails := &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "the value", Expect: []byte(`"2 3"`)}}}}
	p.ready("new")
	req.Scripts[2].Settings = fails
	p.publish(req)
	if set := p.becomes("new", script.ChangeSetFailed); !strings.Contains(set.Reason, "tests[the value]") {
		t.Errorf("its tests do not run: %s", set.Reason)
	}
	passes := p.script("new", "-c", 2)
	passes.Settings = &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "the value", Expect: []byte(`"2 2"`)}}}}
	req.Scripts[2] = passes
	p.publish(req)
	p.onTrial("new")
	for agent := range p.agents {
		if kind := p.fault(agent, "new-c"); kind != script.Disabled {
			t.Errorf("%s answers a script that is new with %q", agent, kind)
		}
	}
	p.steer("new-a", registryclient.Approve)
	p.becomes("new", script.ChangeSetLive)
	p.answer("new", "2 2", "2 2", "2")
	for agent := range p.agents {
		p.answersTo(agent, of("new-c"), "2 2")
	}
	p.mustRollback("new", false)
	p.oneRevision("new", p.becomes("new", script.ChangeSetRolledBack))
	p.answer("new", "1 1", "1 1", "1")
	for agent := range p.agents {
		await(t, "what was new is disabled", func() bool { return p.fault(agent, "new-c") == script.Disabled })
	}
	for _, part := range []string{"-a", "-b"} {
		if r := p.is("new"+part, "is there", func(*script.Release) bool { return true }); r.Hold == nil || r.Candidate != nil {
			t.Errorf("%s has the hold %v, and the candidate %+v", r.Name, r.Hold, r.Candidate)
		}
	}
}

// staged: calls of the candidates read what is staged, and no others do.
func (p pairs) staged(t *testing.T) {
	p = p.in(t)
	reader := p.script("staged", "-reader", 5)
	p.ready("staged")
	p.publishes("staged-reader", 1, func(r *registryclient.PublishRequest) { r.Source = reader.Source })
	p.publish(p.request("staged", 2))
	p.onTrial("staged")
	for _, part := range []string{"-a", "-b"} {
		r := p.canaries.onTrial("staged"+part, 1, 2)
		canary := p.runs(&r)
		for agent := range p.agents {
			want := "1 1"
			if agent == canary {
				want = "2 2"
			}
			p.answersTo(agent, r.Name, want)
			p.answersTo(agent, reader.Name, "5 1")
		}
	}
	if got := p.content("staged"); got != "1" {
		t.Errorf("the value is %s", got)
	}
}
