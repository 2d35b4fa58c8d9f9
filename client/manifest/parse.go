package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Parse reads the manifests in data, which may hold several YAML documents (or
// one JSON object, if name ends in ".json"). name stands for the file in
// errors; dir is the folder that spec.sourceFile is relative to. Like Load, it
// returns the right manifests along with the faults of the others.
func Parse(name string, data []byte, dir string) ([]Manifest, error) {
	d, data, err := newDecoder(name, data, dir)
	if err != nil {
		return nil, err
	}
	manifests, doubled := dropDoubles(d.documents(data))
	return manifests, errors.Join(append(d.sorted(), doubled...)...)
}

// ParseAlone reads one manifest that names no files: it is what a person types where there are none. name stands for the text
// in errors. If source is not nil, it is the source, and the manifest must have none.
func ParseAlone(name string, data, source []byte) (Manifest, error) {
	if len(data) > MaxFileBytes {
		return Manifest{}, &Error{File: name, Message: fmt.Sprintf("is larger than %d bytes", MaxFileBytes)}
	}
	d, data, err := newDecoder(name, data, "")
	if err != nil {
		return Manifest{}, err
	}
	d.alone, d.given = true, source
	manifests := d.documents(data)
	if len(d.faults) == 0 && len(manifests) != 1 {
		d.faults = append(d.faults, &Error{File: name, Line: 1, Column: 1, Message: fmt.Sprintf("has %d manifests, want one", len(manifests))})
	}
	if len(d.faults) > 0 {
		return Manifest{}, errors.Join(d.sorted()...)
	}
	return manifests[0], nil
}

// newDecoder returns one for the file, and its text as YAML.
func newDecoder(name string, data []byte, dir string) (*decoder, []byte, error) {
	if err := checkText(name, data); err != nil {
		return nil, nil, err
	}
	if filepath.Ext(name) == ".json" {
		if err := checkJSON(name, data); err != nil {
			return nil, nil, err
		}
		data = yamlEscapes(data)
	}
	return &decoder{file: name, dir: dir, lines: strings.Split(string(data), "\n")}, data, nil
}

// sorted returns the faults in the order of the file.
func (d *decoder) sorted() []error {
	slices.SortStableFunc(d.faults, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	faults := make([]error, len(d.faults))
	for i, f := range d.faults {
		faults[i] = f
	}
	return faults
}

func (d *decoder) documents(data []byte) []Manifest {
	var manifests []Manifest
	docs := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := docs.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return manifests
		}
		if err != nil {
			d.faults = append(d.faults, syntaxError(d.file, err))
			return manifests
		}
		if len(doc.Content) == 0 || isNull(doc.Content[0]) {
			continue
		}
		before := len(d.faults)
		m := d.manifest(doc.Content[0])
		if len(d.faults) == before {
			manifests = append(manifests, m)
		}
	}
}

// checkText refuses what is not text, with the place of the first bad byte.
func checkText(name string, data []byte) error {
	at := bytes.IndexByte(data, 0)
	message := "there is a NUL byte here: a manifest is text"
	if !utf8.Valid(data) {
		at, message = validPrefix(data), "this is not valid UTF-8: save the file as UTF-8"
	}
	if at < 0 {
		return nil
	}
	line, column := lineColumn(data, at)
	return &Error{File: name, Line: line, Column: column, Message: message}
}

// validPrefix returns how many bytes of data come before the first that is not
// UTF-8.
func validPrefix(data []byte) int {
	n := 0
	for n < len(data) {
		r, size := utf8.DecodeRune(data[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

func checkJSON(name string, data []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(data, &v)
	if err == nil {
		return nil
	}
	e := &Error{File: name, Message: "is not JSON: " + err.Error()}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		e.Line, e.Column = lineColumn(data, max(0, int(syntax.Offset)-1))
	}
	return e
}

func lineColumn(data []byte, offset int) (line, column int) {
	before := data[:min(offset, len(data))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

var jsonEscape = regexp.MustCompile(`\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|.)`)

// yamlEscapes rewrites the escapes that JSON has and YAML has not: \/ as a slash,
// pairs such as \ud83d\ude00 as \U0001f600.
func yamlEscapes(data []byte) []byte {
	return jsonEscape.ReplaceAllFunc(data, func(escape []byte) []byte {
		if string(escape) == `\/` {
			return []byte("/")
		}
		if len(escape) < 12 {
			return escape
		}
		high, _ := strconv.ParseUint(string(escape[2:6]), 16, 32)
		low, _ := strconv.ParseUint(string(escape[8:12]), 16, 32)
		return fmt.Appendf(nil, `\U%08x`, utf16.DecodeRune(rune(high), rune(low)))
	})
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func syntaxError(file string, err error) *Error {
	e := &Error{File: file, Message: err.Error()}
	if parts := yamlError.FindStringSubmatch(e.Message); parts != nil {
		e.Line, _ = strconv.Atoi(parts[1])
		e.Message = parts[2]
	}
	switch e.Message {
	case "found character that cannot start any token":
		e.Message += ": indent with spaces, not tabs, and quote text that starts with @, ` or %"
	case "mapping values are not allowed in this context":
		e.Message += ": check the indentation, and quote text that holds a colon"
	}
	e.Message = "is not YAML: " + e.Message
	return e
}
