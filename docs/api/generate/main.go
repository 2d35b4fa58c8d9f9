// Command generate writes the signatures and the tables of fields in the pages of docs/api. Run it in the root of the
// tree. In a page, the comment "generated: functions re" begins the functions of re, "generated: fields Request" the
// fields of Request, and "generated: libraries" the libraries. "/generated" ends each.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/docs/api"
)

func main() {
	pages, err := generate()
	for path, text := range pages {
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // a page of the tree
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// part is a generated part of a page.
var part = regexp.MustCompile(`(?s)<!-- generated: (functions|fields|libraries) ?([\w.]*) -->\n.*?<!-- /generated -->`)

// generate returns the pages of the tree around the working directory, by their paths.
func generate() (map[string]string, error) {
	globals, kube := api.Parse(api.Globals), api.Parse(api.Kube)
	all := &api.Definitions{
		Functions: slices.Concat(globals.Functions, kube.Functions), Variables: globals.Variables,
		Classes: slices.Concat(globals.Classes, kube.Classes),
	}
	paths, err := filepath.Glob("docs/api/*.md")
	if err != nil {
		return nil, err
	}
	pages, shown := map[string]string{}, map[string]bool{}
	var problems []error
	for _, path := range paths {
		text, err := os.ReadFile(path) //nolint:gosec // a page of the tree
		if err != nil {
			return nil, err
		}
		pages[path] = part.ReplaceAllStringFunc(string(text), func(old string) string {
			m := part.FindStringSubmatch(old)
			var lines string
			switch m[1] {
			case "functions":
				lines = functions(all, m[2], shown)
			case "fields":
				lines = fields(all, m[2])
			default:
				lines = libraries(globals, kube)
			}
			if lines == "" {
				problems = append(problems, fmt.Errorf("%s: the definitions have no %s", path, m[2]))
			}
			return "<!-- generated: " + strings.TrimSpace(m[1]+" "+m[2]) + " -->\n" + lines + "<!-- /generated -->"
		})
	}
	for _, f := range all.Functions {
		if !shown[f.Name] {
			problems = append(problems, fmt.Errorf("no page of docs/api has %s: write <!-- generated: functions %s --> into one", f.Name, f.Name))
		}
	}
	return pages, errors.Join(problems...)
}

// functions returns the signatures of a library's functions and the library's variables, or of one function.
func functions(d *api.Definitions, name string, shown map[string]bool) string {
	var b strings.Builder
	b.WriteString("\n")
	for _, f := range d.Functions {
		if f.Name != name && !strings.HasPrefix(f.Name, name+".") {
			continue
		}
		shown[f.Name] = true
		fmt.Fprintf(&b, "    -- %s\n", f.Doc)
		for _, p := range slices.Concat(f.Parameters, f.Results) {
			if p.Doc != "" {
				fmt.Fprintf(&b, "    -- %s: %s\n", p.Name, p.Doc)
			}
		}
		fmt.Fprintf(&b, "    %s(%s)%s\n\n", f.Name, list(f.Parameters), results(f.Results))
	}
	for _, v := range d.Variables {
		if strings.HasPrefix(v.Name, name+".") {
			fmt.Fprintf(&b, "    -- %s\n    %s%s\n\n", doc(d, v), v.Name, colon(v.Type))
		}
	}
	if b.Len() == 1 {
		return ""
	}
	return b.String()
}

// doc returns what a variable is: its own comment, or the one of its class.
func doc(d *api.Definitions, v api.Variable) string {
	for _, c := range d.Classes {
		if c.Name == v.Name {
			return c.Doc
		}
	}
	return v.Doc
}

func colon(kind string) string {
	if kind == "" {
		return ""
	}
	return ": " + kind
}

// list returns parameters or results as the Lua language server shows them.
func list(all []api.Field) string {
	texts := make([]string, 0, len(all))
	for _, f := range all {
		name := f.Name
		if f.Optional {
			name += "?"
		}
		texts = append(texts, strings.TrimPrefix(name+colon(f.Type), ": "))
	}
	return strings.Join(texts, ", ")
}

func results(all []api.Field) string {
	if len(all) == 0 {
		return ""
	}
	return " → " + list(all)
}

// fields returns a table of the fields of a class.
func fields(d *api.Definitions, name string) string {
	i := slices.IndexFunc(d.Classes, func(c api.Class) bool { return c.Name == name })
	if i < 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| field | type | |\n|---|---|---|\n")
	for _, f := range d.Classes[i].Fields {
		kind := f.Type
		if f.Optional {
			kind += "?"
		}
		if f.Optional && strings.Contains(f.Type, "|") && !strings.HasSuffix(f.Type, ">") {
			kind = "(" + f.Type + ")?"
		}
		row := fmt.Sprintf("| `%s` | `%s` | %s", f.Name, strings.ReplaceAll(kind, "|", `\|`), f.Doc)
		b.WriteString(strings.TrimSuffix(row, " ") + " |\n")
	}
	return b.String() + "\n"
}

// libraries returns a table of the libraries. Each has a page.
func libraries(globals, kube *api.Definitions) string {
	var b strings.Builder
	b.WriteString("\n| | |\n|---|---|\n")
	for _, v := range globals.Variables {
		if !strings.Contains(v.Name, ".") && v.Type != "" {
			fmt.Fprintf(&b, "| [`%s`](%s.md) | %s |\n", v.Name, v.Name, v.Doc)
		}
	}
	for _, d := range []*api.Definitions{globals, kube} {
		for _, c := range d.Classes {
			name := "`" + c.Name + "`"
			if d == kube {
				name = "`require(\"" + c.Name + "\")`"
			}
			if isLibrary(d, c.Name) {
				fmt.Fprintf(&b, "| [%s](%s.md) | %s |\n", name, c.Name, c.Doc)
			}
		}
	}
	return b.String() + "\n"
}

// isLibrary reports whether a class has functions or variables of its own.
func isLibrary(d *api.Definitions, class string) bool {
	return slices.ContainsFunc(d.Functions, func(f api.Function) bool { return strings.HasPrefix(f.Name, class+".") }) ||
		slices.ContainsFunc(d.Variables, func(v api.Variable) bool { return strings.HasPrefix(v.Name, class+".") })
}
