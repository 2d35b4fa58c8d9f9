package lua

import (
	"math"
	"time"

	glua "github.com/yuin/gopher-lua"
)

const (
	// timeCost is what formatting or parsing a time costs.
	timeCost = 10
	// timeBytes are allocated for that.
	timeBytes = 256
	// maxTimeText is how long a text may be that is parsed as a time.
	maxTimeText = 64
	// microsecond is what a double can tell apart, some centuries around now.
	microsecond = 1e-6
)

// timeLayouts are the formats of times, all in UTC.
var timeLayouts = map[string]string{
	"rfc3339": time.RFC3339Nano,
	"http":    "Mon, 02 Jan 2006 15:04:05 GMT", // RFC 9110
}

// Times that have a year of four digits.
var (
	firstTime = float64(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	afterTime = float64(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
)

// processStart is where time.monotonic counts from.
var processStart = time.Now()

// timeFunctions tells the time in seconds since 1970, with fractions.
func timeFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"duration":  timeDuration,
		"format":    timeFormat,
		"monotonic": timeMonotonic,
		"now":       timeNow,
		"parse":     timeParse,
	}
}

func timeNow(l *glua.LState) int {
	l.Push(glua.LNumber(seconds(now(l))))
	return 1
}

// now returns the time that the call is to see.
func now(l *glua.LState) time.Time {
	if clock := callOf(l).inv.Clock; clock != nil {
		return clock()
	}
	return time.Now()
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) * microsecond }

func timeMonotonic(l *glua.LState) int {
	elapsed := time.Since(processStart).Seconds()
	if callOf(l).inv.Clock != nil {
		elapsed = seconds(now(l))
	}
	l.Push(glua.LNumber(elapsed))
	return 1
}

// argLayout returns the layout that the n-th argument names.
func argLayout(l *glua.LState, n int) string {
	layout, ok := timeLayouts[optString(l, n, "rfc3339")]
	if !ok {
		argError(l, n, "want rfc3339 or http")
	}
	return layout
}

func chargeTime(l *glua.LState) {
	meterOf(l).charge(l, timeCost)
	meterOf(l).make(l, timeBytes)
}

func timeFormat(l *glua.LState) int {
	t, layout := argNumber(l, 1), argLayout(l, 2)
	if !(t >= firstTime && t < afterTime) { // NaN is neither
		argError(l, 1, "want a time between the years 0 and 9999")
	}
	chargeTime(l)
	whole, fraction := math.Modf(t)
	micros := int64(math.Round(fraction / microsecond))
	date := time.Unix(int64(whole), micros*int64(time.Microsecond)).UTC()
	l.Push(glua.LString(date.Format(layout)))
	return 1
}

func timeParse(l *glua.LState) int {
	text, layout := argString(l, 1), argLayout(l, 2)
	chargeTime(l)
	if len(text) > maxTimeText {
		return pushFailure(l, "not a time in that format")
	}
	date, err := time.Parse(layout, text)
	if err != nil {
		return pushFailure(l, "not a time in that format")
	}
	l.Push(glua.LNumber(seconds(date)))
	return 1
}

func timeDuration(l *glua.LState) int {
	text := argString(l, 1)
	chargeTime(l)
	if len(text) > maxTimeText {
		return pushFailure(l, "not a duration such as 1h30m or 250ms")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return pushFailure(l, "not a duration such as 1h30m or 250ms")
	}
	l.Push(glua.LNumber(d.Seconds()))
	return 1
}
