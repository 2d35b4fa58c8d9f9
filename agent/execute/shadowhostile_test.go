package execute_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hooked is an engine that calls a hook with the source before a program runs.
type hooked struct {
	engine.Engine
	hook func(source string)
}

func (h hooked) Compile(src engine.Source) (engine.Program, error) {
	p, err := h.Engine.Compile(src)
	return hookedProgram{p, func() { h.hook(string(src.Code)) }}, err
}

type hookedProgram struct {
	engine.Program
	hook func()
}

func (p hookedProgram) Run(ctx context.Context, inv *engine.Invocation, res *engine.Result) error {
	p.hook()
	return p.Program.Run(ctx, inv, res)
}

const (
	liveSource   = `function handle(r) return {n = 1} end`
	shadowSource = `function handle(r) return {n = 2} end -- candidate`
)

// heldShadow returns a node whose candidates wait for release before they run.
func heldShadow(t *testing.T) (n *node, runs *atomic.Int64, release func()) {
	t.Helper()
	open := make(chan struct{})
	n, runs = &node{host: &sideEffects{}}, &atomic.Int64{}
	n.start(t, hooked{lua.New(), func(source string) {
		if strings.Contains(source, "candidate") {
			runs.Add(1)
			<-open
		}
	}}, 1<<20, 2, 16)
	return n, runs, func() { close(open) }
}

func (n *node) must(tb testing.TB, ref string, args ...string) {
	tb.Helper()
	call := &gateway.Call{Script: ref}
	for _, arg := range args {
		call.Args = append(call.Args, []byte(arg))
	}
	var reply gateway.Reply
	if err := n.Execute(tb.Context(), call, &reply); err != nil {
		tb.Fatal(err)
	}
}

// TestShadowPanics: an engine that panics in the shadow ends no process and keeps no turn.
func TestShadowPanics(t *testing.T) {
	n := &node{host: &sideEffects{}}
	n.start(t, hooked{lua.New(), func(source string) {
		if strings.Contains(source, "panics") {
			panic("in the shadow")
		}
	}}, 1<<20, 2, 16)
	live := n.shadow("acme", liveSource, shadowSource+" panics", script.Plan{}, nil)
	for i := range uint64(3) {
		n.must(t, "acme/route")
		if found := shadowed(t, live, i+1); found.Dropped != i+1 {
			t.Fatalf("found %+v", found)
		}
	}
	other := n.shadow("other", liveSource, shadowSource, script.Plan{}, nil)
	n.must(t, "other/route")
	if found := shadowed(t, other, 1); found.Different != 1 {
		t.Errorf("another tenant: %+v", found)
	}
}

// TestShadowFindingsFitAMessage: names and lines of any length, cut at any byte, do not keep the counts from
// the registry.
func TestShadowFindingsFitAMessage(t *testing.T) {
	for _, name := range []string{"ü", "aü", "aaü", "€", "a€", "aa€"} {
		n, live := shadowing(t, &sideEffects{}, liveSource, fmt.Sprintf(`function handle()
			log.info(%[1]q .. ("ü"):rep(200)) log.info("a" .. %[1]q .. ("ü"):rep(200))
			local t = {}
			for i = 1, 8 do t[i .. %[1]q .. ("ü"):rep(2000)] = i end
			return t
		end`, name), script.Plan{})
		n.must(t, "acme/route")
		shadowed(t, live, 1)
		found := live.Shadow.Findings()
		m := wire.FromFindings(&found)
		if text, err := proto.Marshal(m); err != nil || len(text) > 20<<10 || len(found.Samples) != 1 || len(found.Samples[0].Logs) != 2 {
			t.Errorf("%s: %d bytes, %v: %.300v", name, len(text), err, found.Samples)
		}
	}
}

// TestShadowSamplesLeakNothing: in names of members, in lines that are cut, and if there are more masks than
// a masker takes.
func TestShadowSamplesLeakNothing(t *testing.T) {
	many := func(prefix string) *script.Decisions {
		d := &script.Decisions{}
		for i := range script.MaxDecisionPaths - 1 {
			d.Mask = append(d.Mask, fmt.Sprint(prefix, i))
		}
		d.Mask = append(d.Mask, prefix)
		return d
	}
	for name, c := range map[string]struct {
		candidate, secret string
		change            func(*script.Release)
		tenant            *script.Decisions
	}{
		"a name with slashes": {candidate: `return {[r.card] = 2}`, secret: "1/2~3"},
		"a line that is cut":  {candidate: `log.info(("x"):rep(251) .. r.card) return 2`, secret: "473921"},
		"many masks": {
			candidate: `log.info("its pin is " .. r.pin) return {[r.pin] = 2}`, secret: "473921-x",
			change: func(r *script.Release) {
				r.Settings.Decisions, r.Candidate.Spec.Decisions = many("a"), many("b")
			},
			tenant: many("pin"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{host: &sideEffects{}, settings: script.TenantSettings{Decisions: c.tenant}}
			n.start(t, lua.New(), 1<<20, 2, 16)
			live := n.shadow("acme", liveSource, "function handle(r) "+c.candidate+" end", script.Plan{}, c.change)
			n.must(t, "acme/route", fmt.Sprintf(`{"card":%[1]q,"pin":%[1]q}`, c.secret))
			if found := shadowed(t, live, 1); found.Different != 1 {
				t.Fatalf("found %+v", found)
			}
			text := fmt.Sprintf("%+v", live.Shadow.Findings())
			plain := strings.NewReplacer("~1", "/", "~0", "~").Replace(text)
			if most := c.secret[:min(len(c.secret), 5)]; strings.Contains(plain, most) {
				t.Errorf("%s is in %s", most, text)
			}
		})
	}
}

// TestSameMasksCountOnce: both versions and the tenant mask the same, and samples show the rest.
func TestSameMasksCountOnce(t *testing.T) {
	d := &script.Decisions{}
	for i := range script.MaxDecisionPaths {
		d.Mask = append(d.Mask, fmt.Sprint("m", i))
	}
	n := &node{host: &sideEffects{}, settings: script.TenantSettings{Decisions: d}}
	n.start(t, lua.New(), 1<<20, 2, 16)
	live := n.shadow("acme", liveSource, shadowSource, script.Plan{}, func(r *script.Release) {
		r.Settings.Decisions, r.Candidate.Spec.Decisions = d, d
	})
	n.must(t, "acme/route", `{"user":"ada"}`)
	shadowed(t, live, 1)
	if found := live.Shadow.Findings(); len(found.Samples) != 1 || !strings.Contains(found.Samples[0].Input, "ada") {
		t.Errorf("samples: %+v", found.Samples)
	}
}

// TestShadowRunsForLong: a candidate that does not end has failed, also if its time is longer than shadows
// may save up.
func TestShadowRunsForLong(t *testing.T) {
	n := &node{host: &sideEffects{}}
	n.start(t, lua.New(), 1<<20, 2, 16)
	live := n.shadow("acme", liveSource, `function handle() while true do end end`, script.Plan{}, func(r *script.Release) {
		limits := script.Limits{Instructions: script.MaxLimits().Instructions, Timeout: 300 * time.Millisecond}
		r.Settings.Limits, r.Candidate.Spec.Limits = limits, limits
	})
	n.must(t, "acme/route")
	if found := shadowed(t, live, 1); found.Failed != 1 {
		t.Errorf("found %+v, want one that failed", found)
	}
}

// TestShadowsOfManyTenants: one tenant's calls leave room for another's.
func TestShadowsOfManyTenants(t *testing.T) {
	n, _, release := heldShadow(t)
	n.shadow("acme", liveSource, shadowSource, script.Plan{}, nil)
	other := n.shadow("other", liveSource, shadowSource, script.Plan{}, nil)
	for range 200 {
		n.must(t, "acme/route")
	}
	n.must(t, "other/route")
	release()
	if found := shadowed(t, other, 1); found.Different != 1 {
		t.Errorf("found %+v, want a call compared", found)
	}
}

// TestNoShadowOfADisabledScript: what waits does not run once the script is disabled.
func TestNoShadowOfADisabledScript(t *testing.T) {
	n, runs, release := heldShadow(t)
	live := n.shadow("acme", liveSource, shadowSource, script.Plan{}, nil)
	for range 5 {
		n.must(t, "acme/route")
	}
	shadowBegins(t, runs)
	off := n.shadow("acme", liveSource, shadowSource, script.Plan{}, func(r *script.Release) { r.Enabled, r.Revision = false, 2 })
	other := n.shadow("other", liveSource, shadowSource, script.Plan{}, nil)
	n.must(t, "other/route")
	release()
	shadowed(t, other, 1)
	if off.Shadow != live.Shadow || runs.Load() > 2 { // one, and that of the other script
		t.Errorf("candidates ran %d times", runs.Load())
	}
}

func shadowBegins(t *testing.T, runs *atomic.Int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for runs.Load() == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("no candidate runs")
		}
	}
}

// TestShadowsCostLiveCallsNothing: a call that is not shadowed, as there is no room, allocates what one
// without a candidate does.
func TestShadowsCostLiveCallsNothing(t *testing.T) {
	n, runs, release := heldShadow(t)
	defer release()
	n.shadow("acme", liveSource, shadowSource, script.Plan{}, nil)
	alone := n.shadow("alone", liveSource, shadowSource, script.Plan{}, func(r *script.Release) { r.Candidate = nil })
	for range 100 {
		n.must(t, "acme/route", "{}")
	}
	shadowBegins(t, runs)
	allocs := func(ref string) float64 {
		call, reply, ctx := &gateway.Call{Script: ref, Args: [][]byte{[]byte("{}")}}, &gateway.Reply{}, t.Context()
		one := func() {
			reply.Reset()
			if err := n.Execute(ctx, call, reply); err != nil {
				t.Error(err)
			}
		}
		few := make([]float64, 5) // the least of several: the runtime allocates, too
		for i := range few {
			few[i] = testing.AllocsPerRun(200, one)
		}
		return slices.Min(few)
	}
	if with, without := allocs("acme/route"), allocs("alone/route"); with > without || alone.Shadow != nil {
		t.Errorf("%v allocations beside shadows, and %v without", with, without)
	}
}
