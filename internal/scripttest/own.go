package scripttest

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ReadOwn adds the tests that the script has in its own language, which are in a file beside the source, such as
// route_test.rego beside route.rego. Most scripts have none.
func (s *Suite) ReadOwn(e *engines.Set) error {
	tester, err := testerOf(e, s.Script.Engine)
	if tester == nil || err != nil || s.Script.SourceFile == "" {
		return err
	}
	name := tester.TestFile(s.Script.SourceFile)
	if name == "" {
		return nil
	}
	name = filepath.Clean(name) // a test file and its positions are shown so
	content, err := manifest.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.Own = map[string][]byte{name: content}
	}
	return err
}

// OwnFiles returns the files with tests in the script's own language.
func (s *Suite) OwnFiles() []string { return slices.Sorted(maps.Keys(s.Own)) }

// testerOf returns the engine if it runs tests; nil if it does not.
func testerOf(e *engines.Set, name string) (engine.Tester, error) {
	eng, err := e.Of(name)
	if err != nil {
		return nil, err
	}
	tester, _ := eng.(engine.Tester)
	return tester, nil
}

// runOwn runs the tests that the script has in its own language.
func (s *Suite) runOwn(ctx context.Context, e *engines.Set) ([]*Result, error) {
	tester, err := testerOf(e, s.Script.Engine)
	if tester == nil || err != nil {
		return nil, err
	}
	m := s.Script
	src := engine.Source{Code: m.Source, Entrypoint: m.Entrypoint, Runtime: m.Settings.Runtime}
	ran, err := tester.RunTests(ctx, src, s.Own, m.Settings.Limits)
	if err != nil {
		return nil, s.located(err)
	}
	var results []*Result
	for i := range ran {
		if s.Only == nil || s.Only.MatchString(ran[i].Name) {
			results = append(results, s.resultOf(&ran[i]))
		}
	}
	return results, nil
}

// located returns the error with its place in the file that its message names, or in the source.
func (s *Suite) located(err error) error {
	e := script.AsError(err)
	for _, file := range s.OwnFiles() {
		if message, ok := strings.CutPrefix(e.Message, file+": "); ok {
			return &manifest.Error{File: file, Line: e.Line, Column: e.Column, Message: message, Err: err}
		}
	}
	return s.Script.Locate(err)
}

func (s *Suite) resultOf(t *engine.TestResult) *Result {
	r := &Result{Script: s.Script.Name, Case: &manifest.TestCase{Name: t.Name, File: t.File, Line: t.Line}, Took: t.Took}
	for _, line := range t.Output[:min(len(t.Output), maxLogs)] {
		r.Logs = append(r.Logs, Log{engine.Info, line})
	}
	switch {
	case t.Skipped:
		r.Skipped = "OPA skips tests of such a name"
	case t.Passed:
	case t.Err != nil:
		r.Failure = &Failure{Message: script.AsError(t.Err).Message, Err: s.located(t.Err)}
	case len(t.Cases) > 0:
		r.Failure = &Failure{Message: "these cases are not true: " + strings.Join(t.Cases[:min(len(t.Cases), maxDifferences)], ", "), More: len(t.Cases) > maxDifferences}
	default:
		r.Failure = &Failure{Message: "the rule is false or undefined"}
	}
	return r
}

// Choose leaves those tests alone whose names match.
func (s *Suite) Choose(only *regexp.Regexp) {
	s.Only = only
	s.Cases = slices.DeleteFunc(slices.Clone(s.Cases), func(c manifest.TestCase) bool { return !only.MatchString(c.Name) })
}
