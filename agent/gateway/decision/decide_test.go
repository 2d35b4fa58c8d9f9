package decision_test

import (
	"context"
	"errors"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestInstead(t *testing.T) {
	open, busy := script.OnError{Policy: script.PolicyOpen}, script.OnError{Status: 429, Body: "later\n"}
	closed, asSays, opened := decision.Decision{Status: 503, Body: "no decision\n"}, decision.Decision{Status: 429, Body: "later\n"}, decision.Decision{Allow: true}
	for _, tt := range []struct {
		name    string
		fail    decision.Fail
		onError script.OnError
		kind    script.Kind
		want    decision.Decision
	}{
		{"neither says anything", decision.FailAsScript, script.OnError{}, script.Script, closed},
		{"the script is open", decision.FailAsScript, open, script.Timeout, opened},
		{"the script is closed", decision.FailAsScript, busy, script.Limit, asSays},
		{"the gateway is closed", decision.FailClosed, open, script.Script, closed},
		{"both are closed", decision.FailClosed, busy, script.Script, asSays},
		{"the gateway is open", decision.FailOpen, busy, script.Script, opened},
		{"a body alone", decision.FailAsScript, script.OnError{Body: "later\n"}, script.Script, decision.Decision{Status: 503, Body: "later\n"}},
		{"a status alone", decision.FailAsScript, script.OnError{Status: 429}, script.Script, decision.Decision{Status: 429, Body: "no decision\n"}},
		{"a status without a body", decision.FailAsScript, script.OnError{Status: 304}, script.Script, decision.Decision{Status: 304}},
		{"a caller without a grant", decision.FailAsScript, open, script.Denied, closed},
		{"a caller without a grant learns nothing", decision.FailClosed, busy, script.Denied, closed},
		{"a caller without a grant at an open gateway", decision.FailOpen, busy, script.Denied, opened},
	} {
		got := tt.fail.Instead(tt.onError, script.Errorf(tt.kind, "", "a fault"))
		reason := got.Response.Set
		if got.Allow != tt.want.Allow || got.Status != tt.want.Status || got.Body != tt.want.Body || len(reason) != 1 || reason[0].Value != string(tt.kind) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestInsteadOfAnUnrecordedCall: onError does not let a request go on whose record a strict audit did not keep.
func TestInsteadOfAnUnrecordedCall(t *testing.T) {
	err := decisionlog.NotKept("acme", errors.New("the disk is full"))
	for _, tt := range []struct {
		fail    decision.Fail
		onError script.OnError
		allow   bool
		status  int
	}{
		{decision.FailAsScript, script.OnError{Policy: script.PolicyOpen}, false, 503},
		{decision.FailAsScript, script.OnError{Status: 429}, false, 429},
		{decision.FailClosed, script.OnError{Policy: script.PolicyOpen}, false, 503},
		{decision.FailOpen, script.OnError{}, true, 0},
	} {
		if got := tt.fail.Instead(tt.onError, err); got.Allow != tt.allow || got.Status != tt.status {
			t.Errorf("%v, %+v: %+v", tt.fail, tt.onError, got)
		}
	}
	unavailable := script.Errorf(script.Unavailable, "tenant", "the process has ended")
	if got := decision.FailAsScript.Instead(script.OnError{Policy: script.PolicyOpen}, unavailable); !got.Allow {
		t.Errorf("a call that fails in another way: %+v", got)
	}
}

// TestRunOr: what a run says is of its own script.
func TestRunOr(t *testing.T) {
	x := gatewaytest.New()
	x.SetOnError("acme/fail", script.OnError{Policy: script.PolicyOpen})
	run := decision.NewRun()
	d, err := run.Decide(context.Background(), x, &decision.Question{Target: decision.Target{Script: "acme/fail"}}, &decision.Request{})
	if got := run.Or(decision.FailAsScript, d, err); err == nil || !got.Allow {
		t.Errorf("%+v, %v", got, err)
	}
	run.Release()
	if got := run.Or(decision.FailAsScript, d, err); got.Allow {
		t.Errorf("a run that knows no script: %+v", got)
	}
	if got := run.Or(decision.FailAsScript, decision.Decision{Status: 418}, nil); got.Status != 418 {
		t.Errorf("a decision: %+v", got)
	}
	for text, want := range map[string]decision.Fail{"": decision.FailAsScript, "closed": decision.FailClosed, "open": decision.FailOpen} {
		if got, err := decision.ParseFail(text); err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
}
