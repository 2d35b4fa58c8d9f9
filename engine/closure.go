package engine

import (
	"fmt"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Closure returns all libraries that the script requires, those that libraries require included, in the order
// that versions have. lookup returns the library with the name; its errors are returned with the place of the call
// that requires it. Other errors are those of Requires, and:
//
//   - Script: a name that is not constant, that is no name of a script, or that is of another tenant, and a
//     library that requires itself, through others or not;
//   - Invalid: the libraries are more, or larger, than a version may have.
func Closure(c Checker, of script.Name, src Source, lookup func(script.Name) (script.Library, error)) ([]script.Library, error) {
	w := closure{checker: c, of: of, lookup: lookup, found: map[script.Name]bool{}, path: []script.Name{of}}
	if err := w.walk(src); err != nil {
		return nil, err
	}
	script.SortLibraries(w.libraries)
	if err := script.CheckLibraries(of, w.libraries); err != nil {
		return nil, err
	}
	if err := script.CheckProgramSize(len(src.Code), w.libraries); err != nil {
		return nil, err
	}
	return w.libraries, nil
}

// closure is a walk over sources.
type closure struct {
	checker   Checker
	of        script.Name
	lookup    func(script.Name) (script.Library, error)
	found     map[script.Name]bool // those whose sources were walked, with all that they require
	libraries []script.Library
	path      []script.Name // from the script to the source that is walked
}

// walk adds what the source requires.
func (w *closure) walk(src Source) error {
	requirer, ok := w.checker.(Requirer)
	if !ok {
		return nil
	}
	requires, err := requirer.Requires(src)
	if err != nil {
		return w.at(0, err)
	}
	for _, r := range requires {
		name, err := w.nameOf(r)
		if err == nil {
			err = w.add(name)
		}
		if err != nil {
			return w.at(r.Line, err)
		}
	}
	return nil
}

// nameOf returns the library that is required.
func (w *closure) nameOf(r Require) (script.Name, error) {
	if !r.Constant {
		return script.Name{}, script.Errorf(script.Script, "source",
			"require wants the name of a library as text in quotes, such as require(\"%s/lib\"): what a script requires is found before it runs", w.of.Tenant)
	}
	name, err := script.ParseName(r.Name)
	if err != nil {
		return name, script.Errorf(script.Script, "source",
			"there is no module %.80q: require a module that every script has, such as json, or a library by its tenant and name, such as require(\"%s/lib\")", r.Name, w.of.Tenant)
	}
	if w.of.Tenant == "" {
		return name, script.Errorf(script.Script, "source", "only a script with a manifest has libraries: put this source into a manifest of the tenant %s", name.Tenant)
	}
	if name.Tenant != w.of.Tenant {
		return name, script.Errorf(script.Script, "source", "the library %s is of another tenant: publish it for the tenant %s, too", name, w.of.Tenant)
	}
	for i, outer := range w.path {
		if outer == name {
			return name, script.Errorf(script.Script, "source", "%s requires itself: %s: move what both need to a library of its own", name, pathText(append(w.path[i:len(w.path):len(w.path)], name)))
		}
	}
	return name, nil
}

func pathText(names []script.Name) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = n.String()
	}
	return strings.Join(texts, " → ")
}

// add adds the library and all that it requires.
func (w *closure) add(name script.Name) error {
	if w.found[name] {
		return nil
	}
	w.found[name] = true
	if len(w.libraries) == script.MaxLibraries {
		return script.Errorf(script.Invalid, "source", "%s requires more than %d libraries, those that libraries require included: put small ones together", w.of, script.MaxLibraries)
	}
	l, err := w.lookup(name)
	if err != nil {
		return err
	}
	w.libraries = append(w.libraries, l)
	if size := w.size(); size > script.MaxLibrariesBytes {
		return script.Errorf(script.Invalid, "source", "the libraries of %s have more than %d bytes of source together (128 KiB): require smaller ones", w.of, script.MaxLibrariesBytes)
	}
	w.path = append(w.path, name)
	err = w.walk(Source{Code: []byte(l.Source)})
	w.path = w.path[:len(w.path)-1]
	return err
}

func (w *closure) size() (bytes int) {
	for _, l := range w.libraries {
		bytes += len(l.Source)
	}
	return bytes
}

// at returns the error with its line in the source that is walked. Of a library the line is in the message.
func (w *closure) at(line int, err error) error {
	e := *script.AsError(err)
	if e.Line == 0 {
		e.Line = line
	}
	if of := w.path[len(w.path)-1]; of != w.of {
		if e.Line > 0 {
			e.Message = fmt.Sprintf("%s:%d: %s", of, e.Line, e.Message)
		}
		e.Line, e.Column = 0, 0
	}
	if e.Field == "" || e.Field == "name" {
		e.Field = "source"
	}
	return &e
}
