package script

import (
	"errors"
	"fmt"
)

// Kind says what sort of failure an error is, the same on every protocol
// (docs/protocol.md has the mapping). Its text is what travels on the wire.
type Kind string

// The kinds. The first eight can end a call; the last three end requests to the
// registry, and Internal is a fault of ours.
const (
	NotFound    Kind = "NOTFOUND"    // no such script or version
	Disabled    Kind = "DISABLED"    // the release is disabled
	Script      Kind = "SCRIPT"      // the script is wrong: it raised an error, or does not compile
	Timeout     Kind = "TIMEOUT"     // the call's wall-clock time ran out
	Limit       Kind = "LIMIT"       // an instruction, size or nesting limit was met
	Overloaded  Kind = "OVERLOADED"  // the agent has no room for the call now; try again
	Denied      Kind = "DENIED"      // the caller may not do this
	Invalid     Kind = "INVALID"     // the request is malformed; Field names where
	Conflict    Kind = "CONFLICT"    // somebody else changed the script first
	Unavailable Kind = "UNAVAILABLE" // a part that is needed cannot be reached; try again
	Internal    Kind = "INTERNAL"    // a fault in Scriptorium
)

// Known reports whether the kind is one of these.
func (k Kind) Known() bool {
	switch k {
	case NotFound, Disabled, Script, Timeout, Limit, Overloaded, Denied, Invalid, Conflict, Unavailable, Internal:
		return true
	}
	return false
}

// Deterministic reports whether an agent that failed to activate a release with
// an error of this kind fails again in the same way, so that it does not retry.
func (k Kind) Deterministic() bool { return k == Script || k == Limit || k == Invalid }

// Error is the error that crosses package and process boundaries.
type Error struct {
	Kind    Kind
	Field   string // the offending field, flag or argument, when one is to blame: "spec.source"
	Message string // for a person; says what to do where that is known
	Line    int    // line of the script, from 1; 0 when unknown
	Column  int    // column of the script, in bytes from 1; 0 when unknown
	Err     error  // the cause, or nil; it does not travel
	// Stack is the functions that a script was in when it failed, the innermost first. It is for authors: callers of
	// gateways do not get it.
	Stack []Frame
}

// Frame is a function of a script that was called.
type Frame struct {
	// Function is its name, "<line 7>" for the function without a name that begins there, and "" for the one that the
	// call began with.
	Function string
	Line     int // that runs in it
}

// Bounds of a Stack.
const (
	MaxFrames        = 10
	MaxFunctionBytes = 64
)

// Errorf returns an *Error of the kind for the field; field may be "". A %w
// verb keeps its operand as the cause.
func Errorf(kind Kind, field, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Field: field, Message: wrapped.Error(), Err: errors.Unwrap(wrapped)}
}

// Error returns "field: message (line L, column C)", leaving out what is unknown.
func (e *Error) Error() string {
	s := e.Message
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	switch {
	case e.Line > 0 && e.Column > 0:
		return fmt.Sprintf("%s (line %d, column %d)", s, e.Line, e.Column)
	case e.Line > 0:
		return fmt.Sprintf("%s (line %d)", s, e.Line)
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err: that of the first *Error in its chain,
// Internal for any other error, and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// AsError returns the first *Error in err's chain, or wraps err as Internal.
// It returns nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: Internal, Message: err.Error(), Err: err}
}
