package sandbox

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ended translates what ended a function. A nil error stays one.
func (c *Call) ended(err error) error {
	if err == nil {
		return nil
	}
	if c.failure != nil {
		if c.failure.Stack == nil && c.failure.Kind != script.Timeout {
			c.failure.Stack = c.stackOf(err.Error())
		}
		return c.failure
	}
	// Only the first line is wazero's own: the trace below it has names that the module chose.
	first, _, _ := strings.Cut(err.Error(), "\n")
	if _, ok := errors.AsType[runtime.Error](err); ok || strings.Contains(first, "(recovered by wazero)") {
		return &script.Error{Kind: script.Internal, Message: "the script met a fault of the engine and was stopped", Err: err}
	}
	return c.trap(err.Error())
}

// words are what traps are called, by wazero's names.
var words = map[string]string{
	"unreachable":                   "unreachable code was reached, for example by a panic or a failed assertion",
	"out of bounds memory access":   "it used memory that it does not have",
	"invalid table access":          "it called a function by an index that its table does not have",
	"indirect call type mismatch":   "it called a function by a pointer of another type",
	"integer divide by zero":        "integer divide by zero",
	"integer overflow":              "integer overflow",
	"invalid conversion to integer": "it converted a number to an integer that cannot hold it",
}

// trap is the error of a module that cannot go on.
func (c *Call) trap(text string) *script.Error {
	what, _, _ := strings.Cut(text, "\n")
	if at := strings.LastIndex(what, "wasm error: "); at >= 0 {
		what = what[at+len("wasm error: "):]
	}
	stack := c.instance.stack
	if stack == nil && c.module != nil { // a start function trapped
		stack = mutable(c.module, instrument.StackName)
	}
	if what == "stack overflow" || stack != nil && int32(stack.Get()) < 0 {
		e := script.Errorf(script.Limit, "", "calls are nested too deep: they may take %d KiB of stack together", c.instance.of.source.Module.Stack>>10)
		e.Stack = c.stackOf(text)
		return e
	}
	if known := words[what]; known != "" {
		what = known
	}
	e := &script.Error{Kind: script.Script, Stack: c.stackOf(text)}
	if len(e.Stack) > 0 && e.Stack[0].Function != "" {
		e.Message = fmt.Sprintf("the module trapped in %s: %s", e.Stack[0].Function, clip(what))
	} else {
		e.Message = "the module trapped: " + clip(what)
	}
	return e
}

// signature is how a line of wazero's traces ends: types of parameters and results.
var signature = regexp.MustCompile(`\((?:[a-z0-9]+(?:,[a-z0-9]+)*)?\)(?: (?:[a-z0-9]+|\([a-z0-9,]+\)))?$`)

// stackOf returns the functions in wazero's trace, the innermost first.
func (c *Call) stackOf(text string) (stack []script.Frame) {
	_, trace, ok := strings.Cut(text, "wasm stack trace:\n")
	if !ok {
		return nil
	}
	for line := range strings.Lines(trace) {
		name := strings.TrimSpace(line)
		at := signature.FindStringIndex(name)
		if at == nil || len(stack) == script.MaxFrames {
			break
		}
		name = strings.TrimPrefix(name[:at[0]], c.instance.of.name+".")
		if strings.HasPrefix(name, instrument.MeterModule+".") {
			continue
		}
		name = strings.ToValidUTF8(name[:min(len(name), script.MaxFunctionBytes)], "")
		stack = append(stack, script.Frame{Function: name})
	}
	return stack
}

// maxMessageBytes bounds the message of an error that leaves the sandbox.
const maxMessageBytes = 1 << 10

// clip shortens a message and makes it valid UTF-8.
func clip(s string) string {
	if len(s) > maxMessageBytes {
		cut := maxMessageBytes - len("…")
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
