package hostlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// timeFunctions tells the time in seconds since 1970, with fractions.
var timeFunctions = map[string]vm.LGFunction{
	"duration":  timeDuration,
	"format":    timeFormat,
	"monotonic": timeMonotonic,
	"now":       timeNow,
	"parse":     timeParse,
}

func timeNow(l *vm.LState) int { return l.Return(vm.LNumber(hostapi.Seconds(bind.HostOf(l).Now()))) }

func timeMonotonic(l *vm.LState) int { return l.Return(vm.LNumber(bind.HostOf(l).Monotonic())) }

func timeFormat(l *vm.LState) int {
	text, err := bind.HostOf(l).FormatTime(bind.ArgNumber(l, 1), bind.OptString(l, 2, "rfc3339"))
	return push(l, vm.LString(text), err, "t", "format")
}

func timeParse(l *vm.LState) int {
	seconds, problem, err := bind.HostOf(l).ParseTime(bind.ArgString(l, 1), bind.OptString(l, 2, "rfc3339"))
	check(l, err, "text", "format")
	return pushOr(l, vm.LNumber(seconds), problem)
}

func timeDuration(l *vm.LState) int {
	seconds, problem, err := bind.HostOf(l).ParseDuration(bind.ArgString(l, 1))
	check(l, err)
	return pushOr(l, vm.LNumber(seconds), problem)
}
