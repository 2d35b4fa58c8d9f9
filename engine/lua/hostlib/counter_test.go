package hostlib_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestCounters(t *testing.T) {
	luatest.RunCases(t, func() *enginetest.Host { return &enginetest.Host{MaxCounters: 2} }, []luatest.Case{
		{Body: `return counter.get("a"), counter.add("a"), counter.add("a", 2.5), counter.add("a", -1), counter.get("a")`, Want: "0\n1\n3.5\n2.5\n2.5"},
		{Body: `return counter.add("http/5xx:total_1.x-y")`, Want: "1"},
		{Body: `counter.add("")`, Fail: "bad argument #1 to 'counter.add' (want 1 to 128 of"},
		{Body: `counter.get("a b")`, Fail: "bad argument #1 to 'counter.get' (want 1 to 128 of"},
		{Body: `counter.add("a\n")`, Fail: "want 1 to 128"},
		{Body: `counter.add(("a"):rep(128)) counter.add(("a"):rep(129))`, Fail: "want 1 to 128"},
		{Body: `counter.add("a", 0/0)`, Fail: "want a finite number"},
		{Body: `counter.add("a", 1/0)`, Fail: "want a finite number"},
		{Body: `counter.add("a", "x")`, Fail: "number expected"},
		{Body: `counter.add("a") counter.add("b") counter.add("c")`, Fail: "tenant acme has 2 counters", Kind: script.Limit},
		{Body: `counter.add("a") counter.add("b") return (pcall(counter.add, "c")), counter.add("b")`, Want: "false\n2"},
	})
}

func TestRatelimit(t *testing.T) {
	luatest.RunCases(t, func() *enginetest.Host { return &enginetest.Host{} }, []luatest.Case{
		{Body: `return ratelimit.allow("a", {rate = 2})`, Want: "true\n0"},
		{Body: `local r = {rate = 2} ratelimit.allow("a", r) ratelimit.allow("a", r) return ratelimit.allow("a", r)`, Want: "false\n0.5"},
		{Body: `local r = {rate = 1, burst = 3, cost = 3} ratelimit.allow("a", r) return ratelimit.allow("a", r)`, Want: "false\n3"},
		{Body: `ratelimit.allow("a", {rate = 0.5}) return ratelimit.allow("a", {rate = 0.5})`, Want: "false\n2"},
		{Body: `return (ratelimit.allow("a", a.limit)), (ratelimit.allow("a", a.limit))`, Args: []string{`{"limit":{"rate":1}}`}, Want: "true\nfalse"},
		{Body: `local x, y = ("x"):rep(200), ("x"):rep(199) .. "y" local r = {rate = 1}
			return (ratelimit.allow(x, r)), (ratelimit.allow(y, r)), (ratelimit.allow(x, r))`, Want: "true\ntrue\nfalse"},
		{Body: `ratelimit.allow("a")`, Fail: "bad argument #2 to 'ratelimit.allow' (table expected, got no value)"},
		{Body: `ratelimit.allow("a", {})`, Fail: "rate must be above 0"},
		{Body: `ratelimit.allow("a", {rate = 0})`, Fail: "rate must be above 0"},
		{Body: `ratelimit.allow("a", {rate = "1"})`, Fail: "rate must be a number"},
		{Body: `ratelimit.allow("a", {rate = 0/0})`, Fail: "rate must be a number"},
		{Body: `ratelimit.allow("a", {rate = 1/0})`, Fail: "rate must be a number"},
		{Body: `ratelimit.allow("a", {rate = 1, burst = 0})`, Fail: "burst must be above 0"},
		{Body: `ratelimit.allow("a", {rate = 1, cost = 2})`, Fail: "cost must be between 0 and burst"},
		{Body: `ratelimit.allow("a", {rate = 1, cost = -1})`, Fail: "cost must be between 0 and burst"},
		{Body: `ratelimit.allow("a", {rate = 1, brust = 2})`, Fail: "there is no option brust; there are burst, cost, rate"},
		{Body: `ratelimit.allow("a", {1})`, Fail: "there is no option 1"},
		{Body: `ratelimit.allow({}, {rate = 1})`, Fail: "string expected, got table"},
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
		inv := &engine.Invocation{Tenant: "acme", Host: &enginetest.Host{}, Limits: script.Limits{Timeout: luatest.Patient}}
		if _, err := luatest.Evaluate(t, lua.New(), inv, body); script.KindOf(err) != script.Limit {
			t.Errorf("%s: %v, want a Limit", body, err)
		}
	}
}
