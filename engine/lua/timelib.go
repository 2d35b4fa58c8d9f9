package lua

import (
	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
)

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
	l.Push(glua.LNumber(hostapi.Seconds(hostOf(l).Now())))
	return 1
}

func timeMonotonic(l *glua.LState) int {
	l.Push(glua.LNumber(hostOf(l).Monotonic()))
	return 1
}

func timeFormat(l *glua.LState) int {
	text, err := hostOf(l).FormatTime(argNumber(l, 1), optString(l, 2, "rfc3339"))
	check(l, err, "t", "format")
	l.Push(glua.LString(text))
	return 1
}

func timeParse(l *glua.LState) int {
	seconds, problem, err := hostOf(l).ParseTime(argString(l, 1), optString(l, 2, "rfc3339"))
	check(l, err, "text", "format")
	return pushOr(l, glua.LNumber(seconds), problem)
}

func timeDuration(l *glua.LState) int {
	seconds, problem, err := hostOf(l).ParseDuration(argString(l, 1))
	check(l, err)
	return pushOr(l, glua.LNumber(seconds), problem)
}
