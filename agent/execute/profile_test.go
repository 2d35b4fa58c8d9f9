package execute_test

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

const hotOnLine2 = `local n = 0
for i = 1, 20000 do n = n + i % 7 end
return n`

// patiently has a slow machine finish the calls, too.
func patiently(r *script.Release) { r.Settings.Limits.Timeout = script.MaxLimits().Timeout }

// TestAProfileHasTheCallsOfItsScript, and neither those of a neighbour, nor trials.
func TestAProfileHasTheCallsOfItsScript(t *testing.T) {
	n := &node{profiles: &profile.Profiles{}}
	n.start(t, lua.New(), 1<<20, 1, 1)
	for _, name := range []string{"route", "beside"} {
		n.publish(name, patiently, hotOnLine2)
	}
	running, err := n.profiles.Start(profile.Spec{Script: script.Name{Tenant: "acme", Script: "route"}, Duration: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	call := func(to gateway.Executor, ref string) {
		t.Helper()
		var reply gateway.Reply
		if err := to.Execute(t.Context(), &gateway.Call{Script: ref}, &reply); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		call(n.Executor, "acme/route")
		call(n.Executor, "acme/beside")
		call(n.Trials(), "acme/route@1")
	}
	result := running.Stop()
	call(n.Executor, "acme/route")
	if len(result.Versions) != 1 || result.Versions[0].Number != 1 || result.Versions[0].Calls != 5 {
		t.Fatalf("%+v, want 5 calls of version 1", result)
	}
	hot, all := uint64(0), uint64(0)
	for _, s := range result.Versions[0].Stacks {
		all += s.Instructions
		if s.Frames[0] == (engine.Frame{Line: 2}) {
			hot += s.Instructions
		}
	}
	if hot < all*9/10 || all < 5*50_000 || all > 5*120_000 {
		t.Errorf("%d of %d instructions are on line 2", hot, all)
	}
}
