// Package api has the definition of what scripts can call beside Lua's own functions: scriptorium.lua and kube.lua, with
// annotations of the Lua language server. Editors and scriptctl lint read them, and the pages of this folder are
// generated from them.
package api

import (
	_ "embed" // the definitions
	"regexp"
	"strings"
)

// Globals is scriptorium.lua, the definitions of what every script finds.
//
//go:embed scriptorium.lua
var Globals string

// Kube is kube.lua, the definitions of what require("kube") returns.
//
//go:embed kube.lua
var Kube string

// Definitions are what a file defines, in the order of the file.
type Definitions struct {
	Functions []Function
	Variables []Variable
	Classes   []Class
	Aliases   map[string]string // a type, by the name that stands for it
}

// Function is a function that scripts can call.
type Function struct {
	Name, Doc  string
	Parameters []Field
	Results    []Field // an empty name if the file has none
}

// Variable is a library, or another global or member of a library that is no function.
type Variable struct{ Name, Type, Doc string }

// Class is a table with known fields, or a library.
type Class struct {
	Name, Doc string
	Fields    []Field
}

// Field is a field of a class, a parameter or a result.
type Field struct {
	Name, Type, Doc string
	Optional        bool
}

var (
	// block is lines of annotations with the definition after them, if there is one.
	block = regexp.MustCompile(`(?m)((?:^---.*\n)+)(?:^function ([\w.]+)\(|^(?:local )?([\w.]+) = )?`)
	// tag is an annotation that names something: its kind, its name, whether it is optional, and the rest.
	tag = regexp.MustCompile(`^---@(class|alias|generic|field|param) ([\w.]+)(\??):? ?(.*)$`)
)

// Parse returns what the text of a file defines.
func Parse(text string) *Definitions {
	d := &Definitions{Aliases: map[string]string{}}
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		d.add(m[1], m[2], m[3])
	}
	return d
}

// add adds one definition: annotations, and the name of the function or of the variable after them.
func (d *Definitions) add(annotations, function, variable string) {
	f := Function{Name: function}
	v := Variable{Name: variable}
	var class *Class
	var doc []string
	for line := range strings.Lines(annotations) {
		line = strings.TrimSuffix(line, "\n")
		m := tag.FindStringSubmatch(line)
		switch {
		case m == nil && strings.HasPrefix(line, "---@return "):
			f.Results = append(f.Results, result(strings.TrimPrefix(line, "---@return ")))
		case m == nil && strings.HasPrefix(line, "---@type "):
			v.Type = strings.TrimPrefix(line, "---@type ")
		case m == nil && !strings.HasPrefix(line, "---@"):
			doc = append(doc, strings.TrimPrefix(line, "---"))
		case m == nil: // an annotation for editors alone
		case m[1] == "class":
			class = &Class{Name: m[2]}
		case m[1] == "field":
			class.Fields = append(class.Fields, field(m))
		case m[1] == "param":
			f.Parameters = append(f.Parameters, field(m))
		default:
			d.Aliases[m[2]] = m[4]
		}
	}
	said := strings.Join(doc, " ")
	switch {
	case function != "":
		f.Doc = said
		d.Functions = append(d.Functions, f)
	case variable != "":
		v.Doc = said
		d.Variables = append(d.Variables, v)
	}
	if class != nil {
		class.Doc = said
		d.Classes = append(d.Classes, *class)
	}
}

// field returns the field or parameter of a tag.
func field(m []string) Field {
	kind, doc := cutType(m[4])
	return Field{Name: m[2], Type: kind, Doc: doc, Optional: m[3] != ""}
}

// result returns a result from its type, its name and what the file says about it.
func result(text string) Field {
	kind, rest := cutType(text)
	name, doc, _ := strings.Cut(rest, " ")
	return Field{Name: name, Type: kind, Doc: doc}
}

// cutType cuts text after the type that it begins with. A type has spaces only within brackets and after a colon or comma.
func cutType(text string) (kind, rest string) {
	depth := 0
	for i, c := range text {
		switch c {
		case '<', '(':
			depth++
		case '>', ')':
			depth--
		case ' ':
			if depth == 0 && !strings.ContainsRune(":,", rune(text[i-1])) {
				return text[:i], text[i+1:]
			}
		}
	}
	return text, ""
}
