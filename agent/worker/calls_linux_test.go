package worker_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/script"
)

const scriptCalls = "scriptorium_script_calls_total"

// counted has the calls of all tenants counted.
func counted(cfg *worker.Config) {
	calls, err := callstats.New(callstats.Config{Table: cfg.Node.Table, Metrics: cfg.Metrics})
	if err != nil {
		panic(err)
	}
	cfg.Calls, cfg.MetricScripts, cfg.Observers = calls, 2, []execute.Observer{calls}
}

// TestCallsOfProcessesAreCounted: what a tenant's process counts, the agent has among its own metrics, and so has the
// tenant's socket.
func TestCallsOfProcessesAreCounted(t *testing.T) {
	w := newWorld(t, counted, walled("acme"))
	w.publish("lua", "acme/good", `return 1`)
	w.publish("lua", "acme/bad", `error("no")`)
	w.publish("lua", "acme/third", `return 3`)
	w.begun("acme")
	w.answer("acme/good")
	before := w.metric(scriptCalls, "good")
	w.until(func() bool { before = w.metric(scriptCalls, "good"); return before > 0 })
	for range 5 {
		w.answer("acme/good")
	}
	for range 3 {
		if _, err := w.call("acme/bad"); script.KindOf(err) != script.Script {
			t.Errorf("bad: %v", err)
		}
		if _, err := w.call("acme/nothing"); script.KindOf(err) != script.NotFound {
			t.Errorf("nothing: %v", err)
		}
	}
	w.answer("acme/third") // which has no place in the process
	want := func(metric, label string, value float64) {
		t.Helper()
		if !w.until(func() bool { return w.metric(metric, label) == value }) {
			t.Errorf("%s of %s is %v, want %v", metric, label, w.metric(metric, label), value)
		}
	}
	want(scriptCalls, "good", before+5)
	want(scriptCalls, "bad", 3)
	want(scriptCalls, "other", 1)
	want(scriptCalls, "nothing", 0)
	want("scriptorium_script_call_seconds", "bad", 3)
	if w.metric("scriptorium_script_instructions_total", "good") == 0 {
		t.Error("no instructions are counted")
	}

	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.socket("acme", "http"))
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(text), `scriptorium_script_calls_total{outcome="SCRIPT",script="bad",tenant="acme"} 3`) {
		t.Errorf("the tenant's own metrics lack its calls: %v\n%s", err, text)
	}
}

// TestCallsWithoutAProcessAreCounted: calls whose process ended, and those that were refused as there is none, count in
// the agent.
func TestCallsWithoutAProcessAreCounted(t *testing.T) {
	w := newWorld(t, counted, walled("acme"))
	w.publish("breaking", "acme/fatal", "overflow")
	w.publish("breaking", "acme/fine", "fine")
	w.answer("acme/fine")
	if _, err := w.call("acme/fatal"); script.KindOf(err) != script.Unavailable {
		t.Errorf("fatal: %v", err)
	}
	if n := w.metric(scriptCalls, "fatal"); n != 1 {
		t.Errorf("%v calls of the script that ended the process are counted, want 1", n)
	}
	if err := w.pool.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := w.metric(scriptCalls, string(script.Unavailable))
	if _, err := w.call("acme/fine@1"); script.KindOf(err) != script.Unavailable {
		t.Errorf("fine: %v", err)
	}
	if n := w.metric(scriptCalls, string(script.Unavailable)) - before; n != 1 {
		t.Errorf("%v refused calls are counted, want 1", n)
	}
}
