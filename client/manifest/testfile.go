package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
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
	// Results is the JSON array that all results must equal; nil for none.
	Results json.RawMessage
	// Golden is the file with the JSON that the first result must equal, which is Exactly; "" for none. Exactly is nil
	// if there is no such file yet.
	Golden string
	// Gateway is what a gateway asks about, in place of Args, and Decision is what the decision must contain; nil for none.
	Gateway, Decision json.RawMessage
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
	testFileFields  = fieldsOf[TestDocument]()
	worldFields     = fieldsOf[TestWorld]()
	caseFields      = fieldsOf[TestCaseDocument]()
	caseErrorFields = fieldsOf[TestError]()
)

// testFileEnds are how names of test files end.
var testFileEnds = []string{"_test.yaml", "_test.yml"}

// IsTestFile reports whether the name is one of a test file.
func IsTestFile(name string) bool {
	return slices.ContainsFunc(testFileEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

// LoadTests reads a test file, and the manifest of its script.
func LoadTests(path string) (*TestFile, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
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
			d.filled(defaults, "defaults")
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
		if path = d.nonEmptyText(n, at, "script", "the manifest, such as route.yaml"); path == "" {
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
		if want = d.nonEmptyText(n, fields["name"], "name", "the script, as tenant/name"); want == "" {
			return nil
		}
		manifests = slices.DeleteFunc(manifests, func(m Manifest) bool { return m.Name.String() != want })
	}
	switch {
	case len(manifests) == 1:
		return &manifests[0]
	case want != "":
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
		d.values(n, path+".values", c.Values)
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

// values adds the values in n, which are such as a tenant can have.
func (d *decoder) values(n *yaml.Node, path string, all map[string][]byte) {
	d.filled(n, path)
	texts := d.texts(n, path)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, at := n.Content[i].Value, n.Content[i+1]
		text := texts[key]
		if err := (script.ValueKey{Tenant: "tenant", Key: key}).Validate(); err != nil {
			d.fault(at, path, "%s", script.AsError(err).Message)
		}
		if len(text) > script.MaxValueBytes {
			d.fault(at, path+"."+key, "has %d bytes, at most %d are allowed", len(text), script.MaxValueBytes)
		}
		if !d.charge(at, path, text) {
			return
		}
		all[key] = []byte(text)
	}
}

// filled reports fields of n that are empty, except some: a case that seems to check something must not pass unchecked.
func (d *decoder) filled(n *yaml.Node, path string, except ...string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if isNull(value) && !slices.Contains(except, key.Value) {
			d.fault(key, path+"."+key.Value, "is empty: give it a value, or leave it out")
		}
	}
}

func (d *decoder) nonEmptyText(parent, n *yaml.Node, field, what string) string {
	text, ok := d.requiredText(parent, n, field, what)
	if ok && text == "" {
		d.fault(n, field, "is empty: add %s", what)
	}
	return text
}

func (d *decoder) testCase(n *yaml.Node, path string, c TestCase) TestCase {
	c.Line = n.Line
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	fields, ok := d.object(n, path, caseFields)
	if !ok {
		return c
	}
	d.filled(n, path, "name", "request", "expect", "exactly")
	c.Name = d.nonEmptyText(n, fields["name"], path+".name", "what the case is called")
	d.world(fields, path, &c)
	d.arguments(valueOf(n, "request"), fields["args"], path, &c)
	c.Expect = d.json(fields["expect"], path+".expect")
	if expect := valueOf(n, "expect"); expect != nil && fields["expect"] == nil {
		d.fault(expect, path+".expect", "null cannot be expected: write exactly: null, or leave expect out")
	}
	c.Exactly = d.json(valueOf(n, "exactly"), path+".exactly") // null is a value, too
	_ = d.list(fields["results"], path+".results")             // reports what is no list
	c.Results = d.json(fields["results"], path+".results")
	d.golden(fields["golden"], path+".golden", &c)
	d.matches(fields["matches"], path+".matches", &c)
	d.caseError(fields["error"], path+".error", &c)
	if c.Error != "" && (c.Expect != nil || c.Exactly != nil || c.Results != nil || c.Golden != "" || c.Matches != nil) {
		d.fault(fields["error"], path+".error", "a call that fails has no result: leave out error, or all of expect, exactly, results, golden and matches")
	}
	d.decision(n, fields, path, &c)
	return c
}

// golden reads the file with the result of a case. It need not exist: scriptctl test --update writes it.
func (d *decoder) golden(n *yaml.Node, path string, c *TestCase) {
	if n == nil {
		return
	}
	name, ok := d.text(n, path)
	switch {
	case !ok:
		return
	case c.Exactly != nil:
		d.fault(n, path, "there is exactly as well: leave out one of the two")
		return
	case name == "":
		d.fault(n, path, "is empty: name the file with the result, such as results/gold.json")
		return
	}
	c.Golden = filepath.Join(d.dir, filepath.FromSlash(name))
	data, err := ReadFile(c.Golden)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		d.fault(n, path, "%v", err)
	case !json.Valid(data):
		d.fault(n, path, "%s is no JSON: mend it, or write it with scriptctl test --update", c.Golden)
	default:
		c.Exactly = data
	}
}

// decision reads what a gateway asks about, and the decision.
func (d *decoder) decision(n *yaml.Node, fields map[string]*yaml.Node, path string, c *TestCase) {
	gateway, decision := fields["gateway"], fields["decision"]
	switch {
	case gateway == nil && decision == nil:
		return
	case gateway == nil:
		d.fault(decision, path+".decision", "there is no gateway: add what a gateway asks about, such as gateway: {uri: /cart}")
		return
	case decision == nil:
		d.fault(gateway, path+".gateway", "there is no decision: add what it must have, such as decision: {allow: true}")
		return
	}
	for _, other := range []string{"request", "args", "expect", "exactly", "results", "golden", "matches", "error"} {
		if valueOf(n, other) != nil {
			d.fault(valueOf(n, other), path+"."+other, "a case with a gateway has no %s: decision says all that the gateway does, and its reason is the kind of error", other)
		}
	}
	c.Gateway, c.Decision = d.json(gateway, path+".gateway"), d.json(decision, path+".decision")
}

func (d *decoder) arguments(request, args *yaml.Node, path string, c *TestCase) {
	switch {
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
	if n == nil {
		return
	}
	d.filled(n, path)
	if len(n.Content) == 0 {
		d.fault(n, path, "is empty: add a JSON pointer and an expression, such as {/upstream: ^fast}")
	}
	texts := d.texts(n, path)
	c.Matches = make(map[string]*regexp.Regexp, len(texts))
	for i := 0; i+1 < len(n.Content); i += 2 {
		pointer, at := n.Content[i].Value, n.Content[i+1]
		if pointer != "" && !strings.HasPrefix(pointer, "/") {
			d.fault(at, path, "%.80q is no JSON pointer: want one such as /upstream", pointer)
			continue
		}
		c.Matches[pointer] = d.expression(at, path+"."+pointer, texts[pointer])
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
		d.filled(n, path, "kind")
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
