package rego

import (
	"errors"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxMessage is the longest text of OPA that an error repeats, in bytes.
const maxMessage = 500

// compileError translates what OPA's parser and compiler say: the first error, and how many more there are.
func compileError(err error) *script.Error {
	all, ok := errors.AsType[ast.Errors](err)
	if !ok {
		if one, ok := errors.AsType[*ast.Error](err); ok {
			all = ast.Errors{one}
		} else {
			return script.Errorf(script.Script, "", "%s", clip(err.Error()))
		}
	}
	first := all[0]
	for _, e := range all[1:] {
		if e.Location != nil && (first.Location == nil || e.Location.Compare(first.Location) < 0) {
			first = e
		}
	}
	message := clip(first.Message)
	if first.Details != nil && first.Code == ast.TypeErr {
		if lines := first.Details.Lines(); len(lines) > 0 {
			message = clip(message + ": " + strings.TrimSpace(strings.Join(lines, " ")))
		}
	}
	if name, ok := strings.CutPrefix(first.Message, "undefined function "); ok && refusedBuiltins[name] != "" {
		message = fmt.Sprintf("policies do not have the function %s here: %s", name, refusedBuiltins[name])
	}
	if more := len(all) - 1; more > 0 {
		message = fmt.Sprintf("%s (and %d more errors)", message, more)
	}
	kind := script.Script
	if strings.Contains(first.Message, ast.ErrMaxParsingRecursionDepthExceeded.Error()) {
		kind, message = script.Limit, fmt.Sprintf("the source is nested deeper than %d: split the expression", maxNesting)
	}
	switch first.Message {
	case errBodies, errGraph, errTypes, errIndexes:
		kind = script.Limit
	}
	return at(script.Errorf(kind, "", "%s", message), first.Location)
}

// at returns the error with the place. Of a bundle the message names the file.
func at(e *script.Error, where *ast.Location) *script.Error {
	if where == nil {
		return e
	}
	e.Line, e.Column = where.Row, where.Col
	if where.File != "" && where.File != moduleName {
		e.Message = clip(where.File) + ": " + e.Message
	}
	return e
}

// runError translates an error of a call.
func (m *meter) runError(err error) *script.Error {
	if m.stopped != nil {
		return m.stopped
	}
	if e, ok := errors.AsType[*script.Error](err); ok {
		return e
	}
	e, ok := errors.AsType[*topdown.Error](err)
	if !ok || e.Code == topdown.InternalErr {
		return &script.Error{Kind: script.Internal, Message: "the evaluation of the policy failed", Err: err}
	}
	return at(script.Errorf(script.Script, "", "%s", clip(writtenNames.Replace(e.Message))), e.Location)
}

// clip returns the beginning of a text that OPA made, which may have parts of a tenant's source in it.
func clip(text string) string {
	if len(text) > maxMessage {
		text = text[:maxMessage]
		text = strings.ToValidUTF8(text, "")
		text += "…"
	}
	return strings.ToValidUTF8(text, "�")
}
