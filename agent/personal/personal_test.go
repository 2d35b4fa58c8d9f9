package personal_test

import (
	"context"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/personal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// next runs nothing, and has all scripts in each chain.
type next struct {
	gateway.Executor
	chain []gateway.Link
}

func (next) Execute(context.Context, *gateway.Call, *gateway.Reply) error { return nil }

func (n next) Chain(dst []gateway.Link, _, _ string, _ *script.Attributes, _ *gateway.Call) ([]gateway.Link, error) {
	return append(dst, n.chain...), nil
}

// TestOtherCallsAllocateNothing: calls of scripts without a personal version, and without its key, cost no memory.
func TestOtherCallsAllocateNothing(t *testing.T) {
	name := func(s string) script.Name { return script.Name{Tenant: "acme", Script: s} }
	release := func(n script.Name, p *script.Personal) *cache.Release {
		return cache.NewRelease(script.Release{
			Name: n, Revision: 1, Active: script.Version{Number: 1}, Enabled: true, Settings: script.Settings{Spec: script.Spec{Personal: p}},
		})
	}
	table := cache.NewTable()
	table.Update([]*cache.Release{
		release(name("route"), nil), release(name("other"), nil),
		release(name("route-dev-ann"), &script.Personal{Of: "route", Key: "ann-12345678", Until: time.Now().Add(time.Hour)}),
	}, nil)
	x := personal.Router(next{chain: []gateway.Link{{Script: name("other")}, {Script: name("route")}}}, table)
	var reply gateway.Reply
	links := make([]gateway.Link, 0, 2)
	for what, call := range map[string]*gateway.Call{
		"another script": {Script: "acme/other", Key: "ann-12345678"},
		"no key":         {Script: "acme/route"},
	} {
		if n := testing.AllocsPerRun(10, func() { _ = x.Execute(t.Context(), call, &reply) }); n > 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	call := &gateway.Call{Key: "nobody's"}
	if n := testing.AllocsPerRun(10, func() { _, _ = x.Chain(links, "acme", "pre-route", nil, call) }); n > 0 {
		t.Errorf("a chain: %v allocations", n)
	}
	call.Key = "ann-12345678"
	if got, _ := x.Chain(links, "acme", "pre-route", nil, call); got[1].Script != name("route-dev-ann") || got[0].Script != name("other") {
		t.Errorf("the chain is %v", got)
	}
}
