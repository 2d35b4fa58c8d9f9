// Package imports turns scripts of other projects into manifests and test files. It runs each test that it imports, and
// names what it cannot carry over.
package imports

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/scripttest"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// Bundle is what became of a folder or a file of another project.
type Bundle struct {
	Tenant  string
	Scripts []*Script
	Left    []Left

	// uncompared reports whether the project's tests do not compare such a part of a result; may be nil.
	uncompared func(jsonvalue.Difference) bool

	dir  string   // that is read
	root *os.Root // of dir, so that no file leads out of it
}

// inFolder returns a bundle of the folder. The caller closes its root.
func inFolder(dir, tenant string) (*Bundle, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Bundle{Tenant: tenant, dir: dir, root: root}, nil
}

// close ends the reading.
func (b *Bundle) close() { _ = b.root.Close() } // read-only

// read reads a plain file of the folder, of bounded size. It opens no other kind: a pipe would block.
func (b *Bundle) read(path string) ([]byte, error) {
	name, err := filepath.Rel(b.dir, path)
	if err != nil {
		return nil, err
	}
	info, err := b.root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		return nil, bare(err)
	}
	f, err := b.root.Open(name)
	if err != nil {
		return nil, bare(err)
	}
	defer func() { _ = f.Close() }() // read-only
	data, err := io.ReadAll(io.LimitReader(f, manifest.MaxFileBytes+1))
	if err == nil && len(data) > manifest.MaxFileBytes {
		err = fmt.Errorf("is larger than %d bytes", manifest.MaxFileBytes)
	}
	return data, err
}

// bare returns the error without the path, which the reader sees beside it.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Script is a script with its tests.
type Script struct {
	manifest.Manifest
	Cases []manifest.TestCase
}

// Left is something that is not carried over.
type Left struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Reason string `json:"reason"`
}

// String returns "file:line: reason".
func (l Left) String() string {
	if l.Line == 0 {
		return l.File + ": " + l.Reason
	}
	return fmt.Sprintf("%s:%d: %s", l.File, l.Line, l.Reason)
}

func (b *Bundle) leave(file string, line int, format string, args ...any) {
	b.Left = append(b.Left, Left{file, line, fmt.Sprintf(format, args...)})
}

// add adds a script whose source is in the file, and whose chunk is the program. It returns nil if there is no source.
func (b *Bundle) add(name, file string) *Script {
	source, err := b.read(file)
	if err != nil {
		b.leave(file, 0, "cannot be read: %v", err)
		return nil
	}
	return b.addSource(name, file, 1, "", source)
}

// addSource is add for a source that begins in a line of the file, with an entrypoint.
func (b *Bundle) addSource(name, file string, line int, entrypoint string, source []byte) *Script {
	if err := engines.Offline().Lua.Check(engine.Source{Code: source, Entrypoint: entrypoint}); err != nil {
		e := script.AsError(err)
		b.leave(file, line+max(e.Line, 1)-1, "the script does not compile: %s", e.Message)
		return nil
	}
	for _, other := range b.Scripts {
		if other.Name.Script == name {
			b.leave(file, line, "%s is there already, from %s", other.Name, other.File)
			return nil
		}
	}
	s := &Script{Manifest: manifest.Manifest{
		Engine: script.EngineLua,
		File:   file, Line: line, Name: script.Name{Tenant: b.Tenant, Script: name}, Source: source, SourceFile: file, Entrypoint: entrypoint, Enabled: true,
	}}
	b.Scripts = append(b.Scripts, s)
	return s
}

// addCase adds a case that stands in a line of the file. Names of cases become unique.
func (s *Script) addCase(c manifest.TestCase) {
	base := c.Name
	for n := 2; slices.ContainsFunc(s.Cases, func(o manifest.TestCase) bool { return o.Name == c.Name }); n++ {
		c.Name = fmt.Sprintf("%s (%d)", base, n)
	}
	c.Values, c.Now, c.Seed = map[string][]byte{}, manifest.TestTime, 1
	s.Cases = append(s.Cases, c)
}

// label makes a name of a script of the parts.
func label(parts ...string) string {
	text := strings.ToLower(strings.Join(parts, "-"))
	text = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(text, "-"), "-")
	if len(text) > script.MaxLabelLen {
		const digits = 8
		sum := script.DigestOf([]byte(text)).String()
		text = strings.TrimRight(text[:script.MaxLabelLen-digits-1], "-") + "-" + sum[len(sum)-digits:]
	}
	return cmp.Or(text, "script")
}

// Check runs all tests. It drops those that fail, and says why. A case whose result differs in what its project does not
// compare expects the result from then on.
func (b *Bundle) Check(ctx context.Context) error {
	if err := b.run(ctx, func(r *scripttest.Result) bool {
		if !b.ignores(r.Failure) {
			return false
		}
		takeResult(r.Case, r.Failure)
		return true
	}); err != nil {
		return err
	}
	return b.run(ctx, func(*scripttest.Result) bool { return false })
}

// run runs all tests, and drops those that fail unless keep returns true.
func (b *Bundle) run(ctx context.Context, keep func(*scripttest.Result) bool) error {
	var suites []scripttest.Suite
	for _, s := range b.Scripts {
		suites = append(suites, scripttest.Suite{Script: &s.Manifest, Cases: s.Cases})
	}
	failed := map[*manifest.TestCase]bool{}
	err := scripttest.Run(ctx, engines.Offline(), suites, scripttest.Options{}, func(r *scripttest.Result) {
		if r.Failure != nil && !keep(r) {
			failed[r.Case] = true
			b.leave(r.Case.File, r.Case.Line, "the test %q of %s fails here: %s", r.Case.Name, r.Script.Script, reason(r.Failure))
		}
	})
	if err != nil {
		return err
	}
	for i, s := range b.Scripts {
		var kept []manifest.TestCase
		for j := range suites[i].Cases {
			if !failed[&suites[i].Cases[j]] {
				kept = append(kept, suites[i].Cases[j])
			}
		}
		s.Cases = kept
	}
	return nil
}

// ignores reports whether the result differs only in what the project does not compare: times, null members in place of
// none, and what uncompared says.
func (b *Bundle) ignores(f *scripttest.Failure) bool {
	for _, d := range f.Differences {
		switch {
		case isTime(d.From) && isTime(d.To), isNothing(d.From) && isNothing(d.To):
		case b.uncompared == nil || !b.uncompared(d):
			return false
		}
	}
	return f.Message == "" && !f.More && len(f.Differences) > 0
}

func isTime(raw json.RawMessage) bool {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return false
	}
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

func isNothing(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

// takeResult makes the result what the case expects, where both differ.
func takeResult(c *manifest.TestCase, f *scripttest.Failure) {
	for _, expected := range []*json.RawMessage{&c.Expect, &c.Exactly, &c.Results} {
		if *expected == nil {
			continue
		}
		var value any
		if json.Unmarshal(*expected, &value) != nil {
			continue
		}
		for _, d := range f.Differences {
			setAt(value, strings.Split(strings.TrimPrefix(d.Pointer, "/"), "/"), d.To)
		}
		if text, err := json.Marshal(value); err == nil {
			*expected = text
		}
	}
}

// setAt replaces the part of a value at the names of a JSON pointer. It removes a member if to is nil.
func setAt(value any, names []string, to json.RawMessage) {
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(names[0])
	switch v := value.(type) {
	case map[string]any:
		switch {
		case len(names) == 1 && to == nil:
			delete(v, name)
		case len(names) == 1:
			v[name] = to
		default:
			setAt(v[name], names[1:], to)
		}
	case []any:
		var i int
		if _, err := fmt.Sscan(name, &i); err != nil || i < 0 || i >= len(v) {
			return
		}
		if len(names) == 1 {
			v[i] = to
		} else {
			setAt(v[i], names[1:], to)
		}
	}
}

func reason(f *scripttest.Failure) string {
	text := f.Message
	for _, d := range f.Differences[:min(len(f.Differences), 3)] {
		text = strings.TrimPrefix(text+fmt.Sprintf("; %s: want %s, got %s", cmp.Or(d.Pointer, "the result"), orNothing(d.From), orNothing(d.To)), "; ")
	}
	return text
}

func orNothing(raw json.RawMessage) string {
	const most = 200
	if raw == nil {
		return "nothing"
	}
	return string(raw[:min(len(raw), most)])
}

// Write writes a manifest, a Lua file and a test file for each script into the folder. It replaces no file unless replace
// is set. It returns the files.
func (b *Bundle) Write(dir string, replace bool) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as a person's own mkdir
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // a folder
	for _, s := range b.Scripts {
		texts := map[string][]byte{".lua": s.Source}
		if texts[".yaml"], err = s.manifestText(); err != nil {
			return files, err
		}
		if len(s.Cases) > 0 {
			if texts["_test.yaml"], err = s.testText(); err != nil {
				return files, err
			}
		}
		for _, end := range []string{".yaml", ".lua", "_test.yaml"} {
			if texts[end] == nil {
				continue
			}
			name := s.Name.Script + end
			if err := write(root, name, texts[end], replace); err != nil {
				return files, err
			}
			files = append(files, filepath.Join(dir, name))
		}
	}
	return files, nil
}

// write writes a file of the folder. No link leads it out.
func write(root *os.Root, name string, text []byte, replace bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if replace {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := root.OpenFile(name, flags, 0o644)
	if err != nil {
		path := filepath.Join(root.Name(), name)
		if os.IsExist(err) {
			return script.Errorf(script.Conflict, "--out", "%s is there already: name another folder, or replace it with --overwrite", path)
		}
		return script.Errorf(script.Invalid, "--out", "%s cannot be written: %w", path, bare(err))
	}
	_, err = f.Write(text)
	return cmp.Or(err, f.Close())
}

func (s *Script) manifestText() ([]byte, error) {
	type spec struct {
		Tenant     string  `yaml:"tenantId"`
		Entrypoint *string `yaml:"entrypoint,omitempty"`
		SourceFile string  `yaml:"sourceFile"`
	}
	doc := struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   map[string]string `yaml:"metadata"`
		Spec       spec              `yaml:"spec"`
	}{manifest.APIVersion, manifest.Kind, map[string]string{"name": s.Name.Script}, spec{Tenant: s.Name.Tenant, SourceFile: s.Name.Script + ".lua"}}
	if s.Entrypoint != manifest.DefaultEntrypoint {
		doc.Spec.Entrypoint = &s.Entrypoint
	}
	return yaml.Marshal(doc)
}

func (s *Script) testText() ([]byte, error) {
	type caseDoc struct {
		Name    string            `json:"name"`
		Request json.RawMessage   `json:"request,omitempty"`
		Args    []json.RawMessage `json:"args,omitempty"`
		Expect  json.RawMessage   `json:"expect,omitempty"`
		Exactly json.RawMessage   `json:"exactly,omitempty"`
		Results json.RawMessage   `json:"results,omitempty"`
	}
	doc := struct {
		Cases []caseDoc `json:"cases"`
	}{}
	for i := range s.Cases {
		c := &s.Cases[i]
		d := caseDoc{Name: c.Name, Expect: c.Expect, Exactly: c.Exactly, Results: c.Results}
		if len(c.Args) == 1 {
			d.Request = c.Args[0]
		} else {
			d.Args = c.Args
		}
		doc.Cases = append(doc.Cases, d)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return kyaml.JSONToYAML(text)
}

// object reads a YAML or JSON file as JSON.
func (b *Bundle) object(path string) (json.RawMessage, error) {
	data, err := b.read(path)
	if err != nil {
		return nil, err
	}
	return kyaml.YAMLToJSON(data)
}

// lines returns the lines in which the items of a list begin: lines of the file, by the names that lead to the list.
func lines(data []byte, path ...string) (found []int) {
	n := &yaml.Node{}
	if yaml.Unmarshal(data, n) != nil {
		return nil
	}
	for _, name := range path {
		if n = member(n, name); n == nil {
			return nil
		}
	}
	for _, item := range n.Content {
		found = append(found, item.Line)
	}
	return found
}

// lineOf returns the i-th line; 0 if there is none.
func lineOf(lines []int, i int) int {
	if i < len(lines) {
		return lines[i]
	}
	return 0
}

// find returns the files with the name below the folder, in order.
func find(dir, name string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() == name {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

// glob returns the files below the folder that match the pattern, in order. The name of the folder is no pattern.
func glob(dir, pattern string) []string {
	names, _ := fs.Glob(os.DirFS(dir), pattern) // the pattern is well-formed
	for i, name := range names {
		names[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return names
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
