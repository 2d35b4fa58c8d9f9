package stdlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

func jsonFunctions() map[string]vm.LGFunction {
	return map[string]vm.LGFunction{
		"array":  jsonArray,
		"decode": jsonDecode,
		"encode": jsonEncode,
	}
}

// jsonArray marks a table as an array, a new one if there is no argument, and
// returns it.
func jsonArray(l *vm.LState) int {
	if l.GetTop() == 0 {
		bind.Allocate(l, vm.TableBytes)
		t := &vm.LTable{}
		luajson.MarkArray(t)
		l.Push(t)
		return 1
	}
	t := bind.ArgTable(l)
	if t.Metatable != nil && !luajson.IsMarked(t) {
		bind.ArgError(l, 1, "a table with a metatable cannot become an array")
	}
	luajson.MarkArray(t)
	l.SetTop(1)
	return 1
}

func jsonDecode(l *vm.LState) int {
	d := luajson.NewDecoder(&bind.CallOf(l).JSON)
	v, err := d.Value(bind.ArgString(l, 1))
	l.Charge(0) // fails here if the budget is why decoding did
	if err != nil {
		l.RaiseError("invalid JSON: %s", err.Error())
	}
	l.Push(v)
	return 1
}

func jsonEncode(l *vm.LState) int {
	v := bind.ArgAny(l, 1)
	c := bind.CallOf(l)
	e := luajson.NewEncoder(&c.JSON, c.Host.StringBytes, "the values")
	buf, err := e.Value(nil, v)
	if err != nil {
		bind.AllocateString(l, len(buf)) // in vain
		failed := e.Fail(err, "the value")
		if failed.Kind == script.Limit {
			bind.Raise(l, failed)
		}
		l.RaiseError("%s", failed.Message)
	}
	bind.AllocateString(l, len(buf))
	l.Push(values.StringOf(buf))
	return 1
}
