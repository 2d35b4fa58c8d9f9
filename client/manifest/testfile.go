package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestFile is a file with cases for one script, such as route_test.yaml. scriptctl reads it, and agents do not: they
// run the tests of the manifest.
type TestFile struct {
	File   string
	Script *Manifest
	Cases  []TestCase
}

// TestCase is one call of a script, and how it must end.
type TestCase struct {
	Name string
	File string
	Line int // of File
	// Args are the arguments of the call, each a JSON value.
	Args []json.RawMessage
	// Config is what the script sees as config; the manifest's config if nil.
	Config json.RawMessage
	// Values are what the script reads with kv; nil if only the fleet knows them, as for a test of a manifest.
	Values map[string][]byte
	// Now is the time that the script sees, and Seed is where its random numbers begin.
	Now  time.Time
	Seed uint64

	// Expect is what the first result must contain, as script.Test has it, and Exactly what it must equal; nil for none.
	Expect, Exactly json.RawMessage
	// Matches are expressions for texts in the first result, by their JSON pointers.
	Matches map[string]*regexp.Regexp
	// Error is the kind of error that the call must end with; "" means none. ErrorLine of the source, if not 0, and
	// ErrorMatches, if not nil, are where and with which message.
	Error        script.Kind
	ErrorLine    int
	ErrorMatches *regexp.Regexp
}

// TestTime is the time that scripts see in tests that do not set another.
var TestTime = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

var (
	testFileFields  = []string{"script", "name", "defaults", "cases"}
	worldFields     = []string{"config", "values", "now", "seed"}
	caseFields      = slices.Concat([]string{"name", "request", "args", "expect", "exactly", "matches", "error"}, worldFields)
	caseErrorFields = []string{"kind", "line", "message"}
)

// testFileEnds are how names of test files end.
var testFileEnds = []string{"_test.yaml", "_test.yml"}

// IsTestFile reports whether the name is one of a test file.
func IsTestFile(name string) bool {
	return slices.ContainsFunc(testFileEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

// LoadTests reads a test file, and the manifest of its script.
func LoadTests(path string) (*TestFile, error) {
	data, err := readFile(os.Open(path))
	if err != nil {
		return nil, unreadable(path, err)
	}
	d, data, err := newDecoder(path, data, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	docs := yaml.NewDecoder(bytes.NewReader(data))
	switch err := docs.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Error{File: path, Message: "is empty: add cases"}
	case err != nil:
		return nil, syntaxError(path, err)
	}
	t := d.testFile(doc.Content[0])
	if err := docs.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		d.fault(doc.Content[0], "", "has several documents: a test file is one")
	}
	return t, errors.Join(d.sorted()...)
}

func (d *decoder) testFile(n *yaml.Node) *TestFile {
	t := &TestFile{File: d.file}
	fields, ok := d.object(n, "", testFileFields)
	if !ok {
		return t
	}
	t.Script = d.tested(n, fields)
	first := TestCase{File: d.file, Values: map[string][]byte{}, Now: TestTime, Seed: 1}
	if defaults := fields["defaults"]; defaults != nil {
		if set, ok := d.object(defaults, "defaults", worldFields); ok {
			d.world(set, "defaults", &first)
		}
	}
	items := d.list(fields["cases"], "cases")
	if len(items) == 0 {
		d.fault(n, "cases", "has no case: add a list of them, each with a name")
	}
	names := map[string]int{}
	for i, item := range items {
		c := d.testCase(item, fmt.Sprintf("cases[%d]", i), first)
		if line := names[c.Name]; line > 0 {
			d.fault(item, fmt.Sprintf("cases[%d].name", i), "the case in line %d has the same name", line)
		}
		names[c.Name] = c.Line
		t.Cases = append(t.Cases, c)
	}
	return t
}

// tested returns the manifest that the file is about.
func (d *decoder) tested(n *yaml.Node, fields map[string]*yaml.Node) *Manifest {
	at, path := n, ""
	if fields["script"] != nil {
		at = fields["script"]
		if path, _ = d.text(at, "script"); path == "" {
			return nil
		}
		path = filepath.Join(d.dir, filepath.FromSlash(path))
	} else {
		for _, end := range testFileEnds {
			if before, ok := strings.CutSuffix(d.file, end); ok {
				path = before + strings.TrimPrefix(end, "_test")
			}
		}
	}
	if path == "" {
		d.fault(at, "script", "is missing: name the manifest, such as route.yaml")
		return nil
	}
	manifests, err := Load(path)
	if err != nil {
		d.fault(at, "script", "the manifest cannot be read: %v", err)
		return nil
	}
	want := ""
	if fields["name"] != nil {
		want, _ = d.text(fields["name"], "name")
		manifests = slices.DeleteFunc(manifests, func(m Manifest) bool { return m.Name.String() != want })
	}
	switch {
	case len(manifests) == 1:
		return &manifests[0]
	case len(manifests) == 0 && want != "":
		d.fault(fields["name"], "name", "%s has no script %.80q", path, want)
	case len(manifests) == 0:
		d.fault(at, "script", "%s has no manifest", path)
	default:
		d.fault(at, "name", "is missing: %s has %d scripts, name one as tenant/name", path, len(manifests))
	}
	return nil
}

// world reads what surrounds a call.
func (d *decoder) world(fields map[string]*yaml.Node, path string, c *TestCase) {
	if n := fields["config"]; n != nil {
		c.Config = d.config(n, path+".config")
	}
	if n := fields["values"]; n != nil {
		c.Values = maps.Clone(c.Values)
		for key, text := range d.texts(n, path+".values") {
			c.Values[key] = []byte(text)
		}
	}
	if n := fields["now"]; n != nil {
		now, err := time.Parse(time.RFC3339Nano, n.Value)
		if err != nil {
			d.fault(n, path+".now", "is %s, want a time such as 2026-01-31T12:00:00Z", describe(n))
		}
		c.Now = now
	}
	if n := fields["seed"]; n != nil {
		c.Seed = d.number(n, path+".seed", math.MaxInt64)
	}
}

func (d *decoder) testCase(n *yaml.Node, path string, c TestCase) TestCase {
	c.Line = n.Line
	fields, ok := d.object(n, path, caseFields)
	if !ok {
		return c
	}
	c.Name, _ = d.requiredText(n, fields["name"], path+".name", "what the case is called")
	d.world(fields, path, &c)
	d.arguments(fields, path, &c)
	c.Expect = d.json(fields["expect"], path+".expect")
	if exactly := valueOf(n, "exactly"); exactly != nil { // null is a value, too
		c.Exactly = d.json(exactly, path+".exactly")
	}
	d.matches(fields["matches"], path+".matches", &c)
	d.caseError(fields["error"], path+".error", &c)
	if c.Error != "" && (c.Expect != nil || c.Exactly != nil || c.Matches != nil) {
		d.fault(fields["error"], path+".error", "a call that fails has no result: leave out error, or all of expect, exactly and matches")
	}
	return c
}

func (d *decoder) arguments(fields map[string]*yaml.Node, path string, c *TestCase) {
	switch request, args := fields["request"], fields["args"]; {
	case request != nil && args != nil:
		d.fault(args, path+".args", "there is request as well: leave out one of the two")
	case args != nil:
		c.Args = []json.RawMessage{}
		for i, arg := range d.list(args, path+".args") {
			c.Args = append(c.Args, d.json(arg, fmt.Sprintf("%s.args[%d]", path, i)))
		}
	case request != nil:
		c.Args = []json.RawMessage{d.json(request, path+".request")}
	default:
		c.Args = []json.RawMessage{json.RawMessage("{}")}
	}
}

// matches reads expressions by JSON pointers.
func (d *decoder) matches(n *yaml.Node, path string, c *TestCase) {
	for pointer, text := range d.texts(n, path) {
		if pointer != "" && !strings.HasPrefix(pointer, "/") {
			d.fault(n, path, "%.80q is no JSON pointer: want one such as /upstream", pointer)
			continue
		}
		if c.Matches == nil {
			c.Matches = map[string]*regexp.Regexp{}
		}
		c.Matches[pointer] = d.expression(n, path+"."+pointer, text)
	}
}

func (d *decoder) expression(n *yaml.Node, path, text string) *regexp.Regexp {
	re, err := regexp.Compile(text)
	if err != nil {
		d.fault(n, path, "is no RE2 expression: %v", err)
	}
	return re
}

// caseError reads a kind of error, or an object with more of it.
func (d *decoder) caseError(n *yaml.Node, path string, c *TestCase) {
	if n == nil {
		return
	}
	kind := n
	if n.Kind == yaml.MappingNode {
		fields, ok := d.object(n, path, caseErrorFields)
		if !ok {
			return
		}
		kind = fields["kind"]
		c.ErrorLine = int(d.number(fields["line"], path+".line", math.MaxInt32)) //nolint:gosec // bounded
		if message := fields["message"]; message != nil {
			if text, ok := d.text(message, path+".message"); ok {
				c.ErrorMatches = d.expression(message, path+".message", text)
			}
		}
		path += ".kind"
	}
	text, ok := d.requiredText(n, kind, path, "the kind of error, such as SCRIPT")
	if !ok {
		return
	}
	c.Error = script.Kind(text)
	test := script.Test{Name: "case", Error: c.Error}
	if e := script.AsError(script.ValidateTests("", []script.Test{test})); e != nil {
		d.fault(kind, path, "%s", e.Message)
	}
}
