package worker_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestOnErrorOfAProcess: what holds without a decision is known without the tenant's process, and the
// process says it at its own sockets.
func TestOnErrorOfAProcess(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	open, busy := script.OnError{Policy: script.PolicyOpen}, script.OnError{Status: 429, Body: "later\n"}
	const source = `error("a fault")`
	publish := func(name string, enabled bool) {
		w.revision++
		r := script.Release{Name: script.Name{Tenant: "acme", Script: name}, Revision: w.revision, Enabled: enabled, Latest: 2}
		for i, onError := range []script.OnError{busy, open} {
			s := script.Spec{OnError: onError}
			v := script.Version{Number: uint64(i + 1), Digest: w.keep(source), Engine: "lua", Size: len(source)}.With(s)
			w.keep(string(s.Document()))
			r.Active, r.Settings.Spec, r.Retained = v, s, append(r.Retained, v)
		}
		w.commit([]script.Object{{Release: &r}})
	}
	publish("route", true)
	publish("off", false)
	w.publish("breaking", "acme/dies", "overflow")
	w.begun("acme")
	want := func(ref string, kind script.Kind, want script.OnError) {
		t.Helper()
		var reply gateway.Reply
		if err := w.router.Execute(t.Context(), &gateway.Call{Script: ref}, &reply); script.KindOf(err) != kind || reply.OnError != want {
			t.Errorf("%s: %v, %+v; want %s, %+v", ref, err, reply.OnError, kind, want)
		}
	}
	want("acme/route", script.Script, open)
	want("acme/route@1", script.Script, busy)
	want("acme/route@9", script.NotFound, script.OnError{})
	want("acme/off", script.Disabled, open)
	want("acme/dies", script.Unavailable, script.OnError{})

	w.pid("acme")
	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.socket("acme", "http"))
	}}}
	defer web.CloseIdleConnections()
	for path, want := range map[string]int{"route/": 200, "route@1/": 429, "off/": 200, "none/": 503} {
		resp, err := web.Get("http://tenant/v1/decide/acme/" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
}
