package execute_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// headers are what a client's request has.
type headers map[string]string

func (h headers) Key(source script.KeySource) string {
	_, name := source.Parts()
	return h[name]
}

// TestCallsByKey: keys decide which version runs, and only calls with keys that name no version are
// counted.
func TestCallsByKey(t *testing.T) {
	n := newNode(t, 1<<20, 2, 2)
	update := func(source script.KeySource) *cache.Release {
		r := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 1, Enabled: true}
		for i, src := range []string{"one", "two"} {
			n.sources[script.DigestOf([]byte(src))] = []byte(src)
			r.Retained = append(r.Retained, script.Version{Number: uint64(i + 1), Digest: script.DigestOf([]byte(src)), Engine: "fake"})
		}
		r.Active = r.Retained[0]
		r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: r.Settings.Spec, Attempt: 1, Step: 1}
		r.Settings.Rollout = script.Plan{MaxErrorIncrease: new(1.0), Key: source}
		r.Candidate.Select(script.Step{By: script.ByKey}, script.KeyThreshold(50))
		live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
		n.table.Update(nil, []script.Name{r.Name})
		n.table.Update([]*cache.Release{live}, nil)
		return live
	}
	in, out := keysOf("acme/route@2")
	type call struct {
		call    gateway.Call
		want    string
		counted string // calls of the candidate, and of both versions in the step
	}
	const header = "request.headers.x-user"
	for name, c := range map[script.KeySource]map[string]call{
		"": {
			"a key":                  {gateway.Call{Key: in}, "two", "1 1"},
			"another key":            {gateway.Call{Key: out}, "one", "0 1"},
			"no key":                 {gateway.Call{}, "one", "0 0"},
			"a long key":             {gateway.Call{Key: in + strings.Repeat("x", script.MaxKeyBytes)}, "one", "0 0"},
			"a request":              {gateway.Call{Request: headers{"x-user": in}}, "one", "0 0"},
			"a request and a key":    {gateway.Call{Key: in, Request: headers{"x-user": out}}, "two", "1 1"},
			"the candidate by name":  {gateway.Call{Script: "acme/route@2", Key: out}, "two", "0 0"},
			"the active one by name": {gateway.Call{Script: "acme/route@1", Key: in}, "one", "0 0"},
		},
		header: {
			"the request's":         {gateway.Call{Request: headers{"x-user": in}}, "two", "1 1"},
			"the request's alone":   {gateway.Call{Key: in, Request: headers{"x-user": out}}, "one", "0 1"},
			"none of the request":   {gateway.Call{Key: in, Request: headers{}}, "one", "0 0"},
			"no request, but a key": {gateway.Call{Key: in}, "two", "1 1"},
		},
	} {
		for what, c := range c {
			live := update(name)
			if c.call.Script == "" {
				c.call.Script = "acme/route"
			}
			var reply gateway.Reply
			if err := n.Execute(t.Context(), &c.call, &reply); err != nil {
				t.Fatal(err)
			}
			calls, _ := live.Split.Calls.Read()
			var all uint64
			for _, counts := range []*cache.StepCounts{live.Split.StepCalls, live.Besides()} {
				if n := counts.Read(); n != nil {
					all += n.Calls()
				}
			}
			if got, counted := string(reply.Value(0)), fmt.Sprint(calls, " ", all); got != c.want || counted != c.counted {
				t.Errorf("%s: %s runs, and %s are counted, want %s and %s", what, got, counted, c.want, c.counted)
			}
			if want := map[string]uint64{"one": 1, "two": 2}[c.want]; reply.Version != want {
				t.Errorf("%s: it says that version %d ran", what, reply.Version)
			}
		}
	}
	live := update("")
	if got, _, err := ask(t, n.Trials(), "acme/route@2"); err != nil || got != "two" {
		t.Errorf("a test answers %q, %v", got, err)
	}
	if calls, _ := live.Split.Calls.Read(); calls != 0 {
		t.Error("a test is counted")
	}
}

// keysOf returns a key that half of the keys have with it in a rollout with the salt, and one of the
// other half.
func keysOf(salt string) (in, out string) {
	for i := 0; in == "" || out == ""; i++ {
		if key := fmt.Sprint(i); cache.KeyBucket(salt, key) < script.KeyThreshold(50) {
			in = key
		} else {
			out = key
		}
	}
	return in, out
}

// TestAChainByKey: a chain has the versions that the key of the call runs, with their triggers. What
// scripts change of the request does not change that.
func TestAChainByKey(t *testing.T) {
	in, out := keysOf("acme/b@2")
	trigger := func(event string, priority int, prefixes ...string) script.Trigger {
		return script.Trigger{Event: event, Priority: priority, Match: script.Match{PathPrefixes: prefixes}}
	}
	for what, tt := range map[string]struct {
		active, candidate script.Trigger
		in, out           string // what runs on "pre"
	}{
		"the same trigger": {trigger("pre", 0), trigger("pre", 0), "a@1 b@2 c@1", "a@1 b@1 c@1"},
		"another priority": {trigger("pre", 0), trigger("pre", 20), "b@2 a@1 c@1", "a@1 b@1 c@1"},
		"no longer first":  {trigger("pre", 20), trigger("pre", -20), "a@1 c@1 b@2", "b@1 a@1 c@1"},
		"another match":    {trigger("pre", 0), trigger("pre", 0, "/cart"), "a@1 c@1", "a@1 b@1 c@1"},
		"matched at last":  {trigger("pre", 0, "/cart"), trigger("pre", 0), "a@1 b@2 c@1", "a@1 c@1"},
		"another event":    {trigger("pre", 0), trigger("post", 0), "a@1 c@1", "a@1 b@1 c@1"},
		"its event":        {trigger("post", 0), trigger("pre", 0), "a@1 b@2 c@1", "a@1 c@1"},
		"no event":         {trigger("pre", 0), script.Trigger{}, "a@1 c@1", "a@1 b@1 c@1"},
		"an event at last": {script.Trigger{}, trigger("pre", 0), "a@1 b@2 c@1", "a@1 c@1"},
	} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t, 1<<20, 2, 2)
			n.publish("a", on("pre", 10, script.Match{}), "a")
			n.publish("c", on("pre", -10, script.Match{}), "c")
			n.publish("b", func(r *script.Release) {
				r.Active, r.Settings.Trigger = r.Retained[0], tt.active
				r.Settings.Rollout = script.Plan{MaxErrorIncrease: new(1.0), Key: "request.headers.x-user"}
				r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: script.Spec{Trigger: tt.candidate}, Attempt: 1, Step: 1}
				r.Candidate.Select(script.Step{By: script.ByKey}, script.KeyThreshold(50))
			}, "one", "two")
			live := n.table.Get("acme/b")
			for key, want := range map[string]string{in: tt.in, out: tt.out, "": tt.out} {
				call := gateway.Call{Request: headers{"x-user": key}}
				links, err := n.Chain(nil, "acme", "pre", attributesOf("/"), &call)
				if err != nil {
					t.Fatal(err)
				}
				var chain []string
				before, _ := live.Split.Calls.Read()
				for _, l := range links {
					chain = append(chain, fmt.Sprintf("%s@%d", l.Script.Script, l.Version))
					var reply gateway.Reply
					link := gateway.Call{Script: l.Script.String(), Edition: l.Edition, Request: call.Request}
					if err := n.Execute(t.Context(), &link, &reply); err != nil || reply.Version != l.Version {
						t.Errorf("%s: version %d runs, %v", l.Script, reply.Version, err)
					}
				}
				after, _ := live.Split.Calls.Read()
				if got := strings.Join(chain, " "); got != want {
					t.Errorf("key %q: %q, want %q", key, got, want)
				}
				if counted, want := after-before, strings.Count(want, "b@2"); counted != uint64(want) {
					t.Errorf("key %q: %d calls of the candidate are counted, want %d", key, counted, want)
				}
			}
			n.table.Update(nil, []script.Name{{Tenant: "acme", Script: "b"}})
			for event, want := range map[string]int{"pre": 2, "post": 0} {
				if all, count := n.table.Chain("acme", event); len(all) != want || count != want {
					t.Errorf("once the script is gone: %d of %d on %s", len(all), count, event)
				}
			}
		})
	}
}

// TestAChainKeepsItsVersion where the next step, which has begun meanwhile, has its key run the
// candidate: a tenant's process finds the edition by its version.
func TestAChainKeepsItsVersion(t *testing.T) {
	in, _ := keysOf("acme/b@2")
	n := newNode(t, 1<<20, 2, 2)
	n.publish("b", func(r *script.Release) {
		r.Active, r.Settings.Trigger = r.Retained[0], script.Trigger{Event: "pre"}
		r.Settings.Rollout = script.Plan{MaxErrorIncrease: new(1.0)}
		r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: r.Settings.Spec, Attempt: 1, Step: 2}
		r.Candidate.Select(script.Step{By: script.ByKey}, script.KeyThreshold(50))
	}, "one", "two")
	for version, want := range map[uint64]string{1: "one", 2: "two"} {
		var reply gateway.Reply
		call := gateway.Call{Script: "acme/b", Edition: n.table.Edition("acme/b", version), Key: in}
		if err := n.Execute(t.Context(), &call, &reply); err != nil || string(reply.Value(0)) != want || reply.Version != version {
			t.Errorf("version %d: %s ran as version %d, %v", version, reply.Value(0), reply.Version, err)
		}
	}
	if n := n.table.Get("acme/b").Besides().Read(); n != nil {
		t.Errorf("a key that runs the candidate counts for the active version: %+v", n)
	}
}
