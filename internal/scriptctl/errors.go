package scriptctl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// errorView is an error as JSON or YAML. Like the other views it is a contract.
type errorView struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Agent   string      `json:"agent,omitempty"` // the agent's socket, when it is the agent's
	Kind    script.Kind `json:"kind"`
	Field   string      `json:"field,omitempty"`
	Message string      `json:"message"`
	Line    int         `json:"line,omitempty"` // of the script
	Column  int         `json:"column,omitempty"`
}

func viewOfError(err error) errorView {
	e := script.AsError(err)
	body := errorBody{Kind: e.Kind, Field: e.Field, Message: e.Message, Line: e.Line, Column: e.Column}
	if e.Kind == script.Unavailable {
		body.Message = text(err) // says where nobody answers, and what to do
	}
	if failed, ok := errors.AsType[*agentError](err); ok {
		body.Agent = failed.agent
	}
	return errorView{body}
}

// printError prints a line for each error that was joined in err.
func (a *app) printError(err error) {
	for _, e := range single(err) {
		fmt.Fprintf(a.Err, "error: %s\n", text(e))
	}
}

// printErrorViews prints each error that was joined in err in the format of
// --output, and returns what ends in the same exit code.
func (a *app) printErrorViews(err error) error {
	if err == nil || a.output == formatTable {
		return err
	}
	for _, e := range single(err) {
		if err := a.printEach(a.Err, viewOfError(e)); err != nil {
			return err
		}
	}
	return &exitError{code: exitCode(err)}
}

// single returns the errors that were joined in err.
func single(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, single(e)...)
		}
		return all
	}
	if e, ok := err.(*exitError); ok && e.err != nil { //nolint:errorlint // this very error, not one that it wraps
		return single(e.err)
	}
	return []error{err}
}

// text returns err in one line.
func text(err error) string {
	s := err.Error()
	if e, ok := errors.AsType[*script.Error](err); ok && saysField(e) {
		s = strings.Replace(s, e.Field+": "+e.Message, e.Message, 1)
	}
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

// saysField reports that the message says by itself what its field would: "name:
// there is no script acme/route".
func saysField(e *script.Error) bool {
	switch e.Field {
	case "name", "version", "candidate":
		return e.Kind == script.NotFound || e.Kind == script.Conflict || strings.Contains(e.Message, e.Field)
	case "script":
		return strings.Contains(e.Message, e.Field)
	}
	return false
}

// about puts the script that was asked for before an error that does not name it.
func about(what string, err error) error {
	name, _, _ := strings.Cut(what, "@")
	if exitCode(err) == exitUnreachable || strings.Contains(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
