package scriptctl

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/contexts"
	"github.com/scriptorium-dev/scriptorium/script"
)

// errorView is an error as JSON or YAML. Like the other views it is a contract.
type errorView struct {
	Error    errorBody `json:"error"`
	ExitCode int       `json:"exitCode"`
}

type errorBody struct {
	Agent   string      `json:"agent,omitempty"` // the agent's socket, when it is the agent's
	Kind    script.Kind `json:"kind,omitempty"`  // absent where the exit code says all
	Field   string      `json:"field,omitempty"`
	Message string      `json:"message"`
	File    string      `json:"file,omitempty"`
	Line    int         `json:"line,omitempty"` // of the file, or else of the script
	Column  int         `json:"column,omitempty"`
	Source  string      `json:"source,omitempty"` // the text of the line
	// Stack is the functions that the script was in, if these are several: the innermost first.
	Stack []calledFunction `json:"stack,omitempty"`
}

// calledFunction is a function of a script that was called.
type calledFunction struct {
	Function string `json:"function"` // "main" is the one that the call began with
	Line     int    `json:"line"`     // of the error's file, or else of the script
	Source   string `json:"source,omitempty"`
}

// text returns the frame in one line; file is "" if it is not known.
func (f *calledFunction) text(file string) string {
	where := fmt.Sprintf("line %d", f.Line)
	if file != "" {
		where = fmt.Sprintf("%s:%d", file, f.Line)
	}
	return strings.TrimSuffix(fmt.Sprintf("in %s, %s: %s", f.Function, where, strings.TrimSpace(f.Source)), ": ")
}

// viewOfStack returns the functions of a stack; nil if there is only one. text has their lines, and is nil if it is not
// known.
func viewOfStack(stack []script.Frame, text []byte) (all []calledFunction) {
	if len(stack) < 2 {
		return nil
	}
	for _, f := range stack {
		all = append(all, calledFunction{cmp.Or(f.Function, "main"), f.Line, lineOf(text, f.Line)})
	}
	return all
}

func viewOfError(err error) errorView {
	v := errorView{Error: errorBody{Kind: kindOf(err), Message: text(err)}, ExitCode: exitCode(err)}
	body := &v.Error
	if e, ok := errors.AsType[*script.Error](err); ok {
		body.Field, body.Line, body.Column = e.Field, e.Line, e.Column
		body.Message = strings.Replace(body.Message, e.Error(), e.Message, 1) // the rest has fields of its own
	}
	if e, ok := errors.AsType[*placedError](err); ok {
		body.File, body.Line, body.Column = e.file, e.line, 0
	}
	if e, ok := errors.AsType[*manifest.Error](err); ok {
		body.Field, body.Message = e.Field, e.Message
		body.File, body.Line, body.Column = e.File, e.Line, e.Column
		file, _ := manifest.ReadFile(e.File) // without it the error has no excerpt
		body.Source, body.Stack = lineOf(file, e.Line), viewOfStack(e.Stack, file)
	}
	if e, ok := errors.AsType[*contexts.Error](err); ok {
		body.Field, body.Message, body.File, body.Line = e.Field, e.Message, e.File, e.Line
	}
	if failed, ok := errors.AsType[*agentError](err); ok {
		body.Agent, body.Source, body.Stack = failed.agent, lineOf(failed.source, body.Line), viewOfStack(script.AsError(err).Stack, failed.source)
		if body.Kind != script.Unavailable { // which says where nobody answers, and what to do
			body.Message = script.AsError(err).Message
		}
	}
	return v
}

// kindOf returns the kind of err; "" if neither the error nor its exit code has one.
func kindOf(err error) script.Kind {
	if e, ok := errors.AsType[*script.Error](err); ok {
		return e.Kind
	}
	switch exitCode(err) {
	case exitUsage:
		return script.Invalid
	case exitUnreachable:
		return script.Unavailable
	}
	return ""
}

// printError prints a line for each error that was joined in err, or an object if the
// output is for programs.
func (a *app) printError(err error) {
	for _, e := range single(err) {
		view := viewOfError(e)
		view.Error.Message = a.own(view.Error.Message)
		a.report("error: "+a.own(text(e)), view)
		if shown := excerpt(view.Error.Source, view.Error.Line, view.Error.Column); shown != "" && !a.forPrograms() {
			fmt.Fprintln(a.Err, printable(shown))
		}
		for _, f := range view.Error.Stack {
			if !a.forPrograms() {
				fmt.Fprintln(a.Err, "  "+plain(f.text(view.Error.File)))
			}
		}
	}
}

// warn prints a warning as printError prints an error.
func (a *app) warn(text string) {
	text = a.own(text)
	a.report("warning: "+text, map[string]noticeBody{"warning": {text}})
}

// notice prints what a person should know beside the output.
func (a *app) notice(format string, args ...any) {
	text := a.own(fmt.Sprintf(format, args...))
	a.report(text, map[string]noticeBody{"notice": {text}})
}

// noticeBody is a warning or a notice as JSON or YAML.
type noticeBody struct {
	Message string `json:"message"`
}

// report prints on standard error: a line, or an object if the output is for programs.
func (a *app) report(line string, view any) {
	if a.forPrograms() {
		_ = a.printEach(a.Err, view) // nothing can be done where that fails
		return
	}
	fmt.Fprintln(a.Err, plain(line))
}

// forPrograms reports whether the output is for programs.
func (a *app) forPrograms() bool { return a.output == formatJSON || a.output == formatYAML }

// single returns the errors that were joined in err, each with the exit code that err
// gives it.
func single(err error) []error {
	var all []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, single(e)...)
		}
		return all
	}
	e, ok := err.(*exitError) //nolint:errorlint // this very error, not one that it wraps
	if !ok || e.err == nil {
		return []error{err}
	}
	for _, one := range single(e.err) {
		all = append(all, &exitError{code: e.code, err: one})
	}
	return all
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
	case script.FieldHold:
		return true
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
