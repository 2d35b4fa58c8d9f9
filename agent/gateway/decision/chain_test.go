package decision_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const event = "pre-route"

// chained is an executor with a chain: scripts a, b, c and so on return the decisions, in this order. An
// empty one fails.
type chained struct {
	*gatewaytest.Executor
	got []map[string]any // the requests of the scripts that ran
}

func newChained(decisions ...string) *chained {
	x := &chained{Executor: gatewaytest.New()}
	for i, d := range decisions {
		name := "acme/" + string(rune('a'+i))
		x.Set(name, func(_ context.Context, call *gateway.Call) ([][]byte, error) {
			var r map[string]any
			if err := json.Unmarshal(call.Args[0], &r); err != nil {
				return nil, err
			}
			x.got = append(x.got, r)
			if d == "" {
				return nil, script.Errorf(script.Script, "", "a fault")
			}
			return [][]byte{[]byte(d)}, nil
		})
		x.SetTrigger(name, script.Trigger{Event: event, Priority: -i})
	}
	return x
}

func (x *chained) ran() string {
	return fmt.Sprint(len(x.got))
}

func request() *decision.Request {
	return &decision.Request{
		Method: "GET", Host: "shop.example", Path: "/x/../cart", Query: "a=1",
		Headers: map[string][]string{"X-User": {"mallory"}, "x-tag": {"0"}, "Cookie": {"a=1"}},
	}
}

func (x *chained) decide(fail decision.Fail) (decision.Decision, *decision.Run, error) {
	run := decision.NewRun()
	q := &decision.Question{Target: decision.Target{Tenant: "acme", Event: event}, Fail: fail}
	d, err := run.Decide(context.Background(), x, q, request())
	return run.Or(fail, d, err), run, err
}

// TestChain: each script sees what those before have made of the request, and the decision is all of them.
func TestChain(t *testing.T) {
	x := newChained(
		`{"headers":{"set":{"X-User":"ann","x-a":"1"},"append":{"x-tag":"1"},"remove":["cookie"]},"path":"/b/../c","response_headers":{"set":{"x-one":"1"}},
		  "vary":["accept"],"cookies":[{"name":"s","value":"1"}],"metadata":{"a":1,"b":{"c":1}},"upstream":"one","rate_limit":{"limit":5,"remaining":1,"reset":9}}`,
		`{"headers":{"append":{"x-tag":["2","3"],"x-a":"2"},"set":{"cookie":"b=2"}},"query":"b=2","vary":["accept","cookie"],
		  "metadata":{"b":2},"rate_limit":{"limit":7,"remaining":2},"response_headers":{"remove":["x-one"]},"cookies":[{"name":"s","value":"2"}]}`,
		`{"headers":{"remove":["x-tag"]},"upstream":"three"}`,
		`true`,
	)
	d, run, err := x.decide(decision.FailAsScript)
	defer run.Release()
	if err != nil || !d.Allow || run.Chain() != "a@7, b@7, c@7, d@7" || run.Version() != 0 {
		t.Fatalf("%+v, %v, %q, %d", d, err, run.Chain(), run.Version())
	}
	for i, want := range []string{
		`{"headers":{"cookie":"a=1","x-tag":"0","x-user":"mallory"},"path":"/cart","query":"a=1"}`,
		`{"headers":{"x-a":"1","x-tag":["0","1"],"x-user":"ann"},"path":"/c","query":"a=1"}`,
		`{"headers":{"cookie":"b=2","x-a":["1","2"],"x-tag":["0","1","2","3"],"x-user":"ann"},"path":"/c","query":"b=2"}`,
		`{"headers":{"cookie":"b=2","x-a":["1","2"],"x-user":"ann"},"path":"/c","query":"b=2"}`,
	} {
		got, err := json.Marshal(map[string]any{"headers": x.got[i]["headers"], "path": x.got[i]["path"], "query": x.got[i]["query"]})
		if err != nil || string(got) != want {
			t.Errorf("script %d gets %s, want %s", i, got, want)
		}
	}
	want := decision.Decision{
		Allow: true, Upstream: "three", Path: new("/b/../c"), Query: new("b=2"), Metadata: json.RawMessage(`{"a":1,"b":2}`),
		Request: decision.Changes{
			Remove: []string{"x-tag"},
			Set:    []decision.Header{{"x-user", "ann"}, {"x-a", "1"}, {"cookie", "b=2"}},
			Append: []decision.Header{{"x-a", "2"}},
		},
		Response: decision.Changes{
			Remove: []string{"x-one"},
			Set:    []decision.Header{{"ratelimit-limit", "7"}, {"ratelimit-remaining", "2"}},
			Append: []decision.Header{
				{"set-cookie", "s=1; Path=/; HttpOnly; Secure; SameSite=Lax"},
				{"vary", "accept"},
				{"set-cookie", "s=2; Path=/; HttpOnly; Secure; SameSite=Lax"},
				{"vary", "cookie"},
			},
		},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestChainEnds(t *testing.T) {
	const set = `{"headers":{"set":{"x-a":"1"}},"response_headers":{"set":{"x-r":"1"}},"upstream":"u","metadata":{"m":1}}`
	full := `{"response_headers":{"append":{"x-f":["` + strings.Repeat(`1","`, 60) + `1"]}}}`
	for name, tt := range map[string]struct {
		decisions []string
		onError   map[string]script.OnError
		fail      decision.Fail
		ran       string
		allow     bool
		status    int
		body      string
		response  string // names of what the client gets
	}{
		"a denial":                        {decisions: []string{set, `{"allow":false,"status":418,"body":"no"}`, set}, ran: "2", status: 418, body: "no", response: "x-r"},
		"false":                           {decisions: []string{`false`, set}, ran: "1", status: 403},
		"a redirect":                      {decisions: []string{`{"redirect":"/login"}`, set}, ran: "1", status: 302, response: "location"},
		"an answer":                       {decisions: []string{set, `{"allow":false,"status":200,"body":"hi"}`, set}, ran: "2", status: 200, body: "hi", response: "x-r"},
		"a fault":                         {decisions: []string{set, ``, set}, ran: "2", status: 503, body: "no decision\n", response: decision.ReasonHeader},
		"a fault with its answer":         {decisions: []string{set, ``, set}, onError: map[string]script.OnError{"acme/b": {Status: 429, Body: "later"}}, ran: "2", status: 429, body: "later", response: decision.ReasonHeader},
		"a fault of one that opens":       {decisions: []string{set, ``, `false`}, onError: map[string]script.OnError{"acme/b": {Policy: script.PolicyOpen}}, ran: "3", status: 403, response: "x-r " + decision.ReasonHeader},
		"a fault at an open gateway":      {decisions: []string{``, set}, fail: decision.FailOpen, ran: "2", allow: true, response: decision.ReasonHeader + " x-r"},
		"a fault at a closed gateway":     {decisions: []string{``, set}, onError: map[string]script.OnError{"acme/a": {Policy: script.PolicyOpen}}, fail: decision.FailClosed, ran: "1", status: 503, body: "no decision\n", response: decision.ReasonHeader},
		"no decision":                     {decisions: []string{set, `{"alow":false}`, set}, ran: "2", status: 503, body: "no decision\n", response: decision.ReasonHeader},
		"too much together":               {decisions: []string{full, full, set}, ran: "2", status: 503, body: "no decision\n", response: decision.ReasonHeader},
		"a denial that does not fit":      {decisions: []string{full, `{"allow":false,"response_headers":{"append":{"x-g":["1","2","3","4"]}}}`}, onError: map[string]script.OnError{"acme/b": {Policy: script.PolicyOpen}}, ran: "2", status: 403, response: "x-g x-g x-g x-g"},
		"a metadata that does not fit":    {decisions: []string{`{"metadata":{"a":"` + strings.Repeat("x", 10000) + `"}}`, `{"metadata":{"b":"` + strings.Repeat("x", 10000) + `"}}`}, ran: "2", status: 503, body: "no decision\n", response: decision.ReasonHeader},
		"the rest of one that is skipped": {decisions: []string{`{"alow":1,"upstream":"x"}`, `true`}, onError: map[string]script.OnError{"acme/a": {Policy: script.PolicyOpen}}, ran: "2", allow: true, response: decision.ReasonHeader},
	} {
		x := newChained(tt.decisions...)
		for ref, onError := range tt.onError {
			x.SetOnError(ref, onError)
		}
		d, run, _ := x.decide(tt.fail)
		var names []string
		for _, h := range append(d.Response.Set, d.Response.Append...) {
			names = append(names, h.Name)
		}
		if x.ran() != tt.ran || d.Allow != tt.allow || d.Status != tt.status || d.Body != tt.body || strings.Join(names, " ") != tt.response {
			t.Errorf("%s: %s ran, %+v", name, x.ran(), d)
		}
		run.Release()
	}
}

// TestChainOfNobody: a request that no script matches goes on, and one for an event that no script has
// does not.
func TestChainOfNobody(t *testing.T) {
	x := newChained(`false`)
	x.SetTrigger("acme/a", script.Trigger{Event: event, Match: script.Match{PathPrefixes: []string{"/admin"}}})
	if d, run, err := x.decide(decision.FailAsScript); err != nil || !d.Allow || run.Chain() != decision.NoChain || x.ran() != "0" {
		t.Errorf("none matches: %+v, %v, %q", d, err, run.Chain())
	}
	x.SetTrigger("acme/a", script.Trigger{Event: event, Match: script.Match{PathPrefixes: []string{"/cart"}, Headers: map[string]string{"x-user": "mallory"}}})
	if d, run, err := x.decide(decision.FailAsScript); err != nil || d.Allow || run.Chain() != "a@7" {
		t.Errorf("one matches: %+v, %v, %q", d, err, run.Chain())
	}
	x.SetTrigger("acme/a", script.Trigger{Event: "other"})
	if d, run, err := x.decide(decision.FailAsScript); script.KindOf(err) != script.NotFound || d.Allow || run.Chain() != "" {
		t.Errorf("none has the event: %+v, %v, %q", d, err, run.Chain())
	}
}

func TestTargets(t *testing.T) {
	for target, valid := range map[decision.Target]bool{
		{}:                             false,
		{Script: "acme/gate"}:          true,
		{Script: "acme/gate@7"}:        true,
		{Script: "acme"}:               false,
		{Event: "e", Tenant: "acme"}:   true,
		{Event: "e"}:                   false,
		{Tenant: "acme"}:               false,
		{Event: "E", Tenant: "acme"}:   false,
		{Event: "e", Tenant: "acme/x"}: false,
		{Event: "e", Tenant: "acme", Script: "acme/gate"}: false,
		{Tenant: "acme", Script: "acme/gate"}:             false,
	} {
		if err := target.Validate(); (err == nil) != valid {
			t.Errorf("%+v: %v", target, err)
		}
	}
	access, err := gateway.ParseAccess([]string{"uid:1=acme"})
	if err != nil {
		t.Fatal(err)
	}
	grant := access.GrantTo(gateway.Peer{UID: 1})
	for tenant, may := range map[string]bool{"acme": true, "shop": false} {
		if err := (decision.Target{Tenant: tenant, Event: "e"}).Check(grant); (err == nil) != may {
			t.Errorf("%s: %v", tenant, err)
		}
	}
}

// TestChainHolds: what scripts add to a request is charged, once, and a chain without room for it ends.
func TestChainHolds(t *testing.T) {
	big := strings.Repeat("x", 1000)
	x := newChained(`{"headers":{"set":{"x-a":"`+big+`"}}}`, `{"headers":{"set":{"x-b":"`+big+`"}}}`, `{"headers":{"remove":["x-a"]}}`, `{"headers":{"set":{"x-c":"`+big+`"}}}`, `true`)
	for room, want := range map[int64]string{1 << 20: "5", 1500: "2"} {
		x.got = nil
		left := room
		run := decision.NewRun()
		q := &decision.Question{Target: decision.Target{Tenant: "acme", Event: event}, Hold: func(n int64) bool {
			left -= n
			return left >= 0
		}}
		_, err := run.Decide(context.Background(), x, q, request())
		if x.ran() != want || (script.KindOf(err) == script.Overloaded) != (want == "2") || !run.OnError().IsZero() {
			t.Errorf("%d bytes: %s ran, %v", room, x.ran(), err)
		}
		if held := room - left; want == "5" && (held < 2000 || held > 2100) {
			t.Errorf("%d bytes are held", held)
		}
		run.Release()
	}
}

// TestTheKeyOfAChain: it is that of the client's request, whatever scripts before make of the header.
func TestTheKeyOfAChain(t *testing.T) {
	x := newChained(`{"headers":{"set":{"x-user":"ann"}}}`)
	x.Set("acme/key", gatewaytest.Key)
	x.SetTrigger("acme/key", script.Trigger{Event: event, Priority: -1})
	q := &decision.Question{Target: decision.Target{Tenant: "acme", Event: event}, Key: "k"}
	run := decision.NewRun()
	defer run.Release()
	d, err := run.Decide(t.Context(), x, q, request())
	if err != nil || d.Body != "k, mallory" {
		t.Errorf("the key is %q, %v; want that of the question and of the client's request", d.Body, err)
	}
}
