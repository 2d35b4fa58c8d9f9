// Package hostlib binds engine/hostapi: the libraries that the agent provides to scripts, what they find in a request,
// and the library that scripts for Karmada require.
package hostlib

import (
	"math"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// apiVersion is scriptorium.api: it counts up when a script could notice that something
// was added, and nothing is ever taken away within it.
const apiVersion = 3

// Functions returns the global functions.
func Functions() map[string]vm.LGFunction {
	return map[string]vm.LGFunction{"get_request_header": getRequestHeader, "log_info": logAt(engine.Info)}
}

// Libraries returns what the agent provides to scripts, and what Lua has no library for.
func Libraries() []values.Module {
	return []values.Module{
		{Name: "base64", Functions: base64Functions},
		{Name: "counter", Functions: counterFunctions},
		{Name: "crypto", Functions: cryptoFunctions},
		{Name: "kv", Functions: kvFunctions},
		{Name: "log", Functions: logFunctions},
		{Name: "ratelimit", Functions: ratelimitFunctions},
		{Name: "re", Functions: reFunctions},
		{Name: "scriptorium", Values: map[string]vm.LValue{"api": vm.LNumber(apiVersion)}},
		{Name: "time", Functions: timeFunctions},
	}
}

// check ends the running builtin if hostapi has refused what it asked for. parameters are hostapi's names of the
// builtin's arguments.
func check(l *vm.LState, err *script.Error, parameters ...string) {
	if err == nil {
		return
	}
	l.Charge(0) // fails here if the budget is why
	for i, name := range parameters {
		if name == err.Field {
			bind.ArgError(l, i+1, err.Message)
		}
	}
	if err.Kind == script.Script {
		l.RaiseError("%s", err.Message)
	}
	bind.Raise(l, script.Errorf(err.Kind, "", "%s", err.Message))
}

// push returns v, unless hostapi has refused what the builtin asked for: see check.
func push(l *vm.LState, v vm.LValue, err *script.Error, parameters ...string) int {
	check(l, err, parameters...)
	return l.Return(v)
}

// pushOr returns v, or nil and the problem, if there is one, of a text that came from outside: no mistake of the
// script's, which may want to go on.
func pushOr(l *vm.LState, v vm.LValue, problem string) int {
	if problem == "" {
		return l.Return(v)
	}
	l.Push(vm.LNil)
	l.Push(vm.LString(problem))
	return 2
}

// argOptions returns the n-th argument, a table of options, none of which has another
// name than those.
func argOptions(l *vm.LState, n int, names ...string) *vm.LTable {
	t, ok := l.Get(n).(*vm.LTable)
	if !ok {
		bind.TypeError(l, n, "table")
	}
	luajson.Settle(t)
	m := l.Meter
	for k, _ := m.Next(t, vm.LNil); k != vm.LNil; k, _ = m.Next(t, k) {
		name, known := k.(vm.LString)
		if known {
			known = false
			for _, n := range names {
				known = known || n == string(name)
			}
		}
		if l.Charge(1); !known {
			bind.ArgError(l, n, "there is no option "+values.KeyText(k)+"; there are "+strings.Join(names, ", "))
		}
	}
	return t
}

// numberOption returns the option of the n-th argument, a number, or otherwise if it
// is not given.
func numberOption(l *vm.LState, n int, t *vm.LTable, name string, otherwise float64) float64 {
	switch v := t.RawGetString(name).(type) {
	case vm.LNumber:
		if !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
			return float64(v)
		}
	case *vm.LNilType:
		return otherwise
	}
	bind.ArgError(l, n, name+" must be a number")
	return 0
}
