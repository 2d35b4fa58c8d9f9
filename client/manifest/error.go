package manifest

import (
	"strconv"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Error is one fault, and where it is.
type Error struct {
	File    string
	Line    int    // from 1; 0 when the file as a whole is at fault
	Column  int    // in bytes from 1; 0 when unknown
	Field   string // the path of the field, such as "spec.limits.timeout", or ""
	Message string // says what to do where that is known
	Err     error  // the cause, or nil
	// Stack is that of the cause, with lines of File; nil if it has none, or if its lines are not lines of File.
	Stack []script.Frame
}

// Error returns "file:line:column: field: message", leaving out what is unknown.
func (e *Error) Error() string {
	s := position(e.File, e.Line, e.Column) + ": "
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Message
}

// Unwrap returns the cause: the error that was located for one that came of
// Manifest.Locate, and otherwise a *script.Error of kind Invalid.
func (e *Error) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return &script.Error{Kind: script.Invalid, Field: e.Field, Message: e.Message, Line: e.Line, Column: e.Column}
}

func position(file string, line, column int) string {
	if line > 0 {
		file += ":" + strconv.Itoa(line)
		if column > 0 {
			file += ":" + strconv.Itoa(column)
		}
	}
	return file
}
