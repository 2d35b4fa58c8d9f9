package decisionlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

var all = &script.Decisions{Sample: 1}

func TestRecord(t *testing.T) {
	e := returns(t, call("acme", `{ "path": "/a" }`), `{"to":"blue"}`)
	e.Decisions = all
	e.Call.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	got := recorded(t, e)
	want := decision.Record{
		ID: got.ID, Timestamp: time.Unix(1_700_000_000, 5_000_000).UTC(), Labels: map[string]string{"agent": "node-1"},
		Path: "acme/route", Tenant: "acme", Script: "route", Version: 3, Digest: script.DigestOf([]byte("x")).String(), Revision: "41", StalenessMS: 1,
		TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SpanID: "00f067aa0ba902b7", Protocol: "resp", RequestedBy: "uid 7",
		DurationNS: 1_000_000, Instructions: 12, Outcome: "OK", Input: json.RawMessage(`{"path":"/a"}`), Result: json.RawMessage(`{"to":"blue"}`),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	if len(got.ID) != 36 || got.ID[14] != '4' {
		t.Errorf("%s is no UUID", got.ID)
	}
}

func TestRecordsOfParts(t *testing.T) {
	big := `"` + strings.Repeat("x", decisionlog.MaxPart) + `"`
	masks := &script.Decisions{Sample: 1, Mask: []string{"token"}}
	for name, tt := range map[string]struct {
		e     *execute.Ended
		check func(decision.Record) bool
	}{
		"several": {returns(t, call("acme", `1`, `"a"`), `2`, `[]`), func(r decision.Record) bool {
			return string(r.Input) == `[1,"a"]` && *r.Arguments == 2 && string(r.Result) == `[2,[]]` && *r.Results == 2
		}},
		"one that is a list": {returns(t, call("acme", `[1,2]`), `[3]`), func(r decision.Record) bool {
			return string(r.Input) == `[1,2]` && r.Arguments == nil && string(r.Result) == `[3]` && r.Results == nil
		}},
		"none": {call("acme"), func(r decision.Record) bool {
			return r.Input == nil && *r.Arguments == 0 && r.Result == nil && *r.Results == 0
		}},
		"large arguments": {returns(t, call("acme", big), `1`), func(r decision.Record) bool {
			return r.Input == nil && reflect.DeepEqual(r.Truncated, []string{"input"}) && string(r.Result) == `1`
		}},
		"a large result": {returns(t, call("acme", `1`), big), func(r decision.Record) bool {
			return string(r.Input) == `1` && reflect.DeepEqual(r.Truncated, []string{"result"}) && r.Result == nil
		}},
		"no JSON": {fails(call("acme", `{`), script.Errorf(script.Invalid, "args[0]", "is not JSON")), func(r decision.Record) bool {
			return r.Input == nil && reflect.DeepEqual(r.Erased, []string{"/input"}) && r.Error.Message == "is not JSON" && r.Error.Field == "args[0]"
		}},
		"an error": {fails(call("acme", `1`), &script.Error{Kind: script.Script, Message: "no \"such\" thing\n", Line: 3, Column: 2}), func(r decision.Record) bool {
			return r.Outcome == "SCRIPT" && *r.Error == decision.Error{Kind: "SCRIPT", Message: "no \"such\" thing\n", Line: 3, Column: 2} && r.Result == nil && r.Results == nil
		}},
		"masked large arguments": {masked(returns(t, call("acme", big), `"xxxxxxxxxxxx"`), masks), func(r decision.Record) bool {
			return r.Input == nil && r.Result == nil && reflect.DeepEqual(r.Erased, []string{"/result"})
		}},
		"masked no JSON": {masked(fails(call("acme", `{"token":"SECRET`), script.Errorf(script.Invalid, "", "SECRET")), masks), func(r decision.Record) bool {
			return r.Input == nil && r.Error.Message == "" && reflect.DeepEqual(r.Erased, []string{"/input", "/error/message"})
		}},
		"a masked error": {masked(fails(call("acme", `1`, `{"token":"SECRET-TOKEN"}`), script.Errorf(script.Script, "", "bad SECRET-TOKEN")), masks), func(r decision.Record) bool {
			return string(r.Input) == `[1,{"token":"***"}]` && reflect.DeepEqual(r.Masked, []string{"/input/1/token"}) && r.Error.Message == "" && reflect.DeepEqual(r.Erased, []string{"/error/message"})
		}},
		"a masked result": {masked(returns(t, call("acme", `{"token":"SECRET-TOKEN"}`), `{"token":1,"copy":["SECRET-TOKEN"]}`, `"SECRET-TOKEN"`), masks), func(r decision.Record) bool {
			return string(r.Result) == `[{"token":"***","copy":["***"]},"***"]` && len(r.Masked) == 4
		}},
		"a masked result after its copy": {masked(returns(t, call("acme"), `"see SECRET-TOKEN"`, `{"token":"SECRET-TOKEN"}`), masks), func(r decision.Record) bool {
			return string(r.Result) == `["***",{"token":"***"}]` && reflect.DeepEqual(r.Masked, []string{"/result/1/token", "/result/0"})
		}},
		"masks that nobody knows": {unknown(fails(call("acme", `1`), script.Errorf(script.Unavailable, "", "gone"))), func(r decision.Record) bool {
			return r.Input == nil && reflect.DeepEqual(r.Erased, []string{"/input"}) && r.Error.Message == "gone"
		}},
		"fields": {masked(returns(t, call("acme", `{"a":{"b":1,"c":2}}`), `{"x":1,"y":2}`), &script.Decisions{Sample: 1, Fields: []string{"input.a.b", "result.y"}}), func(r decision.Record) bool {
			return string(r.Input) == `{"a":{"b":1}}` && string(r.Result) == `{"y":2}` && r.Protocol+r.RequestedBy == "" && r.DurationNS == 0 && r.Outcome == "OK" && r.Revision == "41" &&
				slices.Equal(r.Partial, []string{"input", "result"})
		}},
		"fields with whole parts": {masked(returns(t, call("acme", `{"a":1}`), `{"x":1}`), &script.Decisions{Sample: 1, Fields: []string{"input", "input.a", "result.*"}}), func(r decision.Record) bool {
			return string(r.Input) == `{"a":1}` && string(r.Result) == `{"x":1}` && slices.Equal(r.Partial, []string{"result"})
		}},
		"fields without parts": {masked(fails(call("acme", `{"token":"SECRET-TOKEN"}`), script.Errorf(script.Script, "", "SECRET-TOKEN")), &script.Decisions{Sample: 1, Mask: []string{"token"}, Fields: []string{"error", "trace_id"}}), func(r decision.Record) bool {
			return r.Input == nil && r.Arguments == nil && r.Error != nil && r.Error.Message == "" && len(r.Masked) == 0
		}},
		"fields without an error": {masked(fails(call("acme", `1`), script.Errorf(script.Script, "", "x")), &script.Decisions{Sample: 1, Fields: []string{"input"}}), func(r decision.Record) bool {
			return r.Outcome == "SCRIPT" && r.Error == nil && string(r.Input) == `1`
		}},
	} {
		if tt.e.Decisions == nil {
			tt.e.Decisions = all
		}
		if r := recorded(t, tt.e); !tt.check(r) {
			text, _ := json.Marshal(r)
			t.Errorf("%s: %s", name, text)
		}
	}
}

func unknown(e *execute.Ended) *execute.Ended {
	e.Unknown = true
	return e
}

func masked(e *execute.Ended, d *script.Decisions) *execute.Ended {
	e.Decisions = d
	return e
}

// TestWhichCalls: of the script or of the tenant, by the share or since they failed.
func TestWhichCalls(t *testing.T) {
	none, errs := &script.Decisions{}, &script.Decisions{Errors: true}
	for name, tt := range map[string]struct {
		of, tenant *script.Decisions
		audit      script.Audit
		fails      bool
		want       bool
	}{
		"nobody asks":              {},
		"nobody asks for failures": {fails: true},
		"the script":               {of: all, want: true},
		"the tenant":               {tenant: all, want: true},
		"the script says none":     {of: none, tenant: all},
		"failures alone":           {of: errs},
		"a failure":                {of: errs, fails: true, want: true},
		"a failure of the tenant":  {tenant: errs, fails: true, want: true},
		"a strict audit":           {audit: script.AuditStrict, want: true},
		"a strict audit over all":  {of: none, audit: script.AuditStrict, want: true},
	} {
		for _, late := range []bool{false, true} {
			w := start(t, 1, nil)
			w.tenants["acme"] = script.TenantSettings{Decisions: tt.tenant, Audit: tt.audit}
			e := call("acme", `1`)
			e.Decisions, e.Settings = tt.of, new(w.tenants["acme"])
			if tt.fails {
				fails(e, script.Errorf(script.Script, "", "no"))
			}
			if late { // it failed before anybody looked at the settings
				e.Settings = nil
			}
			if err := w.Ended(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			w.end(t)
			if got := len(w.sinks[0].all()) == 1; got != tt.want {
				t.Errorf("%s: recorded: %v", name, got)
			}
		}
	}
}

// TestMasksOfTheTenantAdd: whatever the script says.
func TestMasksOfTheTenantAdd(t *testing.T) {
	e := returns(t, call("acme", `{"a":1,"b":2,"c":3}`), `1`)
	e.Decisions = &script.Decisions{Sample: 1, Mask: []string{"a"}}
	e.Settings.Decisions = &script.Decisions{Mask: []string{"b"}}
	if got := recorded(t, e); string(got.Input) != `{"a":"***","b":"***","c":3}` {
		t.Errorf("the input is %s", got.Input)
	}
}

// TestSampleByTrace: all calls of a trace are recorded, on all agents, or none of them.
func TestSampleByTrace(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	a, b := start(t, 1, nil), start(t, 1, nil)
	const calls = 4000
	for i := range calls {
		trace := fmt.Sprintf("00-%016x%016x-00f067aa0ba902b7-00", rng.Uint64(), rng.Uint64())
		if i%4 == 0 {
			trace = "" // by chance
		}
		for _, w := range []*world{a, b} {
			e := call("acme", `1`)
			e.Decisions, e.Call.Traceparent = &script.Decisions{Sample: 0.25}, trace
			if err := w.Ended(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	traces := func(w *world) (ids []string, without int) {
		w.end(t)
		for _, line := range w.sinks[0].all() {
			if r := parse(t, line); r.TraceID != "" {
				ids = append(ids, r.TraceID)
			} else {
				without++
			}
		}
		return ids, without
	}
	of, without := traces(a)
	also, _ := traces(b)
	if !reflect.DeepEqual(of, also) {
		t.Errorf("seed %d: two agents recorded other traces: %d and %d", seed, len(of), len(also))
	}
	if n := len(of); n < 600 || n > 900 || without < 180 || without > 320 {
		t.Errorf("seed %d: recorded %d of 3000 calls with a trace, and %d of 1000 without, want a quarter", seed, n, without)
	}
}

// TestOrder: a sink gets the calls of a goroutine in their order, and each sink all of them.
func TestOrder(t *testing.T) {
	w := start(t, 3, nil)
	const callers, calls = 4, 500
	var running sync.WaitGroup
	for caller := range callers {
		running.Go(func() {
			for i := range calls {
				e := call(fmt.Sprintf("tenant-%d", caller), fmt.Sprint(i))
				e.Decisions = all
				if err := w.Ended(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	w.end(t)
	for i, sink := range w.sinks {
		next := map[string]int{}
		for _, line := range sink.all() {
			r := parse(t, line)
			if string(r.Input) != fmt.Sprint(next[r.Tenant]) {
				t.Fatalf("sink %d got call %s of %s after call %d", i, r.Input, r.Tenant, next[r.Tenant]-1)
			}
			next[r.Tenant]++
		}
		if len(next) != callers || next["tenant-0"] != calls || !sink.closed {
			t.Errorf("sink %d got %v, closed: %v", i, next, sink.closed)
		}
	}
	if n := w.counter(t, "scriptorium_decision_log_records_total"); n != 3*callers*calls {
		t.Errorf("the metric says %v records", n)
	}
}

// counter returns the sum of a metric over all its labels.
func (w *world) counter(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestFlood: a tenant that floods a sink that hangs does not take the room of others, no call waits, and
// what is dropped is counted.
func TestFlood(t *testing.T) {
	w := start(t, 1, func(c *decisionlog.Config) { c.QueueBytes = 256 << 10 })
	w.sinks[0].stop.Lock()
	send := func(tenant string, n int) {
		for range n {
			e := call(tenant, `{"some":"argument"}`)
			e.Decisions = all
			if err := w.Ended(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	const flood, few = 10_000, 5
	for i := range 4 {
		send(fmt.Sprintf("flood-%d", i), flood)
	}
	send("acme", few)
	w.sinks[0].stop.Unlock()
	w.end(t)
	of := map[string]int{}
	for _, line := range w.sinks[0].all() {
		of[parse(t, line).Tenant]++
	}
	if of["acme"] != few {
		t.Errorf("%d of %d records of the other tenant are there", of["acme"], few)
	}
	got := 0
	for _, n := range of {
		got += n
	}
	if got > (256<<10)/512 {
		t.Errorf("%d records were kept", got)
	}
	if dropped := w.counter(t, "scriptorium_decision_log_dropped_total"); int(dropped) != 4*flood+few-got {
		t.Errorf("%v records were dropped, and %d of %d are there", dropped, got, 4*flood+few)
	}
}

// TestASinkThatFailsRecovers: by itself, and others do not wait for it.
func TestASinkThatFailsRecovers(t *testing.T) {
	w := start(t, 2, nil)
	w.sinks[0].fail(errors.New("no room"))
	e := call("acme", `1`)
	e.Decisions = all
	if err := w.Ended(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(w.sinks[1].all()) == 1 })
	w.sinks[0].fail(nil)
	eventually(t, func() bool { return len(w.sinks[0].all()) == 1 })
}

// TestASinkThatRejects is not asked again: what it has taken counts as taken, the rest as dropped.
func TestASinkThatRejects(t *testing.T) {
	w := start(t, 1, func(c *decisionlog.Config) {
		c.Outputs[0].Sink = rejects{}
	})
	w.tenants["acme"] = script.TenantSettings{Decisions: &script.Decisions{Sample: 1}}
	for range 3 {
		e := call("acme", "1")
		e.Settings = nil
		if err := w.Ended(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	w.end(t)
	taken, dropped := w.counter(t, "scriptorium_decision_log_records_total"), w.counter(t, "scriptorium_decision_log_dropped_total")
	if dropped == 0 || taken+dropped != 3 {
		t.Errorf("%v records were taken, and %v dropped", taken, dropped)
	}
}

// rejects is a sink that rejects one record of each Write.
type rejects struct{}

func (rejects) Write(context.Context, [][]byte) error {
	return &decisionlog.Rejected{Records: 1, Err: errors.New("it is too old")}
}
func (rejects) Close(context.Context) error { return nil }

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	deadline, tick := time.After(30*time.Second), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not happen within 30 seconds")
		}
	}
}

// TestCallsOfNoScript: a failure is recorded as far as the call says whose it is.
func TestCallsOfNoScript(t *testing.T) {
	for ref, want := range map[string]string{"acme/none": "acme/none", "acme/none@x": "", "acme": "", "other/none": "nothing", "/": "nothing", "": "nothing", "A B/c": "nothing"} {
		w := start(t, 1, nil)
		w.tenants["acme"] = script.TenantSettings{Decisions: &script.Decisions{Errors: true}}
		e := fails(call("acme", `1`), script.Errorf(script.NotFound, "script", "is not there"))
		e.Release, e.Settings, e.Call.Script = nil, nil, ref
		if err := w.Ended(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		w.end(t)
		lines := w.sinks[0].all()
		if want == "nothing" {
			if len(lines) != 0 {
				t.Errorf("%q is recorded: %s", ref, lines)
			}
			continue
		}
		if len(lines) != 1 {
			t.Fatalf("%q: %d records", ref, len(lines))
		}
		if r := parse(t, lines[0]); r.Tenant != "acme" || r.Path != want {
			t.Errorf("%q: %s", ref, lines[0])
		}
	}
}

// TestOffCostsNothing: a call that nobody records.
func TestOffCostsNothing(t *testing.T) {
	w := start(t, 1, nil)
	e := returns(t, call("acme", `1`), `2`)
	if n := testing.AllocsPerRun(100, func() { _ = w.Ended(t.Context(), e) }); n > 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

// discard is a sink that is fast.
type discard struct{}

func (discard) Write(context.Context, [][]byte) error { return nil }
func (discard) Close(context.Context) error           { return nil }

const benchmarkInput = `{"method":"GET","host":"shop.example","path":"/cart/7","query":"a=1","headers":{"accept":"*/*","authorization":"Bearer abcdefghijklmnopqrstuvwxyz","user-agent":"curl/8.5.0"},"params":{}}`

func BenchmarkEnded(b *testing.B) {
	for name, d := range map[string]*script.Decisions{
		"off": nil, "unsampled": {Sample: 1e-9}, "all": all, "masked": {Sample: 1, Mask: []string{"headers.authorization", "body"}},
	} {
		b.Run(name, func(b *testing.B) {
			w := start(b, 0, func(c *decisionlog.Config) {
				c.Outputs = []decisionlog.Output{{Name: "discard", ID: "discard", Sink: discard{}}}
			})
			e := returns(b, call("acme", benchmarkInput), `{"decision":"allow"}`)
			e.Decisions = d
			b.ReportAllocs()
			for b.Loop() {
				_ = w.Ended(b.Context(), e)
			}
		})
	}
}
