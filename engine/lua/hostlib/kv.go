package hostlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

func kvFunctions() map[string]vm.LGFunction {
	return map[string]vm.LGFunction{
		"get":  kvGet,
		"json": kvJSON,
		"keys": kvKeys,
	}
}

func kvGet(l *vm.LState) int {
	content, ok, err := bind.HostOf(l).Text(bind.ArgString(l, 1))
	check(l, err)
	if !ok {
		l.Push(vm.LNil)
		return 1
	}
	l.Push(values.StringOf(content)) // which nobody changes: engine.Host says so
	return 1
}

func kvJSON(l *vm.LState) int {
	content, ok, err := bind.HostOf(l).Value("kv.json", bind.ArgString(l, 1))
	check(l, err)
	if !ok {
		l.Push(vm.LNil)
		return 1
	}
	d := luajson.NewDecoder(&bind.CallOf(l).JSON)
	v, problem := d.Value(string(values.StringOf(content)))
	l.Charge(0) // fails here if the budget is why decoding did
	if problem != nil {
		l.RaiseError("the value of %s is not JSON that can be read: %s", bind.ArgString(l, 1), problem.Error())
	}
	l.Push(v)
	return 1
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
	l.Push(t)
	return 1
}
