package execute

import (
	"slices"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Chain implements gateway.Executor. It looks at the scripts of the tenant that have the event, and
// at no others. What the key of the call runs decides: a candidate has a trigger of its own.
func (x *Executor) Chain(dst []gateway.Link, tenant, event string, attributes *script.Attributes, call *gateway.Call) ([]gateway.Link, error) {
	releases, count := x.table.Chain(tenant, event)
	switch {
	case count == 0 && x.table.Len() == 0:
		return dst, x.notFound(script.Name{Tenant: tenant, Script: "*"})
	case count == 0:
		return dst, script.Errorf(script.NotFound, "event", "tenant %s has no enabled script on this agent with the event %.80q; set spec.trigger.event of a script, or see what there is: scriptctl list %s", tenant, event, tenant)
	case len(releases) < count:
		return dst, script.Errorf(script.Limit, "event", "tenant %s has %d enabled scripts with the event %s, and agents run at most %d: disable some, or use several events", tenant, count, event, script.MaxEventLive)
	}
	before, inTurn := len(dst), true
	for _, live := range releases {
		r := live
		if live.Split != nil {
			r = live.For(call.KeyFrom(live.KeySource()))
		}
		if r.Trigger.Event != event || !r.Trigger.Match.Matches(attributes) {
			continue
		}
		inTurn = inTurn && r.Trigger.Priority == live.Trigger.Priority
		if len(dst)-before == script.MaxChain {
			return dst[:before], script.Errorf(script.Limit, "event", "more than %d scripts of tenant %s with the event %s match the request, the most that a chain has: join some, or narrow spec.trigger.match", script.MaxChain, tenant, event)
		}
		dst = append(dst, gateway.Link{Script: r.Name, Version: r.Runs.Number, Edition: r})
	}
	if !inTurn { // the releases are in the order of what others run
		slices.SortFunc(dst[before:], func(a, b gateway.Link) int {
			return cache.InTurn(a.Edition.(*cache.Release), b.Edition.(*cache.Release))
		})
	}
	return dst, nil
}

// editionOf returns the release that the call is of, if it is one of a chain; else nil.
func editionOf(call *gateway.Call) *cache.Release {
	r, _ := call.Edition.(*cache.Release)
	return r
}
