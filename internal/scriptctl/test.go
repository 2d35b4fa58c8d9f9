package scriptctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/scripttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const testLong = `Test runs the tests of scripts on this machine, in the engine and under the limits that
agents have. It needs no registry and no agent.

It runs the tests in manifests (spec.tests) and the cases in test files. Such a file is
route_test.yaml, with cases for the script in route.yaml. From a folder, test reads all
manifests and test files, but no folders below it. Without PATH it reads the current folder.

A test file has these fields:

  script: route.yaml             # the manifest; by default the file without _test
  name: acme/route               # only if the manifest file has several scripts
  defaults: {config: …, values: …, now: …, seed: …}   # of all cases
  cases:
  - name: gold customers go to fast
    request: {plan: gold}        # the argument, {} by default; or args: [...]
    config: {}                   # what the script sees as config
    values: {backend: up}        # what it reads with kv
    now: 2026-01-31T12:00:00Z    # the time, which stands still
    seed: 7                      # where its random numbers begin
    expect: {upstream: fast}     # named members must be so; null: there is no such member
    results: [{upstream: fast}]  # all results, if the script returns several
    exactly: {upstream: fast}    # the result must equal this, or the JSON of a file:
    golden: results/gold.json    # --update writes it
    matches: {/upstream: ^f}     # RE2 expressions by JSON pointers
  - name: old pages fail
    request: {path: /old}
    error: {kind: SCRIPT, line: 2, message: no route}   # or error: SCRIPT
  - name: strangers are denied
    gateway: {uri: "/admin?x=1", method: GET, headers: {host: a.example}}
    decision: {allow: false, status: 403}   # what a gateway does then

A policy in Rego, in route.rego, has tests in route_test.rego, too: the rules whose names
begin with test_, as for opa test.

With --on-agent, the tests of manifests run on an agent, without publishing the scripts:
see scriptctl run. Test files need this machine.

A failed test of a manifest that reads values is skipped if it has none: only the fleet
has them.`

type testOptions struct {
	run      string
	all      bool
	update   bool
	watch    bool
	onAgent  string
	coverage coverageOptions
}

func (a *app) testCommand() *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use: "test [PATH...]", Short: "Run the tests of scripts on this machine", Long: testLong,
		Example: "  scriptctl test\n  scriptctl test route.yaml route_test.yaml --run gold\n  scriptctl test examples/scripts -o junit > report.xml",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return manifestExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		Annotations: map[string]string{moreFormats: formatJUnit + "," + formatTAP},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			if o.watch {
				return a.watch(cmd.Context(), args, func() error { return a.test(cmd.Context(), args, &o) })
			}
			return a.test(cmd.Context(), args, &o)
		},
	}
	cmd.Flags().StringVar(&o.run, "run", "", "only tests whose name matches this RE2 expression")
	cmd.Flags().BoolVarP(&o.all, "verbose", "v", false, "show the lines that scripts log also of tests that pass")
	cmd.Flags().BoolVar(&o.watch, "watch", false, "run again whenever a file changes, until you press Ctrl-C")
	cmd.Flags().BoolVar(&o.update, "update", false, "write the results of cases with a golden file to these files")
	cmd.Flags().StringVar(&o.onAgent, "on-agent", "", onAgentUsage)
	cmd.Flags().Lookup("on-agent").NoOptDefVal = anyAgent
	o.coverage.addFlags(cmd)
	for _, other := range []string{"update", "coverage", "coverage-least"} {
		cmd.MarkFlagsMutuallyExclusive("on-agent", other)
	}
	return cmd
}

// testsView is the outcome of all tests.
type testsView struct {
	Passed  int        `json:"passed"`
	Failed  int        `json:"failed"`
	Skipped int        `json:"skipped"`
	Seconds float64    `json:"seconds"`
	Tests   []caseView `json:"tests"`
	// Coverage is absent unless a flag wants it.
	Coverage *coverageView `json:"coverage,omitempty"`
}

type caseView struct {
	Script       string         `json:"script"`
	Name         string         `json:"name"`
	Outcome      string         `json:"outcome"` // passed, failed or skipped
	File         string         `json:"file"`
	Line         int            `json:"line"`
	Seconds      float64        `json:"seconds"`
	Instructions uint64         `json:"instructions"`
	Message      string         `json:"message,omitempty"`
	Differences  []testDiffView `json:"differences,omitempty"`
	More         bool           `json:"moreDifferences,omitempty"`
	Error        *errorBody     `json:"error,omitempty"` // that the call ended with
	Logs         []testLogView  `json:"logs,omitempty"`
}

// testDiffView is a part of the result. A part that is not there has no value.
type testDiffView struct {
	Pointer string          `json:"pointer"`
	Want    json.RawMessage `json:"want,omitempty"`
	Got     json.RawMessage `json:"got,omitempty"`
}

type testLogView struct {
	Level   string `json:"level"`
	Message string `json:"message"`
}

const (
	testPassed  = "passed"
	testFailed  = "failed"
	testSkipped = "skipped"
)

func (a *app) test(ctx context.Context, paths []string, o *testOptions) error {
	coverage, err := o.coverage.new()
	if err != nil {
		return usage(err)
	}
	set := engines.Offline()
	suites, err := a.loadSuites(set, paths)
	if err != nil {
		return usage(err)
	}
	if o.onAgent != "" {
		return a.testsOnAgent(ctx, paths, suites, o)
	}
	only, err := regexp.Compile(o.run)
	if err != nil {
		return usage(script.Errorf(script.Invalid, "--run", "is no RE2 expression: %v", err))
	}
	all := cases(suites)
	for i := range suites {
		suites[i].Choose(only)
	}
	view := testsView{Tests: []caseView{}}
	began := time.Now()
	var goldens []*scripttest.Result
	err = scripttest.Run(ctx, set, suites, scripttest.Options{Coverage: coverage, Update: o.update}, func(r *scripttest.Result) {
		view.add(r)
		if r.Golden != nil {
			goldens = append(goldens, r)
		}
		if a.output == formatTable {
			view.Tests[len(view.Tests)-1].write(a.Out, o.all)
		}
	})
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		return &exitError{code: exitRefused, err: err}
	}
	view.Seconds = time.Since(began).Seconds()
	if err := a.writeGoldens(goldens); err != nil {
		return err
	}
	if coverage != nil {
		if view.Coverage, err = o.coverage.report(coverage); err != nil {
			return err
		}
	}
	if err := a.printTests(&view); err != nil {
		return err
	}
	return view.failure(all, paths, o)
}

// failure returns why the command fails; nil if all tests passed. all is the number of tests without --run.
func (v *testsView) failure(all int, paths []string, o *testOptions) error {
	var err error
	switch {
	case len(v.Tests) == 0 && all > 0:
		err = fmt.Errorf("no name of a test matches --run %s", o.run)
	case len(v.Tests) == 0:
		err = fmt.Errorf("there are no tests in %s: add spec.tests to a manifest, or a file such as route_test.yaml", strings.Join(paths, ", "))
	case v.Failed > 0:
		err = fmt.Errorf("%s of %d failed", count(v.Failed, "test"), len(v.Tests))
	case v.Coverage != nil && v.Coverage.Lines.Percent < o.coverage.least:
		err = fmt.Errorf("the tests execute %.1f %% of the lines, less than the %v %% of --coverage-least", v.Coverage.Lines.Percent, o.coverage.least)
	default:
		return nil
	}
	return &exitError{code: exitTestFailed, err: err}
}

func cases(suites []scripttest.Suite) (n int) {
	for i := range suites {
		n += len(suites[i].Cases) + len(suites[i].Own)
	}
	return n
}

// loadSuites reads the manifests and the test files of the paths.
func (a *app) loadSuites(set *engines.Set, paths []string) (suites []scripttest.Suite, err error) {
	var files, manifests []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir():
			found, err := testFilesIn(path)
			if err != nil {
				return nil, err
			}
			files = append(files, found...)
			manifests = append(manifests, path)
		case manifest.IsTestFile(path):
			files = append(files, path)
		default:
			manifests = append(manifests, path)
		}
	}
	var faults []error
	for _, path := range manifests {
		loaded, err := a.loadFile(path)
		faults = append(faults, err)
		for i := range loaded {
			s, _ := scripttest.OfManifest(&loaded[i]) // one without tests counts for the coverage
			faults = append(faults, s.ReadOwn(set))
			suites = append(suites, s)
		}
	}
	for _, path := range files {
		loaded, err := manifest.LoadTests(path)
		faults = append(faults, err)
		if err == nil {
			suites = append(suites, scripttest.Suite{Script: loaded.Script, Cases: loaded.Cases})
		}
	}
	return suites, errors.Join(faults...)
}

func testFilesIn(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() && manifest.IsTestFile(e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

func (v *testsView) add(r *scripttest.Result) {
	t := caseView{
		Script: r.Script.String(), Name: r.Case.Name, Outcome: testPassed, File: r.Case.File, Line: r.Case.Line,
		Seconds: r.Took.Seconds(), Instructions: r.Used.Instructions,
	}
	for _, l := range r.Logs {
		t.Logs = append(t.Logs, testLogView{string(l.Level), l.Message})
	}
	switch f := r.Failure; {
	case r.Skipped != "":
		v.Skipped++
		t.Outcome, t.Message = testSkipped, r.Skipped
	case f != nil:
		v.Failed++
		t.Outcome, t.Message, t.More = testFailed, f.Message, f.More
		for _, d := range f.Differences {
			t.Differences = append(t.Differences, testDiffView{d.Pointer, d.From, d.To})
		}
		if f.Err != nil {
			t.Error = new(viewOfError(f.Err).Error)
		}
	default:
		v.Passed++
	}
	v.Tests = append(v.Tests, t)
}

// write prints the test for a person.
func (t *caseView) write(w io.Writer, all bool) {
	word := map[string]string{testPassed: "ok  ", testFailed: "FAIL", testSkipped: "skip"}[t.Outcome]
	fmt.Fprintf(w, "%s  %s  %s  %s:%d  %s  %d instructions\n", word, t.Script, plain(t.Name), plain(t.File), t.Line, latency(time.Duration(t.Seconds*float64(time.Second))), t.Instructions)
	for _, line := range t.reasons() {
		fmt.Fprintln(w, "      "+plain(line))
	}
	if t.Error != nil {
		for _, f := range t.Error.Stack {
			fmt.Fprintln(w, "      "+plain(f.text(t.Error.File)))
		}
	}
	if t.Outcome == testFailed || all {
		for _, l := range t.Logs {
			fmt.Fprintf(w, "      log %s: %s\n", l.Level, plain(l.Message))
		}
	}
}

// reasons returns a line for each reason why the test did not pass.
func (t *caseView) reasons() (lines []string) {
	if t.Message != "" {
		lines = append(lines, t.Message)
	}
	for _, d := range t.Differences {
		lines = append(lines, fmt.Sprintf("%s: want %s, got %s", orRoot(d.Pointer), orNothing(d.Want), orNothing(d.Got)))
	}
	if t.More {
		lines = append(lines, "there are more differences")
	}
	if e := t.Error; e != nil && e.File != "" {
		lines = append(lines, fmt.Sprintf("at %s:%d", e.File, e.Line))
	}
	return lines
}

func orRoot(pointer string) string {
	if pointer == "" {
		return "the result"
	}
	return pointer
}

func orNothing(value json.RawMessage) string {
	if value == nil {
		return "nothing"
	}
	if text := strings.ToValidUTF8(string(value[:min(len(value), maxValueBytes)]), ""); len(text) < len(value) {
		return text + "…"
	}
	return string(value)
}

// maxValueBytes is how much of a value is shown to a person; programs get all of it.
const maxValueBytes = 1000

// dryRunTests runs the tests of the manifests, and returns an error for each that fails.
func (a *app) dryRunTests(ctx context.Context, manifests []manifest.Manifest) error {
	var suites []scripttest.Suite
	set := engines.Offline()
	for i := range manifests {
		s, ok := scripttest.OfManifest(&manifests[i])
		if err := s.ReadOwn(set); err != nil {
			return err
		}
		if ok || len(s.Own) > 0 {
			suites = append(suites, s)
		}
	}
	var view testsView
	if err := scripttest.Run(ctx, set, suites, scripttest.Options{}, func(r *scripttest.Result) { view.add(r) }); err != nil {
		return err
	}
	var faults []error
	for i := range view.Tests {
		t := &view.Tests[i]
		message := fmt.Sprintf("test %q of %s: %s", t.Name, t.Script, strings.Join(t.reasons(), "; "))
		switch t.Outcome {
		case testFailed:
			faults = append(faults, &manifest.Error{File: t.File, Line: t.Line, Message: message})
		case testSkipped:
			a.notice("%s:%d: skipped %s", t.File, t.Line, plain(message))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return &exitError{code: exitRefused, err: errors.Join(faults...)}
}
