package execute

import (
	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Chain implements gateway.Executor. It looks at the scripts of the tenant that have the event, and
// at no others.
func (x *Executor) Chain(dst []gateway.Link, tenant, event string, asked *script.Asked) ([]gateway.Link, error) {
	releases, count := x.table.Chain(tenant, event)
	switch {
	case count == 0 && x.table.Len() == 0:
		return dst, x.notFound(script.Name{Tenant: tenant, Script: "*"})
	case count == 0:
		return dst, script.Errorf(script.NotFound, "event", "tenant %s has no enabled script on this agent with the event %.80q; set spec.trigger.event of a script, or see what there is: scriptctl list %s", tenant, event, tenant)
	case len(releases) < count:
		return dst, script.Errorf(script.Limit, "event", "tenant %s has %d enabled scripts with the event %s, at most %d are allowed: use several events", tenant, count, event, script.MaxEventScripts)
	}
	before := len(dst)
	for _, r := range releases {
		if !r.Trigger.Match.Matches(asked) {
			continue
		}
		if len(dst)-before == script.MaxChain {
			return dst[:before], script.Errorf(script.Limit, "event", "more than %d scripts of tenant %s with the event %s match the request, the most that a chain has: join some, or narrow spec.trigger.match", script.MaxChain, tenant, event)
		}
		dst = append(dst, gateway.Link{Script: r.Name, Version: r.Runs.Number, Edition: r})
	}
	return dst, nil
}

// editionOf returns the release that the call is of, if it is one of a chain; else nil.
func editionOf(call *gateway.Call) *cache.Release {
	r, _ := call.Edition.(*cache.Release)
	return r
}
