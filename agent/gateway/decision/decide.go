package decision

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
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
// with that onError. A caller without a grant for the script is denied, whatever onError says.
func (f Fail) Instead(onError script.OnError, err error) Decision {
	kind := script.KindOf(err)
	if kind == script.Denied {
		onError = script.OnError{}
	}
	if f == FailOpen || f == FailAsScript && onError.Opens() {
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
	// Call names the script, or one version of it; Decide fills its arguments.
	Call  gateway.Call
	Reply gateway.Reply
	arg   []byte
}

// Decide has the script of the call decide about the request. Its errors are those of the call,
// and Invalid if the result is no decision.
func (run *Run) Decide(ctx context.Context, x gateway.Executor, r *Request) (Decision, error) {
	tenant, _, _ := strings.Cut(run.Call.Script, "/")
	run.arg = r.Argument(run.arg[:0], tenant)
	run.Call.Args, run.Call.Request = append(run.Call.Args[:0], run.arg), r
	if err := x.Execute(ctx, &run.Call, &run.Reply); err != nil {
		return Decision{}, err
	}
	switch run.Reply.Len() {
	case 0:
		return Allowed, nil
	case 1:
		return Parse(run.Reply.Value(0))
	}
	return Decision{}, invalid("", "the script returned %d results: a decision is one table", run.Reply.Len())
}

// Or returns the decision if err is nil, else what holds instead, of the gateway and of the script.
func (run *Run) Or(fail Fail, d Decision, err error) Decision {
	if err == nil {
		return d
	}
	return fail.Instead(run.Reply.OnError, err)
}

// keptBytes is how many bytes a Run keeps for the next request, whose caller is not charged for them.
const keptBytes = 16 << 10

var runs = sync.Pool{New: func() any { return new(Run) }}

// NewRun returns a Run for one request.
func NewRun() *Run { return runs.Get().(*Run) }

// Release ends the use of the run. It keeps small buffers for the next request.
func (run *Run) Release() {
	if cap(run.arg)+run.Reply.Held() > keptBytes {
		return
	}
	clear(run.Call.Args)
	run.Call = gateway.Call{Args: run.Call.Args[:0]}
	run.Reply.Reset()
	run.arg = run.arg[:0]
	runs.Put(run)
}
