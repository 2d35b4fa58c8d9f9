package lua

import (
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
		allocate(l, vm.TableBytes)
		t := &vm.LTable{}
		luajson.MarkArray(t)
		l.Push(t)
		return 1
	}
	t := argTable(l)
	if t.Metatable != nil && !luajson.IsMarked(t) {
		argError(l, 1, "a table with a metatable cannot become an array")
	}
	luajson.MarkArray(t)
	l.SetTop(1)
	return 1
}

func jsonDecode(l *vm.LState) int {
	d := luajson.NewDecoder(&bindingOf(l).JSON)
	v, err := d.Value(argString(l, 1))
	l.Charge(0) // fails here if the budget is why decoding did
	if err != nil {
		l.RaiseError("invalid JSON: %s", err.Error())
	}
	l.Push(v)
	return 1
}

func jsonEncode(l *vm.LState) int {
	v := argAny(l, 1)
	c := bindingOf(l)
	e := luajson.NewEncoder(&c.JSON, c.Host.StringBytes, "the values")
	buf, err := e.Value(nil, v)
	if err != nil {
		allocateString(l, len(buf)) // in vain
		failed := e.Fail(err, "the value")
		if failed.Kind == script.Limit {
			raise(l, failed)
		}
		l.RaiseError("%s", failed.Message)
	}
	allocateString(l, len(buf))
	l.Push(values.StringOf(buf))
	return 1
}
