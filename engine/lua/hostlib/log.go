package hostlib

import (
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

var logFunctions = map[string]vm.LGFunction{
	"error": logAt(engine.Error),
	"info":  logAt(engine.Info),
	"warn":  logAt(engine.Warn),
}

// logAt logs its first argument, and the members of its second as fields.
func logAt(level engine.Level) vm.LGFunction {
	return func(l *vm.LState) int {
		if text, ok := l.Get(1).(vm.LString); ok && l.Get(2) == vm.LNil {
			check(l, bind.HostOf(l).Log(level, string(text)))
			return 0
		}
		l.Charge(hostapi.LogCost)
		message := bind.ArgAny(l, 1)
		var fields *vm.LTable
		if l.Get(2) != vm.LNil {
			t, ok := l.Get(2).(*vm.LTable)
			if !ok {
				bind.TypeError(l, 2, "table")
			}
			luajson.Settle(t)
			fields = t
		}
		var line hostapi.Line
		addValue(l, &line, message)
		addFields(l, &line, fields)
		check(l, bind.HostOf(l).LogLine(level, line.String()))
		return 0
	}
}

// addValue writes v as tostring has it, and a table as JSON.
func addValue(l *vm.LState, line *hostapi.Line, v vm.LValue) {
	if t, ok := v.(*vm.LTable); ok && l.GetMetaField(v, "__tostring") == vm.LNil {
		addJSON(l, line, t)
		return
	}
	line.Text(bind.ToString(l, v))
}

func addJSON(l *vm.LState, line *hostapi.Line, t *vm.LTable) {
	e := luajson.NewEncoder(&bind.CallOf(l).JSON, hostapi.MaxLine, "the values")
	text, err := e.Value(nil, t)
	l.Charge(0) // fails here if the budget is why encoding did
	if err != nil {
		line.Text(values.TypeName(t) + " (" + e.Fail(err, "which").Message + ")")
		return
	}
	line.Text(string(text))
}

// addFields writes the members of t as key=value, in their order.
func addFields(l *vm.LState, line *hostapi.Line, t *vm.LTable) {
	if t == nil {
		return
	}
	m := l.Meter
	for k, v := m.Next(t, vm.LNil); k != vm.LNil && !line.Full(); k, v = m.Next(t, k) {
		l.Charge(1)
		line.Field(values.KeyText(k))
		if s, ok := v.(vm.LString); ok {
			line.FieldText(string(s))
		} else {
			addValue(l, line, v)
		}
	}
}
