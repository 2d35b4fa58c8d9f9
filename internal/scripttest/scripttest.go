// Package scripttest runs tests of scripts on this machine: in the engine of agents and under the same limits, without a
// registry. It runs the tests in manifests, which agents run before a version is live, and the cases in test files.
package scripttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/expect"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// Suite is the tests of one script in one file.
type Suite struct {
	Script *manifest.Manifest
	Cases  []manifest.TestCase
	// Own are files with tests in the script's own language, by path: see ReadOwn. Those run whose names match Only, or
	// all if it is nil.
	Own  map[string][]byte
	Only *regexp.Regexp
}

// OfManifest returns the tests in the manifest; ok is false if there are none.
func OfManifest(m *manifest.Manifest) (s Suite, ok bool) {
	s.Script = m
	for i, t := range m.Settings.Tests {
		file, line := m.TestPosition(i)
		s.Cases = append(s.Cases, manifest.TestCase{
			Name: t.Name, File: file, Line: line, Args: []json.RawMessage{expect.Argument(t)},
			Expect: t.Expect, Error: t.Error, Now: manifest.TestTime, Seed: 1,
		})
	}
	return s, len(s.Cases) > 0
}

// Result is what came of one case.
type Result struct {
	Script script.Name
	Case   *manifest.TestCase
	Took   time.Duration
	Used   engine.Used
	// Failure is nil if the case passed.
	Failure *Failure
	// Skipped says why nobody knows whether the case passes; "" if it ran.
	Skipped string
	Logs    []Log
	// Golden is the new content of the case's golden file; nil if it stays.
	Golden []byte
}

// Failure says why a case failed.
type Failure struct {
	Message string
	// Differences are the parts of the result that are not as expected; More says that there are others.
	Differences []jsonvalue.Difference
	More        bool
	// Err is the error that the call ended with, if it is the reason: where it is in the file of the script.
	Err error
}

// Log is a line that the script logged.
type Log struct {
	Level   engine.Level
	Message string
}

// Bounds of what a result holds.
const (
	maxDifferences = 20
	maxLogs        = 100
)

// Options of Run.
type Options struct {
	// Coverage, if not nil, gets what the cases execute.
	Coverage *Coverage
	// Update takes results as they are for those in golden files.
	Update bool
}

// Run compiles the scripts of the suites, and runs the cases on all processors. It calls done for each result, in the
// order of the cases. A script that does not compile is an error that names its place.
func Run(ctx context.Context, e *engines.Set, suites []Suite, o Options, done func(*Result)) error {
	var all []*pending
	var libraries offline.Libraries
	for i := range suites {
		s := &suites[i]
		if s.Script.Settings.Libraries == nil { // else who calls has found them
			if err := libraries.Resolve(s.Script); err != nil {
				return err
			}
		}
		p, err := offline.Compile(e, &script.Edition{
			Version: script.Version{Engine: s.Script.Engine, Entrypoint: s.Script.Entrypoint}, Spec: s.Script.Settings.Spec, Source: s.Script.Source,
		})
		if err != nil {
			return s.Script.Locate(err)
		}
		profile := o.Coverage.add(s.Script, p)
		for j := range s.Cases {
			all = append(all, &pending{suite: s, program: p, test: &s.Cases[j], profile: profile, update: o.Update, done: make(chan outcome, 1)})
		}
		if len(s.Own) > 0 {
			all = append(all, &pending{suite: s, engines: e, done: make(chan outcome, 1)})
		}
	}
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	started := make(chan error, 1)
	go func() {
		for _, p := range all {
			workers.Go(func() error {
				p.done <- p.outcome(ctx)
				return nil
			})
		}
		started <- workers.Wait()
	}()
	var faults []error
	for _, p := range all {
		o := <-p.done
		if ctx.Err() != nil {
			return fmt.Errorf("the tests were interrupted: %w", context.Cause(ctx))
		}
		faults = append(faults, o.err)
		for _, r := range o.results {
			done(r)
		}
	}
	return errors.Join(append(faults, <-started)...)
}

// outcome is what came of a case, or of all the tests of a suite that are in the script's own language.
type outcome struct {
	results []*Result
	err     error // of the files with such tests
}

// pending is a case that waits for its turn; or all the tests of the suite that are in the script's own language, if
// there is no case.
type pending struct {
	suite   *Suite
	engines *engines.Set
	program *offline.Program
	test    *manifest.TestCase
	profile engine.Profiler // nil without coverage
	update  bool
	done    chan outcome
}

func (p *pending) outcome(ctx context.Context) (o outcome) {
	if p.test == nil {
		o.results, o.err = p.suite.runOwn(ctx, p.engines)
		return o
	}
	o.results = []*Result{p.run(ctx)}
	return o
}

// CallOf returns the call of a case.
func CallOf(name script.Name, t *manifest.TestCase) offline.Call {
	call := offline.Call{Name: name, Config: t.Config, Values: t.Values, Now: t.Now, Seed: t.Seed}
	for _, arg := range t.Args {
		call.Args = append(call.Args, arg)
	}
	return call
}

func (p *pending) run(ctx context.Context) *Result {
	r := &Result{Script: p.suite.Script.Name, Case: p.test}
	call := CallOf(p.suite.Script.Name, p.test)
	call.Profile, call.Used, call.Read = p.profile, &r.Used, map[offline.State]bool{}
	call.Log = func(level engine.Level, message string) {
		if len(r.Logs) < maxLogs {
			r.Logs = append(r.Logs, Log{level, message})
		}
	}
	began := time.Now()
	if p.test.Gateway != nil {
		r.Failure = p.decide(ctx, &call)
		r.Took = time.Since(began)
	} else {
		var returned engine.Result
		err := p.program.Run(ctx, &call, &returned)
		r.Took = time.Since(began)
		if p.update && p.test.Golden != "" && err == nil {
			r.Golden = p.golden(&returned)
		}
		r.Failure = p.check(&returned, err)
	}
	if r.Failure != nil && p.test.Values == nil && call.Read[offline.ReadValues] {
		r.Failure, r.Skipped = nil, "it reads values with kv, which only the fleet has: give some in a test file"
	}
	return r
}

// check returns how the end of the call is not as expected; nil if it is.
func (p *pending) check(returned *engine.Result, err error) *Failure {
	t := p.test
	switch {
	case t.Error != "" || err != nil:
		return p.checkError(returned, err)
	case t.Golden != "" && t.Exactly == nil:
		return &Failure{Message: fmt.Sprintf("there is no file %s: write it with --update", t.Golden)}
	case t.Expect == nil && t.Exactly == nil && t.Results == nil && t.Matches == nil:
		return nil
	}
	all := make([]any, returned.Len())
	for i := range all {
		if all[i], err = jsonvalue.Decode(returned.Value(i)); err != nil {
			return &Failure{Message: "the result is no JSON: " + err.Error()}
		}
	}
	var got any
	if len(all) > 0 {
		got = all[0]
	}
	f := &Failure{}
	f.compare(t.Expect, got, expect.Differences)
	f.compare(t.Exactly, got, jsonvalue.Differences)
	f.compare(t.Results, all, jsonvalue.Differences)
	for _, pointer := range slices.Sorted(maps.Keys(t.Matches)) {
		f.match(pointer, t.Matches[pointer], got)
	}
	if f.Message == "" && len(f.Differences) == 0 {
		return nil
	}
	return f
}

func (p *pending) checkError(returned *engine.Result, err error) *Failure {
	t := p.test
	if e := expect.Check(script.Test{Error: t.Error}, returned, err); e != nil {
		return &Failure{Message: e.Message, Err: p.located(err)}
	}
	e := script.AsError(err)
	switch {
	case t.ErrorLine != 0 && e.Line != t.ErrorLine:
		return &Failure{Message: fmt.Sprintf("want the error in line %d of the source, got line %d: %s", t.ErrorLine, e.Line, e.Message), Err: p.located(err)}
	case t.ErrorMatches != nil && !t.ErrorMatches.MatchString(e.Message):
		return &Failure{Message: fmt.Sprintf("want an error that matches %q, got %s", t.ErrorMatches, e.Message), Err: p.located(err)}
	}
	return nil
}

// located returns the error of the call with its place in the script's file.
func (p *pending) located(err error) error {
	if err == nil {
		return nil
	}
	return p.suite.Script.Locate(err)
}

// compare adds the parts of the result that differ from what is wanted, which is JSON, or nil for nothing.
func (f *Failure) compare(wanted json.RawMessage, got any, differences func(want, got any, most int) ([]jsonvalue.Difference, bool)) {
	if wanted == nil {
		return
	}
	want, err := jsonvalue.Decode(wanted)
	if err != nil { // the manifest has checked it
		f.Message = "what is expected is no JSON: " + err.Error()
		return
	}
	parts, more := differences(want, got, maxDifferences)
	f.Differences, f.More = append(f.Differences, parts...), f.More || more
}

// match adds a message if the text at the pointer does not match.
func (f *Failure) match(pointer string, want *regexp.Regexp, got any) {
	part, found := jsonvalue.Get(got, pointer)
	text, isText := part.(string)
	switch {
	case !found:
		f.add("%s: want text that matches %q, and there is nothing", pointer, want)
	case !isText:
		f.add("%s: want text that matches %q, and it is no text", pointer, want)
	case !want.MatchString(text):
		f.add("%s: want text that matches %q, got %q", pointer, want, text)
	}
}

func (f *Failure) add(format string, args ...any) {
	if f.Message != "" {
		f.Message += "; "
	}
	f.Message += fmt.Sprintf(format, args...)
}
