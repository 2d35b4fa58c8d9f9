package decision

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Responders are the scripts that have decided about a request and want to see the response to it. They
// see it in the versions that have decided. The last that decided comes first.
type Responders struct {
	q       Question
	list    []responder
	changes Changes // of the response, by the decision about the request
}

// responder is a script that has an on_response.
type responder struct {
	call    gateway.Call
	tenant  string
	request Request // as the script has seen it, without its body
	onError script.OnError
}

// enlist notes that the script that has just run wants to see the response.
func (run *Run) enlist(q *Question, tenant string, r *Request) {
	if !q.Response || !run.reply.OnResponse {
		return
	}
	name, _, _ := strings.Cut(run.call.Script, "@")
	edition := run.reply.Edition
	if edition == nil {
		edition = run.call.Edition
	}
	to := responder{tenant: tenant, request: *r, onError: run.reply.OnError, call: gateway.Call{
		Script: name, OnResponse: true, Traceparent: run.call.Traceparent, Key: run.call.Key, Edition: edition, Origin: q.Origin,
	}}
	if edition == nil {
		to.call.Script += "@" + strconv.FormatUint(run.reply.Version, 10)
	}
	to.request.Body, to.request.HasBody = nil, false
	run.responders = append(run.responders, to)
}

// Responders returns who wants to see the response to the request, which the decision d lets go on. It
// returns nil if nobody does, or the question did not ask for them.
func (run *Run) Responders(q *Question, d *Decision) *Responders {
	if len(run.responders) == 0 || !d.Allow {
		return nil
	}
	a := &Responders{q: *q, list: run.responders, changes: d.Response}
	slices.Reverse(a.list)
	run.responders = nil
	return a
}

// Bytes is about how much memory they keep.
func (a *Responders) Bytes() int64 {
	const fixed = 512 // of each
	n := 0
	for i := range a.list {
		n += fixed + a.list[i].request.ArgumentBytes()
	}
	return int64(n)
}

// Instead returns what holds for a response that no script can see, because of err.
func (a *Responders) Instead(err error) Outcome {
	all := Outcome{Headers: a.changes}
	for i := range a.list {
		o := outcomeOf(a.q.Fail.Instead(a.list[i].onError, err))
		if both, failed := all.then(o); failed == nil {
			o = both
		}
		if all = o; o.Answer {
			break
		}
	}
	return all
}

// Decide has the scripts decide about the response, one after the other. Each gets it as the decision
// about the request and those before have left it. One that answers in the upstream's place ends this,
// and so does one that makes no decision, unless its onError or the gateway lets responses go on. Its error says
// why the outcome is not what the scripts have decided. hold charges the caller for more bytes, and reports whether there
// is room.
func (a *Responders) Decide(ctx context.Context, x gateway.Executor, r *Response, hold func(bytes int64) bool) (Outcome, error) {
	longest := script.MaxLimits().Timeout
	if a.q.Timeout > 0 {
		longest = min(longest, a.q.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	run := NewRun()
	defer run.Release()
	all := Outcome{Headers: a.changes}
	var why error
	for i := range a.list {
		run.reply.Reset()
		seen := all.applied(*r)
		o, err := a.list[i].ask(ctx, x, run, &seen, hold)
		if err == nil {
			err = o.Fits(&seen)
		}
		if err == nil {
			o, err = all.then(o)
		}
		if err != nil {
			why = err
			if o, err = all.then(outcomeOf(a.q.Fail.Instead(a.list[i].onError, err))); err != nil {
				return outcomeOf(Closed(string(script.KindOf(err)))), err
			}
		}
		if all = o; all.Answer {
			break
		}
	}
	return all, why
}

// ask has one script decide.
func (to *responder) ask(ctx context.Context, x gateway.Executor, run *Run, r *Response, hold func(int64) bool) (Outcome, error) {
	if n := int64(to.request.ArgumentBytes() + r.ArgumentBytes()); n > keptBytes && !hold(n) {
		return Outcome{}, budget.ErrOverloaded
	}
	run.call = to.call
	run.call.Request = &to.request
	run.call.Args = [][]byte{to.request.Argument(nil, to.tenant), r.Argument(nil)}
	if err := x.Execute(ctx, &run.call, &run.reply); err != nil {
		return Outcome{}, err
	}
	switch run.reply.Len() {
	case 0:
		return Outcome{}, nil
	case 1:
		return ParseOutcome(run.reply.Value(0))
	}
	return Outcome{}, invalid("", "on_response returned %d results: a decision is one table", run.reply.Len())
}
