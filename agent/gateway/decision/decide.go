package decision

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Fail is what a gateway wants for a request if no decision can be made.
type Fail uint8

// The values of Fail.
const (
	FailAsScript Fail = iota // what the script's onError says
	FailClosed               // it is denied, with the status and the body of the script's onError
	FailOpen                 // it goes on
)

// ParseFail reads a gateway's setting: "" if it has none, "closed" or "open".
func ParseFail(text string) (Fail, error) {
	switch text {
	case "":
		return FailAsScript, nil
	case "closed":
		return FailClosed, nil
	case "open":
		return FailOpen, nil
	}
	return FailClosed, invalid("fail", "is %.20q: want closed or open", text)
}

// Instead returns what holds in place of a decision, which err kept from being made, by a script
// with that onError. Whatever onError says, a caller without a grant for the script is denied, and so is a
// request whose record a strict audit did not keep, or for which the agent has no room: no script was called then,
// so there is no record either.
func (f Fail) Instead(onError script.OnError, err error) Decision {
	kind := script.KindOf(err)
	if kind == script.Denied || errors.Is(err, budget.ErrOverloaded) {
		onError = script.OnError{}
	}
	if f == FailOpen || f == FailAsScript && onError.Opens() && !script.Unrecorded(err) {
		return Open(string(kind))
	}
	d := Closed(string(kind))
	d.Status = cmp.Or(onError.Status, d.Status)
	if d.Body = cmp.Or(onError.Body, d.Body); d.Status == http.StatusNotModified {
		d.Body = ""
	}
	return d
}

// Run is what a decision takes.
type Run struct {
	call  gateway.Call
	reply gateway.Reply
	arg   []byte
	links []gateway.Link
	chain string
	// responders are in the order in which they have decided.
	responders []responder
}

// Question is what a gateway asks.
type Question struct {
	Target Target
	Fail   Fail
	// Timeout is how long the decision may take; 0 for as long as the scripts may.
	Timeout time.Duration
	// Traceparent is the gateway's W3C trace context, or "".
	Traceparent string
	// Key is what the request counts as in a rollout by key whose plan names no part of requests; "" for
	// none.
	Key string
	// Origin is of the calls that the decision takes.
	Origin gateway.Origin
	// Response has the run note which scripts want to see the response: see Run.Responders.
	Response bool
	// Hold charges the caller for bytes that a request takes beyond its Request.ArgumentBytes, as
	// scripts of a chain have added to it, and reports whether there is room. Nil has room.
	Hold func(bytes int64) bool
}

// Decide has the script, or the scripts of the event, decide about the request. Its errors are those
// of calls, and Invalid if a result is no decision. Or says what holds then.
func (run *Run) Decide(ctx context.Context, x gateway.Executor, q *Question, r *Request) (Decision, error) {
	if q.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.Timeout)
		defer cancel()
	}
	run.call.Traceparent, run.call.Key, run.call.Request, run.call.Origin = q.Traceparent, q.Key, r, q.Origin
	if q.Target.Event != "" {
		return run.decideInTurn(ctx, x, q, r)
	}
	run.call.Script = q.Target.Script
	tenant, _, _ := strings.Cut(run.call.Script, "/")
	d, err := run.ask(ctx, x, tenant, r)
	if err == nil {
		run.enlist(q, tenant, r)
	}
	return d, err
}

// ask has one script decide.
func (run *Run) ask(ctx context.Context, x gateway.Executor, tenant string, r *Request) (Decision, error) {
	run.arg = r.Argument(run.arg[:0], tenant)
	run.call.Args = append(run.call.Args[:0], run.arg)
	if err := x.Execute(ctx, &run.call, &run.reply); err != nil {
		return Decision{}, err
	}
	switch run.reply.Len() {
	case 0:
		return Allowed, nil
	case 1:
		return Parse(run.reply.Value(0))
	}
	return Decision{}, invalid("", "the script returned %d results: a decision is one table", run.reply.Len())
}

// Or returns the decision if err is nil, else what holds instead, of the gateway and of the script.
func (run *Run) Or(fail Fail, d Decision, err error) Decision {
	if err == nil {
		return d
	}
	return fail.Instead(run.reply.OnError, err)
}

// OnError is what the script says of a request without a decision. For a chain it is what the script
// says that has ended it so.
func (run *Run) OnError() script.OnError { return run.reply.OnError }

// Version is that of the one script that was asked; 0 if there was none, or a chain.
func (run *Run) Version() uint64 {
	if run.chain != "" {
		return 0
	}
	return run.reply.Version
}

// Chain says which scripts of a chain have run, such as "gate@7, price@3"; NoChain if none matches, and
// "" if no event was asked for.
func (run *Run) Chain() string { return run.chain }

// keptBytes is how many bytes a Run keeps for the next request, whose caller is not charged for them.
const keptBytes = 16 << 10

var runs = sync.Pool{New: func() any { return new(Run) }}

// NewRun returns a Run for one request.
func NewRun() *Run { return runs.Get().(*Run) }

// Release ends the use of the run. It keeps small buffers for the next request.
func (run *Run) Release() {
	if cap(run.arg)+run.reply.Held() > keptBytes {
		return
	}
	clear(run.call.Args)
	run.call = gateway.Call{Args: run.call.Args[:0]}
	run.reply.Reset()
	run.arg, run.chain, run.responders = run.arg[:0], "", nil
	clear(run.links) // which hold releases
	run.links = run.links[:0]
	runs.Put(run)
}
