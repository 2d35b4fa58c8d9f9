package decision

import (
	"context"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Fail says what holds for a request if no decision can be made.
type Fail uint8

// The values of Fail.
const (
	FailClosed Fail = iota // it is denied
	FailOpen               // it goes on
)

// ParseFail reads a gateway's setting: "" and "closed", or "open".
func ParseFail(text string) (Fail, error) {
	switch text {
	case "", "closed":
		return FailClosed, nil
	case "open":
		return FailOpen, nil
	}
	return FailClosed, invalid("fail", "is %.20q: want closed or open", text)
}

// Or returns the decision if err is nil, else what holds instead.
func (f Fail) Or(d Decision, err error) Decision {
	switch {
	case err == nil:
		return d
	case f == FailOpen:
		return Open(string(script.KindOf(err)))
	}
	return Closed(string(script.KindOf(err)))
}

// Run is what a decision takes. It can be used again, for one request at a time.
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
	run.Call.Args = append(run.Call.Args[:0], run.arg)
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

// Held is how many bytes the run keeps for the next request.
func (run *Run) Held() int { return cap(run.arg) + run.Reply.Held() }

// Reset forgets the request, and keeps the buffers.
func (run *Run) Reset() {
	clear(run.Call.Args)
	run.Call = gateway.Call{Args: run.Call.Args[:0]}
	run.Reply.Reset()
	run.arg = run.arg[:0]
}
