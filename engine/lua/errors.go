package lua

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// chunkName is what positions in error messages begin with: "script:12: …".
const chunkName = compile.ChunkName

// raise ends the running function with err, whose kind and position survive
// unless the script catches it: pcall hands it out as a string.
func raise(l *vm.LState, err *script.Error) {
	if err.Line == 0 {
		where := l.Where(1)
		err.Line = lineOf(where)
		err.Message = libraryPosition(where+" ") + err.Message
	}
	l.Raise(&vm.LUserData{Value: err})
}

func raiseLimit(l *vm.LState, format string, args ...any) {
	raise(l, script.Errorf(script.Limit, "", format, args...))
}

// lineOf returns the line of a position, such as "script:12:"; 0 if it is none of the script's.
func lineOf(position string) int {
	text, ok := strings.CutPrefix(position, chunkName+":")
	if !ok {
		return 0
	}
	text, _, _ = strings.Cut(text, ":")
	line, _ := strconv.Atoi(text)
	return line
}

// caught is the value that a script sees for what it caught.
func caught(raised vm.LValue, m *meter) vm.LValue {
	switch v := raised.(type) {
	case *vm.LUserData:
		if e, ok := v.Value.(*script.Error); ok {
			if e.Line == 0 {
				return vm.LString(e.Message)
			}
			return vm.LString(chunkName + ":" + strconv.Itoa(e.Line) + ": " + e.Message)
		}
	case vm.LString:
		// A position or a key in it may have made it too long.
		return v[:min(len(v), m.limits.StringBytes)]
	}
	return raised
}

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
			e.Message = "the script raised a " + valueName(v)
		}
	case vm.LString:
		var where string
		where, e.Message = splitPosition(string(v))
		e.Line = lineOf(where)
		place := libraryPosition(e.Message)
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
		settle(m.call, v)
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
		case f.Proto.SourceName == chunkName:
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
		if f.Proto == nil || f.Proto.SourceName != chunkName || len(stack) == script.MaxFrames {
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
