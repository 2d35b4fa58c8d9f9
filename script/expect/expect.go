// Package expect compares what a call returned with what a test of the script expects. Agents use it for candidates, and
// scriptctl for files on a laptop, so that both agree.
package expect

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of the message of a test that failed, in bytes.
const (
	maxMessage = 512
	maxWhole   = 200 // of a value that is shown as it is, and not where it differs
	maxPart    = 160
	maxPath    = 120
)

// Results are the values that a call returned.
type Results interface {
	Len() int
	Value(i int) []byte
}

// Argument returns the argument of the test's call: {} if the test has no request.
func Argument(t script.Test) []byte {
	if t.Request == nil {
		return []byte("{}")
	}
	return t.Request
}

// Check returns why the test failed, given how its call ended; nil if it passed.
func Check(t script.Test, reply Results, err error) *script.Error {
	switch {
	case t.Error != "" && err == nil:
		return failed(t, script.Script, "want an error of kind %s, got %s", t.Error, shown(first(reply), maxPart))
	case t.Error != "" && script.KindOf(err) != t.Error:
		return at(err, failed(t, script.KindOf(err), "want an error of kind %s, got %s: %s", t.Error, script.KindOf(err), said(err)))
	case t.Error != "":
		return nil
	case err != nil:
		return at(err, failed(t, script.KindOf(err), "%s", said(err)))
	case t.Expect == nil:
		return nil
	}
	d, err := match(t.Expect, first(reply))
	switch {
	case err != nil:
		return failed(t, script.Script, "%v", err)
	case d == nil:
		return nil
	case d.path == "" || len(t.Expect) <= maxWhole && len(first(reply)) <= maxWhole:
		return failed(t, script.Script, "want %s, got %s", shown(t.Expect, maxWhole), shown(first(reply), maxWhole))
	}
	return failed(t, script.Script, "at %s: want %s, got %s", cut(d.path, maxPath), encoded(d.want), encoded(d.got))
}

// first returns the first result; a call without any has null.
func first(reply Results) []byte {
	if reply.Len() == 0 {
		return []byte("null")
	}
	return reply.Value(0)
}

func failed(t script.Test, kind script.Kind, format string, args ...any) *script.Error {
	return &script.Error{Kind: kind, Field: fieldOf(t), Message: cut(fmt.Sprintf(format, args...), maxMessage)}
}

// at gives the failure the position of the call's error.
func at(err error, failure *script.Error) *script.Error {
	call := script.AsError(err)
	failure.Line, failure.Column = call.Line, call.Column
	return failure
}

func fieldOf(t script.Test) string { return "tests[" + t.Name + "]" }

// said returns the message of a call's error, without line and column.
func said(err error) string {
	e := *script.AsError(err)
	e.Line, e.Column = 0, 0
	return e.Error()
}

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error() // of what was JSON
	}
	return shown(data, maxPart)
}

func shown(data []byte, most int) string { return cut(string(data), most) }

// cut returns s as text of at most so many bytes; that it is cut is marked.
func cut(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	const mark = "…"
	end := most - len(mark)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
