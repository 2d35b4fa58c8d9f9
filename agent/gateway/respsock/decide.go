package respsock

import (
	"bytes"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// decideSyntax is that of the command for a decision.
const decideSyntax = "tenant/script|event=name/tenant request [FAIL closed|open] [TIMEOUT milliseconds] [TRACEPARENT traceparent] [KEY key]"

// decide serves SCRIPTORIUM.DECIDE, which takes a request of a gateway as JSON. It answers a decision, also
// if the call fails; an error is about the command, and no decision.
func (c *conn) decide(w *work) {
	out, err := c.tryDecide(w)
	if err != nil {
		w.out = appendFailure(w.out, err)
		return
	}
	w.out = appendBulk(w.out, out)
}

// What a request takes while it is read, besides its text: for each byte a copy in the text of the members
// and one in a body, and for each text its place in a map.
const (
	requestBytes = 3
	textBytes    = 128
)

func (c *conn) tryDecide(w *work) ([]byte, error) {
	name, text := w.parser.args[1], w.parser.args[2]
	options, err := parseOptions(w.parser.args[3:], "SCRIPTORIUM.DECIDE "+decideSyntax, "FAIL", "TIMEOUT", "TRACEPARENT", "KEY")
	if err != nil {
		return nil, err
	}
	run := decision.NewRun()
	defer run.Release()
	charge := int64(requestBytes*len(text) + textBytes*bytes.Count(text, []byte(`"`))/2)
	if !c.claim.Try(charge) {
		return c.document(run, options.fail, decision.Decision{}, budget.ErrOverloaded)
	}
	defer func() { c.claim.Give(charge) }()
	request, err := decision.ParseRequest(text)
	if err != nil {
		return nil, err
	}
	hold := func(bytes int64) bool {
		ok := c.claim.Try(bytes)
		if ok {
			charge += bytes
		}
		return ok
	}
	if !hold(int64(request.ArgumentBytes())) {
		return c.document(run, options.fail, decision.Decision{}, budget.ErrOverloaded)
	}
	var d decision.Decision
	target, err := c.target(name)
	if script.KindOf(err) == script.Invalid {
		return nil, err // the command, and not the call
	}
	if err == nil {
		c.srv.calls.Add(1)
		d, err = run.Decide(c.srv.conns.Context(), c.srv.opts.Executor, &decision.Question{
			Target: target, Timeout: options.timeout, Traceparent: options.traceparent, Key: options.key, Hold: hold, Origin: c.origin(),
		}, request)
	}
	return c.document(run, options.fail, d, err)
}

// target returns what the name names, and an error if the peer may not ask for its decision.
func (c *conn) target(name []byte) (decision.Target, error) {
	if _, _, ok := script.CutEvent(string(name)); !ok {
		callee := c.callee(name)
		return decision.Target{Script: callee.script}, callee.err
	}
	t, err := decision.ParseTarget(string(name))
	if err == nil {
		err = t.Check(c.grant)
	}
	return t, err
}

// document returns the decision as JSON, or what holds instead if err is not nil.
func (c *conn) document(run *decision.Run, fail decision.Fail, d decision.Decision, err error) ([]byte, error) {
	if err != nil {
		c.srv.opts.Logger.Debug("a request gets no decision", "error", err)
	}
	d = run.Or(fail, d, err)
	return run.Document(&d, err)
}
