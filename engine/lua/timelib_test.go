package lua_test

import "testing"

func TestTime(t *testing.T) {
	testAPI(t, nil, []apiCase{
		{body: `return math.abs(time.now() - os.time()) < 3, time.now() <= time.now()`, want: "true\ntrue"},
		{body: `local a = time.monotonic() return a >= 0 and time.monotonic() >= a`, want: "true"},
		{body: `return time.format(0)`, want: `"1970-01-01T00:00:00Z"`},
		{body: `return time.format(1.5)`, want: `"1970-01-01T00:00:01.5Z"`},
		{body: `return time.format(-0.25)`, want: `"1969-12-31T23:59:59.75Z"`},
		{body: `return time.format(1700000000.123456)`, want: `"2023-11-14T22:13:20.123456Z"`},
		{body: `return time.format(784111777, "http")`, want: `"Sun, 06 Nov 1994 08:49:37 GMT"`},
		{body: `return time.format(0, "iso")`, fail: "bad argument #2 to 'time.format' (want rfc3339 or http)"},
		{body: `return time.format(253402300799)`, want: `"9999-12-31T23:59:59Z"`},
		{body: `return time.format(253402300800)`, fail: "between the years 0 and 9999"},
		{body: `return time.format(-1e15)`, fail: "between the years 0 and 9999"},
		{body: `return time.format(0/0)`, fail: "between the years 0 and 9999"},
		{body: `return time.format(1/0)`, fail: "between the years 0 and 9999"},
		{body: `return time.format("x")`, fail: "number expected, got string"},
		{body: `return time.parse("1970-01-01T00:00:00Z"), time.parse("2023-11-14T23:13:20.5+01:00") == 1700000000.5`, want: "0\ntrue"},
		{body: `return time.parse("Sun, 06 Nov 1994 08:49:37 GMT", "http")`, want: "784111777"},
		{body: `return time.parse("yesterday")`, want: "null\n\"not a time in that format\""},
		{body: `return (time.parse(("1"):rep(100000)))`, want: "null"},
		{body: `return time.parse("2023-02-30T00:00:00Z") == nil, time.parse("") == nil`, want: "true\ntrue"},
		{body: `local now = time.now() return math.abs(time.parse(time.format(now)) - now) < 2e-6`, want: "true"},
		{body: `return time.duration("1h30m"), time.duration("250ms"), time.duration("-1s"), time.duration("0")`, want: "5400\n0.25\n-1\n0"},
		{body: `return time.duration("5")`, want: "null\n\"not a duration such as 1h30m or 250ms\""},
		{body: `return (time.duration(("1h"):rep(1000)))`, want: "null"},
		{body: `local time = os.time return time() > 0`, want: "true"},
	})
}
