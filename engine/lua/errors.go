package lua

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// chunkName is what positions in error messages begin with: "script:12: …".
	chunkName = "script"
)

// raise ends the running function with err, whose kind and position survive
// unless the script catches it: pcall hands it out as a string.
func raise(l *glua.LState, err *script.Error) {
	if err.Line == 0 {
		where := l.Where(1)
		err.Line = lineOf(where)
		err.Message = libraryPosition(where+" ") + err.Message
	}
	l.Error(&glua.LUserData{Value: err, Metatable: glua.LNil}, 0)
}

func raiseLimit(l *glua.LState, format string, args ...any) {
	raise(l, script.Errorf(script.Limit, "", format, args...))
}

// position is how gopher-lua begins messages and the lines of its tracebacks.
var position = regexp.MustCompile(`(?m)^\t?` + chunkName + `:(\d+): ?`)

// lineOf returns the line of the first position in s, or 0.
func lineOf(s string) int {
	match := position.FindStringSubmatch(s)
	if match == nil {
		return 0
	}
	line, _ := strconv.Atoi(match[1])
	return line
}

// caught is the value that a script sees for an error that it caught.
func caught(err *glua.ApiError, m *meter) glua.LValue {
	switch v := err.Object.(type) {
	case *glua.LUserData:
		if e, ok := v.Value.(*script.Error); ok {
			if e.Line == 0 {
				return glua.LString(e.Message)
			}
			return glua.LString(chunkName + ":" + strconv.Itoa(e.Line) + ": " + e.Message)
		}
	case glua.LString:
		position, message := splitPosition(string(v))
		place := libraryPosition(message)
		if words := reword(message[len(place):]); place+words != message {
			return glua.LString(position + place + words)
		}
		// A position or a key in it may have made it too long.
		if len(v) > m.limits.StringBytes {
			return v[:m.limits.StringBytes]
		}
	}
	return err.Object
}

// callError translates what ended a call.
func callError(err error, m *meter) *script.Error {
	api, ok := errors.AsType[*glua.ApiError](err)
	if !ok || api.Type == glua.ApiErrorPanic {
		m.reason = faulted
	}
	if m.reason != running {
		e := m.stopError()
		if m.reason == faulted {
			e.Err = err
		}
		if api != nil {
			e.Line = lineOf(api.StackTrace)
			e.Message = inLibrary(api.StackTrace) + e.Message
		}
		return e
	}
	e := &script.Error{Kind: script.Script}
	switch v := api.Object.(type) {
	case *glua.LUserData:
		if known, ok := v.Value.(*script.Error); ok {
			*e = *known
		} else {
			e.Message = "the script raised a " + valueName(v)
		}
	case glua.LString:
		var where string
		where, e.Message = splitPosition(string(v))
		e.Line = lineOf(where)
		place := libraryPosition(e.Message)
		e.Message = reword(e.Message[len(place):])
		if e.Message == "stack overflow" || e.Message == "registry overflow" {
			e.Kind = script.Limit
			e.Message = fmt.Sprintf("%s: calls are nested more than %d deep, or hold too many values", e.Message, callStackSize)
		}
		e.Message = place + e.Message
	case glua.LNumber:
		e.Message = formatNumber(float64(v))
	case *glua.LTable:
		e.Message = "the script raised a table without a message"
		settle(m.call, v)
		if message, ok := v.RawGetString("message").(glua.LString); ok {
			e.Message = string(message)
		}
	default:
		e.Message = "the script raised a " + v.Type().String()
	}
	if e.Line == 0 {
		e.Line = lineOf(api.StackTrace)
	}
	e.Message = hostapi.Clip(e.Message)
	if e.Kind == script.Script {
		e.Stack = stackOf(api.StackTrace)
	}
	return e
}

// tracedFunction is a line of gopher-lua's tracebacks about a function of the script.
var tracedFunction = regexp.MustCompile(`(?m)^\t` + chunkName + `:(\d+): in (?:function '(.*)'|function <` + chunkName + `:(\d+)>|.*)$`)

// stackOf returns the functions of the script in a traceback.
func stackOf(trace string) (stack []script.Frame) {
	for _, m := range tracedFunction.FindAllStringSubmatch(trace, script.MaxFrames) {
		f := script.Frame{Function: m[2]}
		f.Line, _ = strconv.Atoi(m[1])
		if m[3] != "" {
			f.Function = "<line " + m[3] + ">"
		}
		f.Function = strings.ToValidUTF8(f.Function[:min(len(f.Function), script.MaxFunctionBytes)], "")
		stack = append(stack, f)
	}
	return stack
}

func noEntrypoint(name string) *script.Error {
	return script.Errorf(script.Script, "",
		"the script defines no global function %q; define it or set the entrypoint", name)
}
