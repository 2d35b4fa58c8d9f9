// Package hostapi is what programs may use of the agent, and pure functions that languages lack: the keys and
// contents of kv, counters, rate limits, lines of the log, the clock, digests and random numbers, base64, regular
// expressions, and what is in the headers and the query of a request. It is written once, without a type of any
// language. Each engine binds it: engine/lua as libraries, engine/wasm as imported functions. A binding reads
// arguments, calls, and hands out what comes back. Rules, bounds, costs and the texts of errors are here.
//
// Functions are methods of a Call. They pay before they work, at the Call's Meter. When it refuses, they return at
// once, with an error that Stopped reports: why the call ends is the engine's to say. All other errors are of kind
// Script or Limit. Field is then the name of the parameter that is wrong, if one is, as the documentation has it.
package hostapi

import (
	"strings"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Meter counts what a call uses. An engine has one for each call.
type Meter interface {
	// Pay takes instructions from the call's budget, and yields the call's turn if it is asked for. It reports
	// whether the call may go on.
	Pay(instructions int) bool
	// Make counts bytes that are about to be allocated. It reports whether the call may go on.
	Make(bytes int) bool
}

// Call is the call that asks.
type Call struct {
	*engine.Invocation
	Meter
	// StringBytes is how long a text may be that the program gets; 0 means any length.
	StringBytes int
}

const (
	// hostCost is what a call of the host costs: it looks something up.
	hostCost = 10
	// BytesPerInstruction is how many bytes may be read or written for one instruction.
	BytesPerInstruction = 64
	// PieceBytes is how much of a long text is worked on before the call looks at its turn and its clock. It is a
	// multiple of the 3 and 4 bytes that encodings take at a time, and of BytesPerInstruction.
	PieceBytes = 48 << 10

	stringBytes = 32 // allocated for a text, besides its bytes
	tableBytes  = 96 // for a list, besides its elements
	itemBytes   = 32 // for each element
)

// stopped is the error of what the meter has stopped.
func stopped() *script.Error {
	return &script.Error{Kind: script.Limit, Field: stoppedField, Message: "the call may use no more"}
}

const stoppedField = "(stopped)"

// Stopped reports whether the meter is why there is an error. What it says is not for people: the engine knows more.
func Stopped(err *script.Error) bool { return err != nil && err.Field == stoppedField }

// fault returns an error of the program in the parameter; the parameter may be "".
func fault(parameter, format string, args ...any) *script.Error {
	return script.Errorf(script.Script, parameter, format, args...)
}

// host returns what the agent lends to the call. Where there is no agent, the program has made a mistake by asking
// for the function.
func (c *Call) host(function string) (engine.Host, *script.Error) {
	if !c.Pay(hostCost) {
		return nil, stopped()
	}
	if c.Host == nil {
		return nil, fault("", "%s is not available: the script runs without an agent", function)
	}
	return c.Host, nil
}

// room returns n bytes for a text, which are counted, and refused if they are over the limit.
func (c *Call) room(n int) ([]byte, *script.Error) {
	if c.StringBytes > 0 && n > c.StringBytes {
		return nil, script.Errorf(script.Limit, "", "a string of %d bytes is over the limit of %d", n, c.StringBytes)
	}
	if !c.Make(stringBytes + n) {
		return nil, stopped()
	}
	return make([]byte, n), nil
}

// pieces calls work with each piece of n bytes, which was paid for, until it returns false.
func (c *Call) pieces(n int, work func(from, to int) bool) (whole bool, err *script.Error) {
	for from := 0; from < n; {
		to := min(from+PieceBytes, n)
		if !c.Pay((to - from) / BytesPerInstruction) {
			return false, stopped()
		}
		if !work(from, to) {
			return false, nil
		}
		from = to
	}
	return true, nil
}

// maxMessageBytes bounds what an error says.
const maxMessageBytes = 1 << 10

// Clip shortens a message and makes it valid UTF-8.
func Clip(s string) string {
	if len(s) > maxMessageBytes {
		cut := maxMessageBytes - len("…")
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// KeyText returns a key as messages have it: the beginning of it if it is long.
func KeyText(key string) string {
	const most = 40
	if len(key) > most {
		return strings.ToValidUTF8(key[:most], "") + "…"
	}
	return key
}
