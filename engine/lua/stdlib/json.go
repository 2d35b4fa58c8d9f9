package stdlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

var jsonFunctions = map[string]vm.LGFunction{
	"array":  jsonArray,
	"decode": jsonDecode,
	"encode": jsonEncode,
}

// jsonArray marks a table as an array, a new one if there is no argument, and
// returns it.
func jsonArray(l *vm.LState) int {
	if l.GetTop() == 0 {
		bind.Allocate(l, vm.TableBytes)
		t := &vm.LTable{}
		luajson.MarkArray(t)
		return l.Return(t)
	}
	t := bind.ArgTable(l)
	if t.Metatable != nil && !luajson.IsMarked(t) {
		bind.ArgError(l, 1, "a table with a metatable cannot become an array")
	}
	luajson.MarkArray(t)
	l.SetTop(1)
	return 1
}

func jsonDecode(l *vm.LState) int { return bind.PushJSON(l, bind.ArgString(l, 1), "invalid JSON") }

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
	return l.Return(values.StringOf(buf))
}
