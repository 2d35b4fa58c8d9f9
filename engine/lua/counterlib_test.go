package lua_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestCounters(t *testing.T) {
	testAPI(t, func() *enginetest.Host { return &enginetest.Host{MaxCounters: 2} }, []apiCase{
		{body: `return counter.get("a"), counter.add("a"), counter.add("a", 2.5), counter.add("a", -1), counter.get("a")`, want: "0\n1\n3.5\n2.5\n2.5"},
		{body: `return counter.add("http/5xx:total_1.x-y")`, want: "1"},
		{body: `counter.add("")`, fail: "bad argument #1 to 'counter.add' (want 1 to 128 of"},
		{body: `counter.get("a b")`, fail: "bad argument #1 to 'counter.get' (want 1 to 128 of"},
		{body: `counter.add("a\n")`, fail: "want 1 to 128"},
		{body: `counter.add(("a"):rep(128)) counter.add(("a"):rep(129))`, fail: "want 1 to 128"},
		{body: `counter.add("a", 0/0)`, fail: "want a finite number"},
		{body: `counter.add("a", 1/0)`, fail: "want a finite number"},
		{body: `counter.add("a", "x")`, fail: "number expected"},
		{body: `counter.add("a") counter.add("b") counter.add("c")`, fail: "tenant acme has 2 counters", kind: script.Limit},
		{body: `counter.add("a") counter.add("b") return (pcall(counter.add, "c")), counter.add("b")`, want: "false\n2"},
	})
}

func TestRatelimit(t *testing.T) {
	testAPI(t, func() *enginetest.Host { return &enginetest.Host{} }, []apiCase{
		{body: `return ratelimit.allow("a", {rate = 2})`, want: "true\n0"},
		{body: `local r = {rate = 2} ratelimit.allow("a", r) ratelimit.allow("a", r) return ratelimit.allow("a", r)`, want: "false\n0.5"},
		{body: `local r = {rate = 1, burst = 3, cost = 3} ratelimit.allow("a", r) return ratelimit.allow("a", r)`, want: "false\n3"},
		{body: `ratelimit.allow("a", {rate = 0.5}) return ratelimit.allow("a", {rate = 0.5})`, want: "false\n2"},
		{body: `return (ratelimit.allow("a", a.limit)), (ratelimit.allow("a", a.limit))`, args: []string{`{"limit":{"rate":1}}`}, want: "true\nfalse"},
		{body: `local x, y = ("x"):rep(200), ("x"):rep(199) .. "y" local r = {rate = 1}
			return (ratelimit.allow(x, r)), (ratelimit.allow(y, r)), (ratelimit.allow(x, r))`, want: "true\ntrue\nfalse"},
		{body: `ratelimit.allow("a")`, fail: "bad argument #2 to 'ratelimit.allow' (table expected, got no value)"},
		{body: `ratelimit.allow("a", {})`, fail: "rate must be above 0"},
		{body: `ratelimit.allow("a", {rate = 0})`, fail: "rate must be above 0"},
		{body: `ratelimit.allow("a", {rate = "1"})`, fail: "rate must be a number"},
		{body: `ratelimit.allow("a", {rate = 0/0})`, fail: "rate must be a number"},
		{body: `ratelimit.allow("a", {rate = 1/0})`, fail: "rate must be a number"},
		{body: `ratelimit.allow("a", {rate = 1, burst = 0})`, fail: "burst must be above 0"},
		{body: `ratelimit.allow("a", {rate = 1, cost = 2})`, fail: "cost must be between 0 and burst"},
		{body: `ratelimit.allow("a", {rate = 1, cost = -1})`, fail: "cost must be between 0 and burst"},
		{body: `ratelimit.allow("a", {rate = 1, brust = 2})`, fail: "there is no option brust; there are burst, cost, rate"},
		{body: `ratelimit.allow("a", {1})`, fail: "there is no option 1"},
		{body: `ratelimit.allow({}, {rate = 1})`, fail: "string expected, got table"},
	})
}

func TestCountersAndBucketsAreCharged(t *testing.T) {
	for _, body := range []string{
		`while true do counter.add("a") end`,
		`while true do ratelimit.allow("a", {rate = 1}) end`,
		`local o = {rate = 1} for i = 1, 10000 do o[i + 0.5] = 1 end for i = 1, 10000 do o[i + 0.5] = nil end
			for i = 1, 100 do ratelimit.allow("a", o) log.info("x", o) end`,
		`local k = ("k"):rep(200000) while true do ratelimit.allow(k, {rate = 1}) end`,
	} {
		inv := &engine.Invocation{Tenant: "acme", Host: &enginetest.Host{}, Limits: script.Limits{Timeout: patient}}
		if _, err := evaluate(t, lua.New(), inv, body); script.KindOf(err) != script.Limit {
			t.Errorf("%s: %v, want a Limit", body, err)
		}
	}
}
