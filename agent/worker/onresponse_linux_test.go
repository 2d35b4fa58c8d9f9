package worker_test

import (
	"encoding/json"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestOnResponseInAProcess: the version that has decided about a request sees the response in the
// tenant's process, too, whatever is live by then.
func TestOnResponseInAProcess(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	publish := func(enabled bool, event string, sources ...string) {
		w.revision++
		r := script.Release{Name: script.Name{Tenant: "acme", Script: "a"}, Revision: w.revision, Enabled: enabled, Latest: uint64(len(sources))}
		r.Settings.Trigger = script.Trigger{Event: event}
		for i, source := range sources {
			r.Active = script.Version{Number: uint64(i + 1), Digest: w.keep(source), Engine: "lua", Size: len(source), Entrypoint: "handle"}
			r.Retained = append(r.Retained, r.Active)
		}
		w.commit([]script.Object{{Release: &r}})
	}
	const one = `function handle() return { metadata = { v = 1 } } end
function on_response(request, response) return { body = "one " .. request.path .. " " .. response.status } end`
	const two = `function handle() return { metadata = { v = 2 } } end
function on_response() error("two") end`
	for _, tt := range []struct {
		name     string
		question decision.Question
		change   func()
		want     string // the body, or the kind of the error
	}{
		{"nothing changes", decision.Question{Target: decision.Target{Script: "acme/a"}}, func() {}, "one /x 200"},
		{"another version", decision.Question{Target: decision.Target{Script: "acme/a"}}, func() { publish(true, "", one, two) }, "one /x 200"},
		{"disabled", decision.Question{Target: decision.Target{Script: "acme/a"}}, func() { publish(false, "", one) }, "one /x 200"},
		{"deleted", decision.Question{Target: decision.Target{Script: "acme/a"}}, func() { w.commit(nil, "releases/acme/a") }, "NOTFOUND"},
		{"a chain, deleted", decision.Question{Target: decision.Target{Tenant: "acme", Event: "pre"}}, func() { w.commit(nil, "releases/acme/a") }, "one /x 200"},
		{"a version by its number", decision.Question{Target: decision.Target{Script: "acme/a@1"}}, func() { publish(true, "", one, two) }, "one /x 200"},
	} {
		publish(true, tt.question.Target.Event, one)
		w.begun("acme")
		run := decision.NewRun()
		tt.question.Response = true
		d, err := run.Decide(t.Context(), w.router, &tt.question, &decision.Request{Path: "/x"})
		if err != nil || !json.Valid(d.Metadata) || string(d.Metadata) != `{"v":1}` {
			t.Fatalf("%s: %+v, %v", tt.name, d, err)
		}
		responders := run.Responders(&tt.question, &d)
		run.Release()
		if responders == nil {
			t.Fatalf("%s: nobody sees the response", tt.name)
		}
		tt.change()
		o, err := responders.Decide(t.Context(), w.router, &decision.Response{Status: 200}, func(int64) bool { return true })
		got := string(script.KindOf(err))
		if err == nil && o.Body != nil {
			got = *o.Body
		}
		if got != tt.want || o.Answer != (err != nil) {
			t.Errorf("%s: %+v, %v; want %s", tt.name, o, err, tt.want)
		}
	}
}
