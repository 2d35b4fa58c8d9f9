package manifest

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// place is where a value stands in the manifest's file.
type place struct {
	line, column int
	block        bool // a literal block: its lines are lines of the source
	indent       int  // of the block's lines, in bytes
}

const entrypointField = "spec.entrypoint"

// fieldPlaces returns where the values of spec, and of the objects in it, start:
// by their paths.
func fieldPlaces(spec map[string]*yaml.Node) map[string]place {
	places := make(map[string]place, len(spec))
	for name, n := range spec {
		path := "spec." + name
		places[path] = place{line: n.Line, column: n.Column}
		partPlaces(places, path, n, 3)
	}
	return places
}

// partPlaces adds those of the parts of n, which stands at the path, so many levels deep.
func partPlaces(places map[string]place, path string, n *yaml.Node, levels int) {
	if levels == 0 {
		return
	}
	add := func(path string, n *yaml.Node) {
		places[path] = place{line: n.Line, column: n.Column}
		partPlaces(places, path, n, levels-1)
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			add(path+"."+n.Content[i].Value, n.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			add(fmt.Sprintf("%s[%d]", path, i), item)
		}
	}
}

// Position returns where line and column of the source are: "route.lua:3:7",
// or the line and column of the manifest if the source stands there in a
// literal block. In any other form (base64, quoted) source lines are not lines
// of the file: it returns where the value starts, and "line 3 of the source".
// A column of 0 is unknown and left out.
func (m *Manifest) Position(line, column int) string {
	file, l, c, note := m.locate(line, column)
	pos := position(file, l, c)
	if note != "" {
		pos += " (" + note + ")"
	}
	return pos
}

// TestPosition returns the file and the line of the manifest's test with the index.
func (m *Manifest) TestPosition(i int) (file string, line int) {
	return m.File, m.fields[fmt.Sprintf("%s[%d]", testsField, i)].line
}

// SourceLine returns the file and the line in which a line of the source stands; ok is false if the source is written in
// a form whose lines are not lines of the file.
func (m *Manifest) SourceLine(line int) (file string, inFile int, ok bool) {
	file, inFile, _, note := m.locate(line, 1)
	return file, inFile, note == ""
}

// Locate returns err with its place, an *Error that wraps it, if it is about the
// source or about a field of the manifest: a *script.Error of a compiler or of the
// registry. An error in the source without a line is where the entrypoint is
// named, if it speaks of that, and else where the source starts. Any other error
// is returned as it is.
func (m *Manifest) Locate(err error) error {
	e, ok := errors.AsType[*script.Error](err)
	switch {
	case !ok:
		return err
	case e.Line > 0:
		return m.inSource(e.Line, e.Column, e.Message, err)
	case e.Kind == script.Script:
		if at, ok := m.fields[entrypointField]; ok && strings.Contains(e.Message, "entrypoint") {
			return m.inField(at, entrypointField, e.Message, err)
		}
		file, line, column, _ := m.locate(1, 1)
		return &Error{File: file, Line: line, Column: column, Message: e.Message, Err: err}
	}
	field := m.manifestField(e.Field)
	if at, ok := m.fields[field]; ok {
		return m.inField(at, field, e.Message, err)
	}
	return err
}

func (m *Manifest) inSource(line, column int, message string, err error) error {
	file, line, column, note := m.locate(line, column)
	e := &Error{File: file, Line: line, Column: column, Message: message, Err: err}
	if note != "" {
		e.Message += " (" + note + ")"
		return e
	}
	for _, f := range script.AsError(err).Stack {
		_, f.Line, _, _ = m.locate(f.Line, 0)
		e.Stack = append(e.Stack, f)
	}
	return e
}

func (m *Manifest) inField(at place, field, message string, err error) error {
	return &Error{File: m.File, Line: at.line, Column: at.column, Field: field, Message: message, Err: err}
}

// manifestField returns the path of what the registry calls field, or "".
func (m *Manifest) manifestField(field string) string {
	switch field {
	case "pin":
		return "spec.version"
	case "entrypoint":
		return entrypointField
	case "signature":
		return signatureField
	case "settings.historyLimit":
		return "spec.revisionHistoryLimit"
	case "source":
		for _, field := range sourceFields {
			if _, ok := m.fields["spec."+field]; ok {
				return "spec." + field
			}
		}
	}
	if setting, ok := strings.CutPrefix(field, "settings."); ok {
		return "spec." + setting
	}
	return ""
}

func (m *Manifest) locate(line, column int) (file string, l, c int, note string) {
	switch {
	case m.SourceFile != "":
		return m.SourceFile, line, column, ""
	case m.at.block && column > 0:
		return m.File, m.at.line + line, m.at.indent + column, ""
	case m.at.block:
		return m.File, m.at.line + line, 0, ""
	default:
		return m.File, m.at.line, m.at.column, fmt.Sprintf("line %d of the source", line)
	}
}
