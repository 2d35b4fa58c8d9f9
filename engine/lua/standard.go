package lua

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// standardLibraries returns those of Lua, and json.
func standardLibraries() []values.Module {
	return []values.Module{
		{Name: "string", Functions: stringFunctions()},
		{Name: "table", Functions: tableFunctions()},
		{Name: "math", Functions: mathFunctions(), Values: mathConstants},
		{Name: "os", Functions: osFunctions()},
		{Name: "json", Functions: jsonFunctions(), Values: map[string]vm.LValue{"null": values.Null}},
	}
}
