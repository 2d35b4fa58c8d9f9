package worker_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAChainInAProcess: the scripts of a chain run in the tenant's process, as they were live when it
// began, and as they are at the process's own sockets.
func TestAChainInAProcess(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	publish := func(name string, version uint64, source string, enabled bool) {
		w.revision++
		r := script.Release{Name: script.Name{Tenant: "acme", Script: name}, Revision: w.revision, Enabled: enabled, Latest: version}
		r.Settings.Trigger = script.Trigger{Event: "pre", Priority: -int(name[0])}
		r.Active = script.Version{Number: version, Digest: w.keep(source), Engine: "lua", Size: len(source), Entrypoint: "handle"}
		r.Retained = []script.Version{r.Active} // none of before
		w.commit([]script.Object{{Release: &r}})
	}
	returns := func(result string) string { return "function handle() return " + result + " end" }
	publish("a", 1, returns(`{ headers = { set = { ["x-a"] = "1" } } }`), true)
	publish("b", 1, returns(`"b1"`), true)
	publish("c", 1, returns(`"c1"`), true)
	publish("d", 1, `function handle() error("a fault") end`, true)
	w.answer("acme/a")

	attributes := script.AttributesOf("GET", "shop.example", "/", nil)
	links, err := w.router.Chain(nil, "acme", "pre", &attributes, &gateway.Call{})
	if err != nil || len(links) != 4 {
		t.Fatalf("%v, %v", links, err)
	}
	run := func(l gateway.Link) (string, error) {
		var reply gateway.Reply
		reply.OnError = script.OnError{Policy: script.PolicyOpen} // of a call before
		err := w.router.Execute(t.Context(), &gateway.Call{Script: l.Script.String(), Edition: l.Edition}, &reply)
		if reply.OnError != (script.OnError{}) {
			t.Errorf("%s: %+v", l.Script, reply.OnError)
		}
		if err != nil || reply.Len() == 0 {
			return "", err
		}
		return string(reply.Value(0)), nil
	}
	publish("b", 2, returns(`"b2"`), true)
	publish("c", 1, returns(`"c1"`), false)
	w.commit(nil, "releases/acme/d")
	for i, want := range []string{`{"headers":{"set":{"x-a":"1"}}}`, `"b1"`, `"c1"`} {
		if got, err := run(links[i]); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", links[i].Script, got, err, want)
		}
	}
	if _, err := run(links[3]); script.KindOf(err) != script.Script {
		t.Errorf("a script that is gone meanwhile: %v, want its own fault", err)
	}
	if got := w.answer("acme/b"); got != `"b2"` {
		t.Errorf("a call of now: %s", got)
	}
	gone := gateway.Link{Script: links[1].Script, Edition: cache.NewRelease(script.Release{Name: links[1].Script, Enabled: true, Active: script.Version{Number: 9}})}
	if _, err := run(gone); script.KindOf(err) != script.NotFound {
		t.Errorf("a version that the process does not have: %v", err)
	}

	publish("b", 3, returns(`{ allow = false, status = 418 }`), true)
	denies := func() bool { return w.answer("acme/b") == `{"allow":false,"status":418}` }
	if !w.until(denies) { // then the process has it, too
		t.Fatalf("a call of now: %s", w.answer("acme/b"))
	}
	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.socket("acme", "http"))
	}}}
	defer web.CloseIdleConnections()
	resp, err := web.Get("http://tenant/v1/decide/event=pre/acme/cart")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("Scriptorium-Chain") != "a@1, b@3" {
		t.Errorf("%d %s, %v", resp.StatusCode, body, resp.Header)
	}
}
