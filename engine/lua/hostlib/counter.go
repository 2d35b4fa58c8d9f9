package hostlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

func counterFunctions() map[string]vm.LGFunction {
	return map[string]vm.LGFunction{
		"add": counterAdd,
		"get": counterGet,
	}
}

func counterAdd(l *vm.LState) int {
	n := 1.0
	if l.Get(2) != vm.LNil {
		n = bind.ArgNumber(l, 2)
	}
	value, err := bind.HostOf(l).Add(bind.ArgString(l, 1), n)
	check(l, err, "name", "n")
	l.Push(vm.LNumber(value))
	return 1
}

func counterGet(l *vm.LState) int {
	value, err := bind.HostOf(l).Count(bind.ArgString(l, 1))
	check(l, err, "name")
	l.Push(vm.LNumber(value))
	return 1
}

func ratelimitFunctions() map[string]vm.LGFunction {
	return map[string]vm.LGFunction{"allow": ratelimitAllow}
}

// ratelimitAllow takes tokens from a bucket. It returns whether there were enough, and if
// not, after how many seconds there will be.
func ratelimitAllow(l *vm.LState) int {
	key := bind.ArgString(l, 1)
	options := argOptions(l, 2, "burst", "cost", "rate")
	var r hostapi.Rate
	r.Rate = numberOption(l, 2, options, "rate", 0)
	r.Burst = numberOption(l, 2, options, "burst", hostapi.DefaultBurst(r.Rate))
	r.Cost = numberOption(l, 2, options, "cost", 1)
	ok, wait, err := bind.HostOf(l).Take(key, r)
	check(l, err, "key", "options")
	l.Push(vm.LBool(ok))
	l.Push(vm.LNumber(wait.Seconds()))
	return 2
}
