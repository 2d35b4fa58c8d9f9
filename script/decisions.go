package script

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Decisions says which calls go to the decision log, and with what of them. Nobody changes one.
type Decisions struct {
	Sample float64 // of all calls, from 0 to 1
	Errors bool    // every call that fails, whatever Sample says
	// Mask are paths of arguments and results whose values no record has: names with dots between them,
	// in any case, and * for all names and all items of a list.
	Mask []string
	// Fields are what records have besides what says which call they are of: names of RecordFields,
	// and paths behind "input" and "result". Empty means all.
	Fields []string
}

// String returns the fields: a Spec that is printed shows them, and not an address.
func (d *Decisions) String() string {
	if d == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%+v", *d)
}

// Bounds of Decisions.
const (
	MaxDecisionPaths     = 32 // of each list
	MaxDecisionPathBytes = 256
	MaxDecisionPathDepth = 16
)

// RecordInput and RecordResult are the fields of a record that have paths in them.
const (
	RecordInput  = "input"
	RecordResult = "result"
)

// RecordFields are the fields of a record that Decisions.Fields can choose.
func RecordFields() []string {
	return []string{RecordInput, RecordResult, "error", "protocol", "requested_by", "trace_id", "span_id", "duration_ns", "instructions", "staleness_ms"}
}

// Equal reports whether both say the same; nil is not a zero Decisions.
func (d *Decisions) Equal(e *Decisions) bool {
	if d == nil || e == nil {
		return d == e
	}
	return d.Sample == e.Sample && d.Errors == e.Errors && slices.Equal(d.Mask, e.Mask) && slices.Equal(d.Fields, e.Fields)
}

// Size returns about how many bytes d takes.
func (d *Decisions) Size() int {
	if d == nil {
		return 0
	}
	n := 0
	for _, list := range [][]string{d.Mask, d.Fields} {
		for _, path := range list {
			n += 16 + len(path)
		}
	}
	return n
}

// Validate returns an Invalid error that names the first field that is wrong; field is the path of
// d, such as "spec.log.decisions".
func (d *Decisions) Validate(field string) error {
	if d == nil {
		return nil
	}
	if math.IsNaN(d.Sample) || d.Sample < 0 || d.Sample > 1 {
		return Errorf(Invalid, field+".sample", "%v is not between 0 and 1: 0.01 is one call of a hundred", d.Sample)
	}
	for _, list := range []struct {
		name  string
		paths []string
		check func(at, path string) error
	}{{"mask", d.Mask, validateMask}, {"fields", d.Fields, validateRecordField}} {
		if len(list.paths) > MaxDecisionPaths {
			return Errorf(Invalid, field+"."+list.name, "has %d entries, at most %d are allowed", len(list.paths), MaxDecisionPaths)
		}
		for i, path := range list.paths {
			if err := list.check(fmt.Sprintf("%s.%s[%d]", field, list.name, i), path); err != nil {
				return err
			}
		}
	}
	return nil
}

// validateMask refuses a path that masks nothing because it is written as those of a record are.
func validateMask(at, path string) error {
	switch first, rest, _ := strings.Cut(path, "."); {
	case strings.HasPrefix(path, "/") || strings.HasPrefix(path, "$"):
		return Errorf(Invalid, at, "%s is not a path here: write names with dots between them, such as headers.authorization", quote(path))
	case first == RecordInput || first == RecordResult:
		return Errorf(Invalid, at, "%s begins with %s, but a mask is of arguments and results alike: write %s", quote(path), first, orExample(rest))
	}
	return validateDecisionPath(at, path)
}

func orExample(path string) string {
	if path == "" {
		return "names in them, such as headers.authorization, or * for all"
	}
	return quote(path)
}

func validateRecordField(at, path string) error {
	first, rest, deeper := strings.Cut(path, ".")
	if !slices.Contains(RecordFields(), first) {
		return Errorf(Invalid, at, "%s is not a field of a record that can be chosen: want %s, or a path behind %s or %s",
			quote(path), strings.Join(RecordFields(), ", "), RecordInput, RecordResult)
	}
	if !deeper {
		return nil
	}
	if first != RecordInput && first != RecordResult {
		return Errorf(Invalid, at, "%s: only %s and %s have paths behind them: write %s", quote(path), RecordInput, RecordResult, first)
	}
	return validateDecisionPath(at, rest)
}

func validateDecisionPath(at, path string) error {
	if len(path) > MaxDecisionPathBytes {
		return Errorf(Invalid, at, "has %d bytes, at most %d are allowed", len(path), MaxDecisionPathBytes)
	}
	if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
		return Errorf(Invalid, at, "%s is not text", quote(path))
	}
	names := strings.Split(path, ".")
	if len(names) > MaxDecisionPathDepth {
		return Errorf(Invalid, at, "%s has %d names, at most %d are allowed", quote(path), len(names), MaxDecisionPathDepth)
	}
	for _, name := range names {
		if strings.TrimSpace(name) == "" {
			return Errorf(Invalid, at, "%s has an empty name: write names with one dot between them, such as headers.authorization", quote(path))
		}
	}
	return nil
}
