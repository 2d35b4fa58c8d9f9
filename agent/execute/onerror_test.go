package execute_test

import (
	"context"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestOnError: a reply has the onError of the version that its call was of, whatever comes of the call.
func TestOnError(t *testing.T) {
	n := newNode(t, 1<<20, 1, 1)
	open, busy, later := script.OnError{Policy: script.PolicyOpen}, script.OnError{Status: 429}, script.OnError{Body: "later\n"}
	// Each version has its own, and the document of each is there.
	editions := func(r *script.Release, all ...script.OnError) {
		for i, onError := range all {
			s := script.Spec{OnError: onError}
			r.Retained[i] = r.Retained[i].With(s)
			n.sources[r.Retained[i].Spec] = s.Document()
			r.Active, r.Settings.Spec = r.Retained[i], s
		}
	}
	n.publish("route", func(r *script.Release) { editions(r, open, later, script.OnError{}, busy) }, "one", "remote far", "three", "fail")
	n.publish("lost", func(r *script.Release) {
		editions(r, script.OnError{Status: 418}, busy)
		delete(n.sources, r.Retained[0].Spec)
	}, "one", "two")
	n.publish("off", func(r *script.Release) { editions(r, open, busy); r.Enabled = false }, "one", "two")
	n.publish("untried", func(r *script.Release) {
		editions(r, open)
		r.Candidate = &script.Candidate{Version: r.Active, Spec: r.Settings.Spec, Attempt: 1}
	}, "one")
	n.publish("trying", func(r *script.Release) {
		editions(r, open, busy)
		r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: r.Settings.Spec, Attempt: 1, Threshold: everywhere}
		r.Active, r.Settings.OnError = r.Retained[0], open
	}, "one", "two")
	n.publish("waits", func(r *script.Release) { editions(r, open) }, "wait")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var reply gateway.Reply
	for _, tt := range []struct {
		ctx  context.Context
		ref  string
		kind script.Kind
		want script.OnError
	}{
		{nil, "acme/route", script.Script, busy},
		{nil, "acme/route@1", "", open},
		{nil, "acme/route@2", script.Unavailable, later},
		{nil, "acme/route@3", "", script.OnError{}},
		{nil, "acme/route@4", script.Script, busy},
		{nil, "acme/route@9", script.NotFound, script.OnError{}},
		{nil, "acme/lost", "", busy},
		{nil, "acme/lost@1", script.Unavailable, script.OnError{}},
		{nil, "acme/off", script.Disabled, busy},
		{nil, "acme/off@1", script.Disabled, open},
		{nil, "acme/untried", script.Disabled, open},
		{nil, "acme/trying", "", busy},
		{nil, "acme/trying@1", "", open},
		{over, "acme/waits", script.Timeout, open},
		{nil, "acme/nothing", script.NotFound, script.OnError{}},
		{nil, "Acme/Route", script.Invalid, script.OnError{}},
	} {
		ctx := t.Context()
		if tt.ctx != nil {
			ctx = tt.ctx
		}
		err := n.Execute(ctx, &gateway.Call{Script: tt.ref}, &reply) // that has what was said before
		if script.KindOf(err) != tt.kind && tt.ctx == nil || reply.OnError != tt.want {
			t.Errorf("%s: %v, %+v; want %s, %+v", tt.ref, err, reply.OnError, tt.kind, tt.want)
		}
		if got := n.OnError(t.Context(), tt.ref); got != tt.want {
			t.Errorf("%s: %+v without a call, want %+v", tt.ref, got, tt.want)
		}
	}
	reply.OnError = open
	if reply.Reset(); !reply.OnError.IsZero() {
		t.Errorf("after a reset: %+v", reply.OnError)
	}
}

// TestOnErrorOfAnOverload: a call that finds no room was of a script all the same.
func TestOnErrorOfAnOverload(t *testing.T) {
	n := newNode(t, 1<<20, 1, 1)
	open := script.OnError{Policy: script.PolicyOpen}
	n.publish("waits", func(r *script.Release) { r.Settings.OnError, r.Settings.Limits.Timeout = open, 10*time.Second }, "wait")
	ctx, cancel := context.WithCancel(t.Context())
	const calls = 8
	type result struct {
		err     error
		onError script.OnError
	}
	results := make(chan result, calls)
	for range calls {
		go func() {
			var reply gateway.Reply
			err := n.Execute(ctx, &gateway.Call{Script: "acme/waits"}, &reply)
			results <- result{err, reply.OnError}
		}()
	}
	first := <-results // one that is refused: none of the others ends by itself
	cancel()
	if script.KindOf(first.err) != script.Overloaded || first.onError != open {
		t.Errorf("refused: %+v", first)
	}
	for range calls - 1 {
		if r := <-results; r.onError != open {
			t.Errorf("%+v", r)
		}
	}
}

// TestNoMemoryForTheDefault: most scripts have it.
func TestNoMemoryForTheDefault(t *testing.T) {
	if r := cache.NewRelease(script.Release{}); r.OnError != nil {
		t.Errorf("%+v", r.OnError)
	}
}
