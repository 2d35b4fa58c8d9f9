package worker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	gatewaydecision "github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// kept is a sink that keeps what it gets.
type kept struct {
	mu    sync.Mutex
	lines []string
}

func (k *kept) Write(_ context.Context, records [][]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range records {
		k.lines = append(k.lines, string(r))
	}
	return nil
}

func (k *kept) Close(context.Context) error { return nil }

func (k *kept) records(t *testing.T) (all []decision.Record, text string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, line := range k.lines {
		var r decision.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, r)
	}
	return all, strings.Join(k.lines, "\n")
}

func eventually(t *testing.T, w *world, what string, so func() bool) {
	t.Helper()
	if !w.until(so) {
		t.Fatalf("it did not come about that %s", what)
	}
}

// recording starts a world whose processes hand their records over to the sink.
func recording(t *testing.T, spoolBytes int64, settings script.TenantSettings) (*world, *kept) {
	t.Helper()
	sink := &kept{}
	settings.Isolation = script.IsolationProcess
	w := newWorld(t, func(c *worker.Config) {
		r, err := decisionlog.New(decisionlog.Config{
			Agent: "node-1", Outputs: []decisionlog.Output{{Name: "test", ID: "test", Sink: sink}}, Log: slog.New(slog.DiscardHandler),
			Tenants: c.Node.Tenants.Settings, Spool: filepath.Join(t.TempDir(), "spool"), SpoolBytes: spoolBytes,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close(context.Background()) })
		c.Records, c.Observers = r, []execute.Observer{r}
	}, script.Tenant{Name: "acme", Revision: 1, Settings: settings})
	return w, sink
}

// TestRecordsOfAProcess: calls that the agent forwards, those at the tenant's own sockets, and those that
// no process answers. What is masked does not leave the process.
func TestRecordsOfAProcess(t *testing.T) {
	const canary = "CANARY-3f9a"
	w, sink := recording(t, 0, script.TenantSettings{Decisions: &script.Decisions{Sample: 1, Mask: []string{"headers.authorization", "token"}}})
	w.publish("lua", "acme/route", `function handle(r) if r.fail then error("bad " .. r.token) end return {copy = r.token} end`)
	w.publish("breaking", "acme/dies", "overflow")
	w.begun("acme")
	for _, arg := range []string{`{"to":"blue","token":"` + canary + `"}`, `{"fail":true,"token":"` + canary + `"}`} {
		var reply gateway.Reply
		_ = w.router.Execute(t.Context(), &gateway.Call{Script: "acme/route", Args: [][]byte{[]byte(arg)}, Origin: gateway.Origin{Protocol: "resp", Caller: "uid 7"}}, &reply)
	}
	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.socket("acme", "http"))
	}}}
	defer web.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://tenant/v1/decide/acme/route/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+canary)
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	eventually(t, w, "the records are there", func() bool { all, _ := sink.records(t); return len(all) == 3 })
	var reply gateway.Reply
	if err := w.router.Execute(t.Context(), &gateway.Call{Script: "acme/dies"}, &reply); script.KindOf(err) != script.Unavailable {
		t.Errorf("a script that ends its process: %v", err)
	}
	eventually(t, w, "that of the lost call, too", func() bool { all, _ := sink.records(t); return len(all) == 4 })
	all, text := sink.records(t)
	if strings.Contains(text, "3f9a") {
		t.Errorf("what is masked is in the records:\n%s", text)
	}
	for i, want := range []decision.Record{
		{Script: "route", Outcome: "OK", Protocol: "resp", RequestedBy: "uid 7", Result: json.RawMessage(`{"copy":"***"}`), Masked: []string{"/input/token", "/result/copy"}},
		{Script: "route", Outcome: "SCRIPT", Protocol: "resp", RequestedBy: "uid 7", Erased: []string{"/error/message"}},
		{Script: "route", Outcome: "OK", Protocol: "http"},
		{Script: "dies", Outcome: "UNAVAILABLE"},
	} {
		got := all[i]
		if got.Tenant != "acme" || got.Script != want.Script || got.Labels["agent"] != "node-1" || got.Outcome != want.Outcome || got.Protocol != want.Protocol ||
			want.RequestedBy != "" && got.RequestedBy != want.RequestedBy || want.Result != nil && string(got.Result) != string(want.Result) ||
			want.Erased != nil && strings.Join(got.Erased, " ") != strings.Join(want.Erased, " ") {
			t.Errorf("record %d: %+v", i, got)
		}
	}
}

// TestStrictRecordsOfAProcess: a call waits for the agent's disk, and fails if that has no room.
func TestStrictRecordsOfAProcess(t *testing.T) {
	for name, spool := range map[string]int64{"with room": 1 << 20, "without": 1, "without a spool": 0} {
		w, sink := recording(t, spool, script.TenantSettings{Audit: script.AuditStrict})
		w.publish("lua", "acme/route", `function handle(r) return r end`)
		w.begun("acme")
		var reply gateway.Reply
		err := w.router.Execute(t.Context(), &gateway.Call{Script: "acme/route", Args: [][]byte{[]byte(`1`)}}, &reply)
		if spool == 1<<20 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			eventually(t, w, "the record is there", func() bool { all, _ := sink.records(t); return len(all) == 1 })
			continue
		}
		if script.KindOf(err) != script.Unavailable || reply.Len() != 0 || !strings.Contains(err.Error(), "the audit of tenant acme is strict") {
			t.Errorf("%s: %v with %d results", name, err, reply.Len())
		}
	}
}

// TestUnrecordedRequestOfAProcess: a request of a strict audit whose record is not kept is denied,
// also if the script's onError is open.
func TestUnrecordedRequestOfAProcess(t *testing.T) {
	w, _ := recording(t, 1, script.TenantSettings{Audit: script.AuditStrict})
	s := script.Spec{OnError: script.OnError{Policy: script.PolicyOpen}}
	s.Limits.Timeout = script.MaxLimits().Timeout // a call that is late lets the request through
	w.keep(string(s.Document()))
	const source = `function handle(r) return {allow = true} end`
	v := script.Version{Number: 1, Digest: w.keep(source), Engine: "lua", Size: len(source)}.With(s)
	r := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: w.revision + 1, Enabled: true, Latest: 1, Active: v, Retained: []script.Version{v}}
	r.Settings.Spec = s
	w.revision++
	w.commit([]script.Object{{Release: &r}})
	w.begun("acme")
	run := gatewaydecision.NewRun()
	defer run.Release()
	q := &gatewaydecision.Question{Target: gatewaydecision.Target{Script: "acme/route"}}
	d, err := run.Decide(t.Context(), w.router, q, &gatewaydecision.Request{})
	if got := run.Or(q.Fail, d, err); got.Allow || got.Status != http.StatusServiceUnavailable || script.KindOf(err) != script.Unavailable {
		t.Errorf("without a record the request gets %+v, %v", got, err)
	}
	if !run.OnError().Opens() {
		t.Error("the script's onError is not known: the test shows nothing")
	}
}

// TestRecordOfAVersionThatEndsItsProcess: the masks of the called version apply, and not the masks of the live one.
func TestRecordOfAVersionThatEndsItsProcess(t *testing.T) {
	const canary = "CANARY-3f9a"
	w, sink := recording(t, 0, script.TenantSettings{})
	w.revision++
	r := script.Release{Name: script.Name{Tenant: "acme", Script: "dies"}, Revision: w.revision, Enabled: true, Latest: 2}
	for i, masks := range [][]string{{"token"}, nil} {
		s := script.Spec{Decisions: &script.Decisions{Sample: 1, Mask: masks}}
		v := script.Version{Number: uint64(i + 1), Digest: w.keep("overflow"), Engine: "breaking", Size: len("overflow")}.With(s)
		w.keep(string(s.Document()))
		r.Active, r.Settings.Spec, r.Retained = v, s, append(r.Retained, v)
	}
	w.commit([]script.Object{{Release: &r}})
	_, _ = w.call("acme/dies@1", `{"token":"`+canary+`"}`)
	eventually(t, w, "there is a record", func() bool { all, _ := sink.records(t); return len(all) > 0 })
	if all, text := sink.records(t); strings.Contains(text, canary) || len(all[0].Erased) == 0 {
		t.Errorf("the record is %s", text)
	}
}

// TestStrictCallThatIsGivenUp: the agent keeps its record, since the process may never do so.
func TestStrictCallThatIsGivenUp(t *testing.T) {
	w, sink := recording(t, 1<<20, script.TenantSettings{Audit: script.AuditStrict})
	w.publish("breaking", "acme/slow", "wait")
	w.publish("lua", "acme/route", `return 1`)
	w.answer("acme/route")
	pid := w.pid("acme")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := w.callWithin(100*time.Millisecond, "acme/slow"); err == nil {
		t.Error("a process that is stopped answers")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	eventually(t, w, "there is a record", func() bool { _, text := sink.records(t); return strings.Contains(text, `"acme/slow"`) })
}
