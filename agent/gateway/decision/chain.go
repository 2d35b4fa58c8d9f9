package decision

import (
	"context"
	"slices"
	"strconv"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// NoChain is the chain of an event of which no script matches the request.
const NoChain = "none"

// decideInTurn has the scripts of an event decide, one after the other. Each gets the request as those
// before have left it. One that denies ends the chain, and so does one that makes no decision, unless
// its onError or the gateway lets requests go on. Together they may take as long as one script may at most.
func (run *Run) decideInTurn(ctx context.Context, x gateway.Executor, q *Question, r *Request) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, script.MaxLimits().Timeout)
	defer cancel()
	attributes := r.attributes()
	var err error
	if run.links, err = x.Chain(run.links[:0], q.Target.Tenant, q.Target.Event, &attributes, &run.call); err != nil {
		return Decision{}, err
	}
	run.chain = NoChain
	seen, all, held := *r, Allowed, r.ArgumentBytes()
	for i := range run.links {
		link := &run.links[i]
		run.note(link, i == 0)
		run.reply.Reset()
		run.call.Script, run.call.Edition = link.Script.String(), link.Edition
		d, err := run.ask(ctx, x, q.Target.Tenant, &seen)
		if err == nil {
			d, err = all.then(d)
		}
		if err != nil {
			instead := q.Fail.Instead(run.reply.OnError, err)
			if !instead.Allow {
				return Decision{}, err
			}
			all.Response = all.Response.then(instead.Response)
			continue
		}
		if !d.Allow {
			return d, nil
		}
		run.enlist(q, q.Target.Tenant, &seen)
		if seen.take(r, &d) && q.Hold != nil {
			if more := seen.ArgumentBytes() - held; more > 0 && !q.Hold(int64(more)) {
				run.reply.OnError = script.OnError{}
				return Decision{}, budget.ErrOverloaded
			}
			held = max(held, seen.ArgumentBytes())
		}
		all = d
	}
	run.reply.OnError = script.OnError{} // what all of them decided is not one script's
	return all, nil
}

// note adds a script to those that have run.
func (run *Run) note(link *gateway.Link, first bool) {
	if first {
		run.chain = ""
	} else {
		run.chain += ", "
	}
	run.chain += link.Script.Script + "@" + strconv.FormatUint(link.Version, 10)
}

// attributes returns what triggers look at.
func (r *Request) attributes() script.Attributes {
	var lower map[string][]string
	return script.AttributesOf(r.Method, r.Host, script.CleanPath(r.Path), func(name string) []string {
		if lower == nil {
			lower = lowered(r.Headers)
		}
		return lower[name]
	})
}

// lowered returns a copy of the headers with names in lower case. Nothing is ever written to a list of
// the copy.
func lowered(headers map[string][]string) map[string][]string {
	lower := make(map[string][]string, len(headers))
	for name, values := range headers {
		name = lowerOf(name)
		lower[name] = slices.Concat(lower[name], values)
	}
	return lower
}

// take makes the request what the decision d, which is of all scripts so far, makes of the request from,
// and reports whether that is another one.
func (r *Request) take(from *Request, d *Decision) bool {
	c := d.Request
	r.keys = keys{}
	if d.Path == nil && d.Query == nil && len(c.Remove)+len(c.Set)+len(c.Append) == 0 {
		return false
	}
	if d.Path != nil {
		r.Path = *d.Path
	}
	if d.Query != nil {
		r.Query = *d.Query
	}
	r.Headers = c.applied(lowered(from.Headers))
	return true
}

// applied returns the headers with the changes. Their names are in lower case.
func (c Changes) applied(headers map[string][]string) map[string][]string {
	for _, name := range c.Remove {
		delete(headers, name)
	}
	for _, h := range c.Set {
		headers[h.Name] = []string{h.Value}
	}
	for _, h := range c.Append {
		headers[h.Name] = append(slices.Clip(headers[h.Name]), h.Value)
	}
	return headers
}

// then returns what both decisions make of a request together, of which d allows it. It returns an
// error if that is more than a decision may be. A denial holds all the same: without what came before.
func (d Decision) then(next Decision) (Decision, error) {
	both := next
	both.Response = d.Response.after(next.Response)
	var err error
	if both.Metadata, err = merged(d.Metadata, next.Metadata); err == nil && next.Allow {
		both.Request = d.Request.then(next.Request)
		if next.Upstream == "" {
			both.Upstream = d.Upstream
		}
		if next.Path == nil {
			both.Path = d.Path
		}
		if next.Query == nil {
			both.Query = d.Query
		}
	}
	if err == nil {
		err = both.fits()
	}
	if err != nil && !next.Allow {
		return next, nil
	}
	return both, err
}

// rateLimits are the headers of the client that say one thing together.
var rateLimits = []string{"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"}

// after is then for the headers of the response, where some belong together.
func (c Changes) after(next Changes) Changes {
	if !slices.ContainsFunc(next.Set, func(h Header) bool { return h.Name == rateLimits[0] }) {
		return c.then(next)
	}
	return c.without(func(name string) bool { return slices.Contains(rateLimits, name) }).then(next)
}

// then returns the changes that have the effect of c, and of next after it.
func (c Changes) then(next Changes) Changes {
	replaced := func(name string) bool {
		return slices.Contains(next.Remove, name) || slices.ContainsFunc(next.Set, func(h Header) bool { return h.Name == name })
	}
	both := c.without(replaced)
	both.Remove = append(both.Remove, next.Remove...)
	both.Set = append(both.Set, next.Set...)
	for _, h := range next.Append {
		if h.Name != "vary" || !slices.Contains(both.Append, h) {
			both.Append = append(both.Append, h)
		}
	}
	return both
}

// without returns a copy of the changes without those of some headers.
func (c Changes) without(out func(name string) bool) Changes {
	line := func(h Header) bool { return out(h.Name) }
	return Changes{
		Remove: slices.DeleteFunc(slices.Clone(c.Remove), out),
		Set:    slices.DeleteFunc(slices.Clone(c.Set), line),
		Append: slices.DeleteFunc(slices.Clone(c.Append), line),
	}
}
