package editions_test

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fresh is a script that only change sets have.
var fresh = script.Name{Tenant: "acme", Script: "fresh"}

// together publishes a version of each script that returns the number and what it reads of the value,
// which is to be the number.
func (r *registry) together(number int, plan *script.Plan, tested bool, names ...script.Name) registryclient.ChangeSetResult {
	r.t.Helper()
	req := registryclient.ChangeSetRequest{
		Tenant: "acme", Name: fmt.Sprint("set-", number), Plan: plan, ChangeSetWrite: registryclient.ChangeSetWrite{Author: "ann"},
		Values: []registryclient.ValueContent{{Key: beta.Key, Content: fmt.Append(nil, number)}},
	}
	for _, name := range names {
		p := registryclient.PublishRequest{Name: name, Source: fmt.Appendf(nil, "function handle() return {%d, kv.get('beta')} end", number), Settings: &script.Settings{}}
		if tested {
			p.Settings.Tests = []script.Test{{Name: "the value", Expect: fmt.Appendf(nil, `[%d,"%d"]`, number, number)}}
		}
		req.Scripts = append(req.Scripts, p)
	}
	result, err := r.PublishChangeSet(r.t.Context(), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// pair is what scripts of change set n return if the value is m.
func pair(n, m int) string { return fmt.Sprintf(`[%d,"%d"]`, n, m) }

// all waits until all scripts return this on all agents.
func (w *world) all(want string, names []script.Name, agents ...*agentclient.Client) {
	w.t.Helper()
	for _, name := range names {
		for _, a := range agents {
			w.answersTo(a, name.String(), want)
		}
	}
}

// stays fails the test unless all scripts still return this on all agents.
func (w *world) stays(what, want string, names []script.Name, agents ...*agentclient.Client) {
	w.t.Helper()
	for _, name := range names {
		for i, a := range agents {
			if got := answerTo(w.t.Context(), a, name.String()); got != want {
				w.t.Errorf("%s: agent %d of these answers %s with %s, want %s", what, i, name, got, want)
			}
		}
	}
}

// setIs waits until the change set is as wanted.
func (r *registry) setIs(number int, want script.ChangeSetState) (set script.ChangeSet) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("change set %d is %s", number, want), func() (err error) {
		if set, err = r.ChangeSet(r.t.Context(), "acme", fmt.Sprint("set-", number)); err == nil && set.State != want {
			err = fmt.Errorf("it is %+v", set)
		}
		return err
	})
	return set
}

// waitsForOlder waits until the candidate of acme/route waits for the agent of the edition before.
func (r *registry) waitsForOlder(agent string) {
	r.t.Helper()
	const why = "1 of 2 agents do not know change sets: upgrade agentd there"
	await(r.t, "the change set names the older agent", func() error {
		trials, err := r.trials()
		if err == nil && (trials.Why != why || !slices.Equal(trials.WaitingFor, []string{agent})) {
			err = fmt.Errorf("it says %+v", trials)
		}
		return err
	})
}

// converged waits until the registry says so of the scripts. A registry of the edition before ends
// with a panic if a change set has made a release, and another follows before that.
func (r *registry) converged(names ...script.Name) {
	r.t.Helper()
	for _, name := range names {
		await(r.t, name.String()+" converges", func() error {
			status, err := r.Status(r.t.Context(), name)
			if err == nil && (len(status.Scripts) != 1 || !status.Scripts[0].Converged) {
				err = fmt.Errorf("it is %+v", status.Scripts)
			}
			return err
		})
	}
}

func (r *registry) content() string {
	r.t.Helper()
	_, content, err := r.Value(r.t.Context(), beta)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(content)
}

// TestChangeSetsWaitForOlderAgents: a change set on trial waits for the agents of the edition before,
// names them, and none of it runs there. It goes on once these are upgraded. Without tests and a
// plan, it is live on agents of both editions at once.
func TestChangeSetsWaitForOlderAgents(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	both := []script.Name{route, lib}
	r.together(1, nil, false, both...)
	w.all(pair(1, 1), both, a, b)
	r.together(2, nil, false, both...)
	w.all(pair(2, 2), both, a, b)

	plan := &script.Plan{Steps: []script.Step{{Selector: "zone=a"}, {Selector: "zone=b"}}}
	r.together(3, plan, true, route, lib, fresh)
	r.waitsForOlder("a")
	w.stays("on trial", pair(2, 2), both, a, b)
	for i, agent := range []*agentclient.Client{a, b} {
		if _, err := agent.Call(t.Context(), fresh.String()); script.KindOf(err) != script.Disabled && script.KindOf(err) != script.NotFound {
			t.Errorf("agent %d runs a script that is new: %v", i, err)
		}
	}
	if got := answerTo(t.Context(), a, route.String()+"@2"); got != pair(2, 2) {
		t.Errorf("the older agent answers @2 with %s", got)
	}
	if x := r.is(route, "the candidate is there", inStep(0)); x.Candidate.Version.Number != 3 {
		t.Errorf("the candidate is %+v", x.Candidate)
	}
	w.nodes["a"].stop()
	a = w.agent(newer, "a", r)
	w.all(pair(3, 3), []script.Name{route, lib, fresh}, a, b)
	r.setIs(3, script.ChangeSetLive)
}

// TestStepsWaitForOlderAgents: no step of a change set begins while there is an agent of the edition
// before, whichever agents the step takes.
func TestStepsWaitForOlderAgents(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	both := []script.Name{route, lib}
	r.together(1, nil, false, both...)
	w.all(pair(1, 1), both, a, b)
	r.together(2, &script.Plan{Steps: []script.Step{{Selector: "zone=b"}, {Selector: "zone=a"}}}, false, both...)
	r.waitsForOlder("a")
	r.is(route, "no step begins", inStep(0))
	w.stays("on trial", pair(1, 1), both, a, b)
	if got := r.content(); got != "1" {
		t.Errorf("the value is %s", got)
	}
	w.nodes["a"].stop()
	a = w.agent(newer, "a", r)
	w.all(pair(2, 2), both, a, b)
	r.setIs(2, script.ChangeSetLive)
}

// TestChangeSetsWhileAnOlderRegistryLeads: a registry of the edition before neither tests nor
// promotes candidates of change sets, and says why. When it is upgraded, a retry has them go on.
func TestChangeSetsWhileAnOlderRegistryLeads(t *testing.T) {
	w := start(t)
	old := w.registry(older)
	old.leads()
	r := w.registry(newer)
	a, b := w.agent(newer, "a", old, r), w.agent(newer, "b", old, r)
	both := []script.Name{route, lib}
	r.together(1, nil, false, both...)
	w.all(pair(1, 1), both, a, b)
	old.converged(both...)
	r.together(2, &script.Plan{Steps: []script.Step{{Selector: "zone=a"}, {Selector: "zone=b"}}}, true, both...)
	const why = "it is part of the change set set-2, which this software does not know: upgrade it"
	for _, name := range both {
		x := old.is(name, "the older registry has the candidate", func(x script.Release) bool { return x.Candidate != nil })
		if x.Candidate.Failed != why {
			t.Errorf("the older registry says of %s that it failed: %q", name, x.Candidate.Failed)
		}
	}
	// Another script's way through that leader takes longer than a look at these.
	other := script.Name{Tenant: "acme", Script: "other"}
	old.publish(other, 1, script.Plan{})
	old.publish(other, 2, script.Plan{Steps: []script.Step{{Selector: "zone=a"}, {Selector: "zone=b"}}})
	old.live(other, 2)
	w.stays("while the older registry leads", pair(1, 1), both, a, b)
	set := r.setIs(2, script.ChangeSetOnTrial)
	if x := r.is(route, "it is on trial", inStep(0)); !x.Candidate.Is(&script.Membership{Name: set.Name, Attempt: set.Attempt}) {
		t.Errorf("the candidate is %+v", x.Candidate)
	}
	old.stop()
	r.leads()
	// Agents that had it from the older registry do not know that it is on trial.
	if _, _, err := r.Steer(t.Context(), route, registryclient.Retry, 0, byAnn); err != nil {
		t.Fatal(err)
	}
	w.all(pair(2, 2), both, a, b)
	r.setIs(2, script.ChangeSetLive)
	if got := r.content(); got != "2" {
		t.Errorf("the value is %s", got)
	}
	for f, err := range r.Doctor(t.Context(), registryclient.DoctorOptions{}) {
		t.Errorf("the doctor finds %+v, %v", f, err)
	}
}

// TestAnOlderRegistryEndsAChangeSet: a change of one of its scripts through a registry of the edition
// before takes the script out of the change set. The rest is given up then.
func TestAnOlderRegistryEndsAChangeSet(t *testing.T) {
	for name, change := range map[string]func(old *registry) (route string, err error){
		"another version": func(old *registry) (string, error) {
			_, err := old.Publish(old.t.Context(), registryclient.PublishRequest{Name: route, Source: []byte("function handle() return {5, kv.get('beta')} end"), Write: byAnn, Settings: &script.Settings{}})
			return pair(5, 1), err
		},
		"a retry of one script": func(old *registry) (string, error) {
			_, _, err := old.Steer(old.t.Context(), route, registryclient.Retry, 0, byAnn)
			return pair(1, 1), err // it fails its test, which needs the value
		},
		"a promotion of one script": func(old *registry) (string, error) {
			_, _, err := old.Steer(old.t.Context(), route, registryclient.Promote, 0, byAnn)
			return pair(2, 1), err // by hand, past its tests
		},
		"disabling and enabling": func(old *registry) (string, error) {
			_, _, off := old.SetEnabled(old.t.Context(), route, false, byAnn)
			_, _, on := old.SetEnabled(old.t.Context(), route, true, byAnn)
			return pair(1, 1), errors.Join(off, on)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			r := w.registry(newer)
			r.leads()
			old := w.registry(older)
			a, b := w.agent(newer, "a", r, old), w.agent(newer, "b", r, old)
			both := []script.Name{route, lib}
			r.together(1, nil, false, both...)
			w.all(pair(1, 1), both, a, b)
			old.converged(both...)
			r.together(2, &script.Plan{Steps: []script.Step{{Selector: "zone=a", Pause: time.Hour}}}, true, both...)
			w.all(pair(2, 2), both, a)
			old.is(route, "the older registry has the candidate", func(x script.Release) bool { return x.Candidate != nil })
			want, err := change(old)
			if err != nil {
				t.Fatal(err)
			}
			set := r.setIs(2, script.ChangeSetFailed)
			if !strings.Contains(set.Reason, "acme/route") {
				t.Errorf("it was given up because of %q", set.Reason)
			}
			w.all(want, []script.Name{route}, a, b)
			w.all(pair(1, 1), []script.Name{lib}, a, b)
			old.stop()
			r.leads()
			w.stays("after the upgrade", want, []script.Name{route}, a, b)
			w.stays("after the upgrade", pair(1, 1), []script.Name{lib}, a, b)
			if got := r.content(); got != "1" {
				t.Errorf("the value is %s", got)
			}
			r.together(6, nil, false, both...)
			w.all(pair(6, 6), both, a, b)
		})
	}
}

// scriptctl runs the command of the edition on the registry, and returns what it says.
func (r *registry) scriptctl(e edition, args ...string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), e.program("scriptctl"), append(args, "--registry", r.target, "--insecure-plaintext")...)
	cmd.Env = append(cmd.Environ(), "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestOlderScriptctl: scriptctl of the edition before says that it does not know change sets, and
// what it promotes is all of one.
func TestOlderScriptctl(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(newer, "a", r), w.agent(newer, "b", r)
	both := []script.Name{route, lib}
	r.together(1, nil, false, both...)
	w.all(pair(1, 1), both, a, b)
	r.together(2, &script.Plan{Steps: []script.Step{{Selector: "zone=a", Approval: true}}}, false, both...)
	w.all(pair(2, 2), both, a)
	for _, args := range [][]string{{"rollout", "status", "acme/route"}, {"get", "acme/lib"}, {"status", "acme/route"}} {
		said, err := r.scriptctl(older, args...)
		if !strings.Contains(said, "change set set-2, which this software does not know") {
			t.Errorf("%v: %s, %v", args, said, err)
		}
	}
	for _, args := range [][]string{{"list"}, {"history", "acme/route"}, {"kv", "get", "acme/beta"}, {"agents"}} {
		if said, err := r.scriptctl(older, args...); err != nil {
			t.Errorf("%v: %s, %v", args, said, err)
		}
	}
	if said, err := r.scriptctl(older, "rollout", "promote", "acme/lib"); err != nil {
		t.Errorf("promote: %s, %v", said, err)
	}
	w.all(pair(2, 2), both, a, b)
	r.setIs(2, script.ChangeSetLive)
	if said, err := r.scriptctl(older, "rollback", "acme/lib"); err != nil {
		t.Errorf("rollback: %s, %v", said, err)
	}
	w.all(pair(1, 2), []script.Name{lib}, a, b)
}

// TestOlderOperator: the registry refuses a change set of a script that a LuaScript owns. With force, the
// operator of the edition before publishes what the LuaScript says, and all of the change set is given up.
func TestOlderOperator(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(newer, "a", r), w.agent(newer, "b", r)
	namespace := w.tenant()
	w.operator(older)
	w.apply(namespace, 1, "")
	w.answers(a, "1")
	w.answers(b, "1")
	source := []byte("function handle() return 2 end")
	req := registryclient.ChangeSetRequest{
		Tenant: "acme", Name: "set-2", Plan: &script.Plan{Steps: []script.Step{{Selector: "zone=a", Pause: time.Hour}}},
		Scripts: []registryclient.PublishRequest{{Name: route, Source: source}, {Name: lib, Source: source}},
		Values:  []registryclient.ValueContent{{Key: beta.Key, Content: []byte("2")}}, ChangeSetWrite: registryclient.ChangeSetWrite{Author: "ann"},
	}
	if _, err := r.PublishChangeSet(t.Context(), req); script.KindOf(err) != script.Denied {
		t.Errorf("a change set of a LuaScript: %v", err)
	}
	req.Force = true
	if _, err := r.PublishChangeSet(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if set := r.setIs(2, script.ChangeSetFailed); !strings.Contains(set.Reason, "acme/route is not part of the change set set-2 any more") {
		t.Errorf("it was given up because of %q", set.Reason)
	}
	w.answers(a, "1")
	w.answers(b, "1")
	w.says(namespace, "version 3 runs on 2 of 2 agents")
	if _, err := a.Call(t.Context(), lib.String()); script.KindOf(err) != script.Disabled && script.KindOf(err) != script.NotFound {
		t.Errorf("the other script runs: %v", err)
	}
	if _, _, err := r.Value(t.Context(), beta); script.KindOf(err) != script.NotFound {
		t.Errorf("the value is live: %v", err)
	}
	w.remove(namespace)
}
