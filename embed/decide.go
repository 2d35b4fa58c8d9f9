package embed

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/client/middleware"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ middleware.Decider = (*Agent)(nil)

// Decide implements middleware.Decider. Its decision is that of http.sock for the same request.
func (a *Agent) Decide(ctx context.Context, rule *middleware.Rule, r *middleware.Request) (*middleware.Decision, error) {
	if !a.begin() {
		return nil, errClosed
	}
	defer a.calling.RUnlock()
	fail, err := decision.ParseFail(rule.Fail)
	if err != nil {
		return nil, err
	}
	target, err := decision.ParseTarget(rule.Script)
	if err != nil {
		return nil, err
	}
	run := decision.NewRun()
	defer run.Release()
	asked := request(rule, r)
	made, err := a.ask(ctx, run, &decision.Question{
		Target: target, Timeout: rule.Timeout, Traceparent: r.Header.Get("Traceparent"), Key: asked.Key(script.KeySource(rule.Key)), Origin: embedded,
	}, asked)
	if err != nil {
		a.log.Debug("a request gets no decision", "script", rule.Script, "error", err)
	}
	made = run.Or(fail, made, err)
	d := &middleware.Decision{
		Allow: made.Allow, Status: made.Status, Body: made.Body, Request: changes(&made.Request), Response: changes(&made.Response),
		Upstream: made.Upstream, Path: made.Path, Query: made.Query, Metadata: made.Metadata, Version: run.Version(), Chain: run.Chain(),
	}
	if err != nil {
		d.Reason = string(script.KindOf(err))
	}
	return d, nil
}

// freeBytes are what each decision may hold of its request; large ones share a budget, as over sockets.
const freeBytes = 16 << 10

// ask has the script decide, if there is room for the request.
func (a *Agent) ask(ctx context.Context, run *decision.Run, q *decision.Question, r *decision.Request) (decision.Decision, error) {
	if n := r.ArgumentBytes(); n > freeBytes {
		var claim budget.Claim
		a.budget.Open(&claim, r.RemoteAddr, nil)
		defer claim.Close()
		if !claim.Try(int64(n)) {
			return decision.Decision{}, budget.ErrOverloaded
		}
		q.Hold = func(bytes int64) bool { return claim.Try(bytes) } // the claim ends with the decision
	}
	return run.Decide(ctx, a.executor, q, r)
}

// request describes the client's request to the script.
func request(rule *middleware.Rule, r *middleware.Request) *decision.Request {
	asked := &decision.Request{
		Method: r.Method, Scheme: middleware.SchemeOf(r.Request), Host: r.Host,
		// What handlers go by: net/http may have understood it as another path than came.
		Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Headers: decision.HeadersOf(r.Header), RemoteAddr: r.RemoteIP, Params: rule.Params,
		Body: r.Content, HasBody: r.HasContent,
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		asked.ClientCertificate = r.TLS.VerifiedChains[0][0].Subject.String()
	}
	return asked
}

func changes(c *decision.Changes) middleware.Changes {
	return middleware.Changes{Remove: c.Remove, Set: headers(c.Set), Append: headers(c.Append)}
}

func headers(list []decision.Header) []middleware.Header {
	if len(list) == 0 {
		return nil
	}
	out := make([]middleware.Header, len(list))
	for i, h := range list {
		out[i] = middleware.Header{h.Name, h.Value}
	}
	return out
}
