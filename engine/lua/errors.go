package lua

import (
	"fmt"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// callError translates what ended a call.
func callError(api *vm.APIError, m *meter) *script.Error {
	if api.Cause != nil {
		m.reason = faulted
	}
	line, library := placeOf(api.Trace)
	if m.reason != running {
		e := m.stopError()
		if m.reason == faulted {
			e.Err = api
		}
		e.Line, e.Message = line, library+e.Message
		return e
	}
	e := &script.Error{Kind: script.Script}
	switch v := api.Object.(type) {
	case *vm.LUserData:
		if known, ok := v.Value.(*script.Error); ok {
			*e = *known
		} else {
			e.Message = "the script raised a " + values.Name(v)
		}
	case vm.LString:
		var where string
		where, e.Message = bind.SplitPosition(string(v))
		e.Line = bind.LineOf(where)
		place := bind.LibraryPosition(e.Message)
		e.Message = e.Message[len(place):]
		if e.Message == "stack overflow" || e.Message == "registry overflow" {
			e.Kind = script.Limit
			e.Message = fmt.Sprintf("%s: calls are nested more than %d deep, or hold too many values", e.Message, callStackSize)
		}
		e.Message = place + e.Message
	case vm.LNumber:
		e.Message = numeral.Format(float64(v))
	case *vm.LTable:
		e.Message = "the script raised a table without a message"
		luajson.Settle(v)
		if message, ok := v.RawGetString("message").(vm.LString); ok {
			e.Message = string(message)
		}
	default:
		e.Message = "the script raised a " + v.Type().String()
	}
	if e.Line == 0 {
		e.Line = line
	}
	e.Message = hostapi.Clip(e.Message)
	if e.Kind == script.Script {
		e.Stack = stackOf(api.Trace)
	}
	return e
}

// placeOf returns the line of the innermost function of the script, and the position of a function of a library that is
// further in.
func placeOf(trace []vm.Traced) (line int, library string) {
	for _, f := range trace {
		switch {
		case f.Proto == nil:
		case f.Proto.SourceName == compile.ChunkName:
			return f.Line, library
		case library == "":
			library = fmt.Sprintf("%s:%d: ", f.Proto.SourceName, f.Line)
		}
	}
	return 0, library
}

// stackOf returns the functions of the script in a trace.
func stackOf(trace []vm.Traced) (stack []script.Frame) {
	for _, f := range trace {
		if f.Proto == nil || f.Proto.SourceName != compile.ChunkName || len(stack) == script.MaxFrames {
			continue
		}
		frame := script.Frame{Line: f.Line}
		if !f.Main {
			frame.Function = fmt.Sprintf("<line %d>", f.Proto.LineDefined)
		}
		stack = append(stack, frame)
	}
	return stack
}
