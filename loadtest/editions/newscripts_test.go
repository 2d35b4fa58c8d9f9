package editions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// store publishes a source with a spec.
func (r *registry) store(name script.Name, source string, spec script.Spec) {
	r.t.Helper()
	_, err := r.Publish(r.t.Context(), registryclient.PublishRequest{
		Name: name, Source: []byte(source), Write: byAnn, Settings: &script.Settings{Spec: spec},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// failing waits until the agents that the registry names with failures are these, as "NAME: SCRIPT", and all reasons have the text.
func (r *registry) failing(text string, want ...string) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%q cannot activate a script", want), func() error {
		var got []string
		for a, err := range r.Agents(r.t.Context(), true) {
			if err != nil {
				return err
			}
			for _, f := range a.Failures {
				if !strings.Contains(f.Err.Error(), text) {
					return fmt.Errorf("%s: %s: %w", a.Name, f.Name, f.Err)
				}
				got = append(got, fmt.Sprintf("%s: %s", a.Name, f.Name))
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

// requiring is the source of acme/route with the library acme/lib.
const requiring = "local lib = require('acme/lib')\nfunction handle() return lib.number() end"

// publishRequiring publishes acme/lib, and acme/route that returns its number.
func (r *registry) publishRequiring(number int) {
	r.t.Helper()
	r.store(lib, fmt.Sprintf("return {number = function() return %d end}", number), script.Spec{Library: true})
	r.store(route, requiring, script.Spec{})
}

// TestLibrariesBesideAnOlderAgent: it keeps the version before, and the registry names it. Once it is upgraded, it runs the
// latest version.
func TestLibrariesBesideAnOlderAgent(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	r.publishRequiring(2)
	w.answers(b, "2")
	r.failing("lua+libraries", "a: acme/route")
	w.answers(a, "1")
	r.store(route, "function handle() return 3 end", script.Spec{})
	w.answers(a, "3")
	r.failing("")
	r.publishRequiring(4)
	r.failing("lua+libraries", "a: acme/route")
	w.answers(a, "3")
	w.nodes["a"].stop()
	a = w.agent(newer, "a", r)
	w.answers(a, "4")
	r.failing("")
}

// TestLibrariesBesideAnOlderRegistry: it drops the libraries of a script that it writes. Agents then keep what they run, and
// do not run the script without its libraries.
func TestLibrariesBesideAnOlderRegistry(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	old := w.registry(older)
	a := w.agent(newer, "a", r, old)
	r.publishRequiring(1)
	w.answers(a, "1")
	old.rewrites()
	r.failing("lua+libraries", "a: acme/route")
	w.answers(a, "1")
	old.stop()
	r.leads()
	r.publishRequiring(2)
	w.answers(a, "2")
	r.failing("")
}

// TestShadowStepsWaitForOlderAgents: a shadow step neither begins nor passes while there is an agent of the edition before,
// which runs the active version.
func TestShadowStepsWaitForOlderAgents(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	w.answers(b, "1")
	plan := script.Plan{Steps: []script.Step{{By: script.ByShadow, Percent: 100}}, MaxDiffPercent: new(100.0)}
	r.publish(route, 2, plan)
	r.waits("1 of 2 agents do not know shadow steps: upgrade agentd there")
	r.is(route, "no step begins", inStep(0))
	w.nodes["a"].stop()
	a = w.agent(newer, "a", r)
	r.is(route, "the step begins", inStep(1))
	c := w.agent(older, "c", r)
	w.answers(c, "1")
	r.waits("1 of 3 agents do not know shadow steps: upgrade agentd there")
	w.nodes["c"].stop()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			answer(ctx, a)
			answer(ctx, b)
		}
	}()
	r.live(route, 2)
	w.answers(a, "2")
}

// TestShadowStepsWhileAnOlderRegistryLeads: it gives the candidate up. No agent runs it.
func TestShadowStepsWhileAnOlderRegistryLeads(t *testing.T) {
	w := start(t)
	old := w.registry(older)
	old.leads()
	r := w.registry(newer)
	a := w.agent(newer, "a", old, r)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	r.publish(route, 2, script.Plan{Steps: []script.Step{{By: script.ByShadow, Percent: 100}}})
	r.is(route, "the older registry gives the candidate up", func(x script.Release) bool { return x.Candidate != nil && x.Candidate.Failed != "" })
	w.answers(a, "1")
	old.stop()
	r.leads()
	r.publish(route, 2, script.Plan{Steps: []script.Step{{By: script.ByShadow, Percent: 50}}})
	r.live(route, 2)
}

// TestPersonalVersionsBesideAnOlderAgent: it runs the live script for all calls, in chains, too, and what it has is what the
// registry has.
func TestPersonalVersionsBesideAnOlderAgent(t *testing.T) {
	const key = "ann-k3v7q2m5xw4d"
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	onHTTP := script.Spec{Trigger: script.Trigger{Event: "http"}}
	r.store(route, "function handle() return 'live' end", onHTTP)
	w.answers(a, `"live"`)
	personal := script.PersonalName(route, "ann")
	r.store(personal, "function handle() return 'mine' end", script.Spec{Personal: &script.Personal{Of: route.Script, Key: key, Until: time.Now().Add(time.Hour).Truncate(time.Second)}})
	withKey := agentclient.ContextWithKey(t.Context(), key)
	await(t, "the newer agent runs it for the key", func() error {
		if got := answer(withKey, b); got != `"mine"` {
			return errors.New("it answers " + got)
		}
		return nil
	})
	w.answersTo(a, personal.String(), `"mine"`) // it has the personal version, as a script that nothing calls
	for range 20 {
		if got := answer(withKey, a); got != `"live"` {
			t.Fatalf("the older agent answers %s", got)
		}
	}
	r.converged(route, personal)
	r.failing("")
	for agent, err := range r.Agents(t.Context(), false) {
		if err != nil || agent.Drifts > 0 {
			t.Errorf("%s differs from the registry: %d, %v", agent.Name, agent.Drifts, err)
		}
	}
}

// TestNullsOnBothEditions: agents of both editions return the null members of a request, and a script that is written for both
// finds the same in it.
func TestNullsOnBothEditions(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	r.store(route, "function handle(r) return {same = r, missing = r.a == nil or r.a == json.null, list = #r.list} end", script.Spec{})
	request := json.RawMessage(`{"a":null,"list":[null,1],"of":{"b":null}}`)
	for _, agent := range []*agentclient.Client{a, b} {
		await(t, "the agent answers", func() error {
			result, err := agent.Call(t.Context(), route.String(), request)
			if err != nil {
				return err
			}
			var got, want any // members have no order
			if err := errors.Join(json.Unmarshal(result.Values[0], &got), json.Unmarshal([]byte(`{"list":2,"missing":true,"same":`+string(request)+`}`), &want)); err != nil {
				return err
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("an agent answers %s", result.Values[0])
			}
			return nil
		})
	}
}

// TestPersonalVersionsOnAnOlderRegistry: scriptctl dev says that the registry does not know them, and leaves no script behind.
func TestPersonalVersionsOnAnOlderRegistry(t *testing.T) {
	w := start(t)
	r := w.registry(older)
	r.store(route, "function handle() return 'live' end", script.Spec{})
	file := filepath.Join(t.TempDir(), "route.yaml")
	text := "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: " + route.Script + "}\nspec: {tenantId: " + route.Tenant + ", source: \"function handle() return 'mine' end\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := r.scriptctl(newer, "dev", "--remote", "--once", "--as", "ann", file)
	if err == nil || !strings.Contains(said, "the registry is too old for personal versions") {
		t.Errorf("it said %s, %v", said, err)
	}
	if _, err := r.Get(t.Context(), script.PersonalName(route, "ann")); script.KindOf(err) != script.NotFound {
		t.Errorf("the registry has the personal version: %v", err)
	}
	// Nor does it delete or change a script that is there already.
	other := script.PersonalName(route, "bob")
	r.store(other, "function handle() return 'mine' end", script.Spec{})
	said, err = r.scriptctl(newer, "dev", "--remote", "--once", "--as", "bob", file)
	if err == nil || !strings.Contains(said, other.String()+" is no personal version") {
		t.Errorf("it said %s, %v", said, err)
	}
	if x, err := r.Get(t.Context(), other); err != nil || x.Latest != 1 {
		t.Errorf("the script that was there: %+v, %v", x, err)
	}
}
