package hostlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

var kvFunctions = map[string]vm.LGFunction{
	"get":  kvGet,
	"json": kvJSON,
	"keys": kvKeys,
}

func kvGet(l *vm.LState) int {
	content, ok, err := bind.HostOf(l).Text(bind.ArgString(l, 1))
	check(l, err)
	if !ok {
		return l.Return(vm.LNil)
	}
	l.Push(values.StringOf(content)) // which nobody changes: engine.Host says so
	return 1
}

func kvJSON(l *vm.LState) int {
	content, ok, err := bind.HostOf(l).Value("kv.json", bind.ArgString(l, 1))
	check(l, err)
	if !ok {
		return l.Return(vm.LNil)
	}
	return bind.PushJSON(l, string(values.StringOf(content)), "the value of ", bind.ArgString(l, 1), " is not JSON that can be read")
}

// kvKeys returns the tenant's keys in order.
func kvKeys(l *vm.LState) int {
	keys, err := bind.HostOf(l).Keys(bind.OptString(l, 1, ""), bind.OptString(l, 2, ""))
	check(l, err)
	t := vm.NewTable(len(keys), 0)
	luajson.MarkArray(t)
	for _, key := range keys {
		t.Append(vm.LString(key))
	}
	return l.Return(t)
}

var counterFunctions = map[string]vm.LGFunction{
	"add": counterAdd,
	"get": counterGet,
}

func counterAdd(l *vm.LState) int {
	n := 1.0
	if l.Get(2) != vm.LNil {
		n = bind.ArgNumber(l, 2)
	}
	value, err := bind.HostOf(l).Add(bind.ArgString(l, 1), n)
	return push(l, vm.LNumber(value), err, "name", "n")
}

func counterGet(l *vm.LState) int {
	value, err := bind.HostOf(l).Count(bind.ArgString(l, 1))
	return push(l, vm.LNumber(value), err, "name")
}

var ratelimitFunctions = map[string]vm.LGFunction{"allow": ratelimitAllow}

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
