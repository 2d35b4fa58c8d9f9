package execute_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// observer keeps what it saw last, and ends calls with the error instead.
type observer struct {
	seen    execute.Ended
	calls   int
	instead error
}

func (o *observer) Ended(_ context.Context, e *execute.Ended) error {
	o.seen, o.calls = *e, o.calls+1
	return o.instead
}

// TestDecisionsOfCallsThatDoNotRun: the decision log of the called version applies, if the agent knows the version.
func TestDecisionsOfCallsThatDoNotRun(t *testing.T) {
	o := &observer{}
	n := &node{observers: []execute.Observer{o}}
	n.start(t, lua.New(), 1<<20, 1, 1)
	old, live := &script.Decisions{Errors: true, Mask: []string{"token"}}, &script.Decisions{Sample: 1}
	n.publish("route", func(r *script.Release) {
		for i, d := range []*script.Decisions{old, live} {
			s := script.Spec{Decisions: d}
			r.Retained[i] = r.Retained[i].With(s)
			r.Active, r.Settings.Spec = r.Retained[i], s
		}
		r.Candidate = &script.Candidate{Version: r.Retained[0], Spec: script.Spec{Decisions: old}, Attempt: 1}
		r.Enabled = false
	}, `return 1`, `return 2`)
	n.publish("lost", func(r *script.Release) {
		r.Retained[0] = r.Retained[0].With(script.Spec{Decisions: old})
		r.Active = r.Retained[1].With(script.Spec{Decisions: live})
		r.Settings.Spec = script.Spec{Decisions: live}
	}, `return 1`, `return 2`)
	for ref, want := range map[string]struct {
		decisions *script.Decisions
		unknown   bool
	}{
		"acme/route": {live, false}, "acme/route@2": {live, false}, "acme/route@1": {old, false},
		"acme/lost": {live, false}, "acme/lost@1": {live, true}, "acme/lost@9": {live, true},
	} {
		asked := &gateway.Call{Script: ref}
		_ = n.Execute(t.Context(), asked, &gateway.Reply{})
		name, _, _ := strings.Cut(ref, "@")
		unrun := execute.Unrun(asked, &gateway.Reply{}, n.table.Get(name), time.Now())
		for _, e := range []*execute.Ended{&o.seen, unrun} {
			if !e.Decisions.Equal(want.decisions) || e.Unknown != want.unknown {
				t.Errorf("%s: %v, unknown: %v", ref, e.Decisions, e.Unknown)
			}
		}
	}
}

func TestObserversSeeEachCall(t *testing.T) {
	const endless, many = `while true do end`, `local t = {} for i = 1, 1000 do t[i] = "x" .. i end return 1`
	o := &observer{}
	n := &node{observers: []execute.Observer{o}}
	n.start(t, lua.New(), 1<<20, 1, 1)
	publish := func(name, source string) {
		n.publish(name, func(r *script.Release) {
			patiently(r)
			r.Settings.Limits.Instructions = 100_000
		}, source)
	}
	publish("endless", endless)
	publish("many", many)
	publish("failing", `error("no")`)
	tests := []struct {
		script      string
		kind        script.Kind
		found       bool
		least, most uint64 // instructions
	}{
		{"acme/many", "", true, 1_000, 99_000},
		{"acme/endless", script.Limit, true, 100_000, 100_000},
		{"acme/failing", script.Script, true, 1, 1_000},
		{"acme/nothing", script.NotFound, false, 0, 0},
	}
	for i, test := range tests {
		var reply gateway.Reply
		call := &gateway.Call{Script: test.script, Origin: gateway.Origin{Protocol: "resp", Caller: "uid 7"}}
		err := n.Execute(t.Context(), call, &reply)
		if o.calls != i+1 {
			t.Fatalf("%s: the observer saw %d calls, want %d", test.script, o.calls, i+1)
		}
		e := o.seen
		if script.KindOf(err) != test.kind || e.Kind != test.kind || (e.Release != nil) != test.found {
			t.Errorf("%s: ended %v; the observer saw %q, release found: %v", test.script, err, e.Kind, e.Release != nil)
		}
		if used := e.Used.Instructions; used < test.least || used > test.most {
			t.Errorf("%s: used %d instructions, want %d to %d", test.script, used, test.least, test.most)
		}
		if test.script == "acme/many" && e.Used.Allocated < 1000*16 {
			t.Errorf("%s: allocated %d bytes, want more than an item of each of 1000", test.script, e.Used.Allocated)
		}
		if ran := e.Ran > 0; ran != test.found || e.Ran > e.Took {
			t.Errorf("%s: ran for %v of %v", test.script, e.Ran, e.Took)
		}
		if e.Call.Origin.Caller != "uid 7" || e.Took <= 0 || e.Start.IsZero() {
			t.Errorf("%s: the observer saw %+v", test.script, e)
		}
	}
}

func TestAnObserverCanRefuseTheAnswer(t *testing.T) {
	first, last := &observer{instead: script.Errorf(script.Unavailable, "", "no room")}, &observer{}
	n := &node{observers: []execute.Observer{first, last}}
	n.start(t, fake{}, 1<<20, 1, 1)
	n.publish("route", nil, "one")
	var reply gateway.Reply
	err := n.Execute(t.Context(), &gateway.Call{Script: "acme/route"}, &reply)
	if script.KindOf(err) != script.Unavailable || reply.Len() != 0 {
		t.Errorf("Execute = %v with %d results, want UNAVAILABLE and none", err, reply.Len())
	}
	if first.seen.Kind != "" || last.seen.Kind != script.Unavailable {
		t.Errorf("the observers saw %q and %q, want success and then UNAVAILABLE", first.seen.Kind, last.seen.Kind)
	}
}
