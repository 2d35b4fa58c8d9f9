package hostlib_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
)

func TestTime(t *testing.T) {
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: `return math.abs(time.now() - os.time()) < 3, time.now() <= time.now()`, Want: "true\ntrue"},
		{Body: `local a = time.monotonic() return a >= 0 and time.monotonic() >= a`, Want: "true"},
		{Body: `return time.format(0)`, Want: `"1970-01-01T00:00:00Z"`},
		{Body: `return time.format(1.5)`, Want: `"1970-01-01T00:00:01.5Z"`},
		{Body: `return time.format(-0.25)`, Want: `"1969-12-31T23:59:59.75Z"`},
		{Body: `return time.format(1700000000.123456)`, Want: `"2023-11-14T22:13:20.123456Z"`},
		{Body: `return time.format(784111777, "http")`, Want: `"Sun, 06 Nov 1994 08:49:37 GMT"`},
		{Body: `return time.format(0, "iso")`, Fail: "bad argument #2 to 'time.format' (want rfc3339 or http)"},
		{Body: `return time.format(253402300799)`, Want: `"9999-12-31T23:59:59Z"`},
		{Body: `return time.format(253402300800)`, Fail: "between the years 0 and 9999"},
		{Body: `return time.format(-1e15)`, Fail: "between the years 0 and 9999"},
		{Body: `return time.format(0/0)`, Fail: "between the years 0 and 9999"},
		{Body: `return time.format(1/0)`, Fail: "between the years 0 and 9999"},
		{Body: `return time.format("x")`, Fail: "number expected, got string"},
		{Body: `return time.parse("1970-01-01T00:00:00Z"), time.parse("2023-11-14T23:13:20.5+01:00") == 1700000000.5`, Want: "0\ntrue"},
		{Body: `return time.parse("Sun, 06 Nov 1994 08:49:37 GMT", "http")`, Want: "784111777"},
		{Body: `return time.parse("yesterday")`, Want: "null\n\"not a time in that format\""},
		{Body: `return (time.parse(("1"):rep(100000)))`, Want: "null"},
		{Body: `return time.parse("2023-02-30T00:00:00Z") == nil, time.parse("") == nil`, Want: "true\ntrue"},
		{Body: `local now = time.now() return math.abs(time.parse(time.format(now)) - now) < 2e-6`, Want: "true"},
		{Body: `return time.duration("1h30m"), time.duration("250ms"), time.duration("-1s"), time.duration("0")`, Want: "5400\n0.25\n-1\n0"},
		{Body: `return time.duration("5")`, Want: "null\n\"not a duration such as 1h30m or 250ms\""},
		{Body: `return (time.duration(("1h"):rep(1000)))`, Want: "null"},
		{Body: `local time = os.time return time() > 0`, Want: "true"},
	})
}
