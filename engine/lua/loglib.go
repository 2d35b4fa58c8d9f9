package lua

import (
	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
)

func logFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"error": logAt(engine.Error),
		"info":  logAt(engine.Info),
		"warn":  logAt(engine.Warn),
	}
}

// logAt logs its first argument, and the members of its second as fields.
func logAt(level engine.Level) glua.LGFunction {
	return func(l *glua.LState) int {
		if text, ok := l.Get(1).(glua.LString); ok && l.Get(2) == glua.LNil {
			check(l, hostOf(l).Log(level, string(text)))
			return 0
		}
		meterOf(l).charge(l, hostapi.LogCost)
		message := argAny(l, 1)
		var fields *glua.LTable
		if l.Get(2) != glua.LNil {
			t, ok := l.Get(2).(*glua.LTable)
			if !ok {
				typeError(l, 2, "table")
			}
			settle(callOf(l), t)
			fields = t
		}
		var line hostapi.Line
		addValue(l, &line, message)
		addFields(l, &line, fields)
		check(l, hostOf(l).LogLine(level, line.String()))
		return 0
	}
}

// addValue writes v as tostring has it, and a table as JSON.
func addValue(l *glua.LState, line *hostapi.Line, v glua.LValue) {
	if t, ok := v.(*glua.LTable); ok && l.GetMetaField(v, "__tostring") == glua.LNil {
		addJSON(l, line, t)
		return
	}
	line.Text(toString(l, v))
}

func addJSON(l *glua.LState, line *hostapi.Line, t *glua.LTable) {
	m := meterOf(l)
	e := encoder{meter: m, nodes: maxNodes, limit: hostapi.MaxLine, over: "the values"}
	text, err := e.value(nil, t, 0)
	m.charge(l, 0) // fails here if the budget is why encoding did
	if err != nil {
		line.Text(typeName(t) + " (" + e.fail(err, "which").Message + ")")
		return
	}
	line.Text(string(text))
}

// addFields writes the members of t as key=value, in their order.
func addFields(l *glua.LState, line *hostapi.Line, t *glua.LTable) {
	if t == nil {
		return
	}
	m := meterOf(l)
	for k, v := m.next(t, glua.LNil); k != glua.LNil && !line.Full(); k, v = m.next(t, k) {
		m.charge(l, 1)
		line.Field(keyText(k))
		if s, ok := v.(glua.LString); ok {
			line.FieldText(string(s))
		} else {
			addValue(l, line, v)
		}
	}
}
