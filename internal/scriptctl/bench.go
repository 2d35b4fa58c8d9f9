package scriptctl

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/internal/scriptbench"
	"github.com/scriptorium-dev/scriptorium/internal/scripttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const benchLong = `Bench measures calls of scripts on this machine, in the engine of agents and under the
script's limits. The calls are those of tests: spec.tests of a manifest, and the cases of
a test file. All must pass first: see "scriptctl test".

For each case it prints, with the 95% confidence interval of the median over all rounds:
  calls/s        calls one after the other, on one processor
  p50, p99       the time of a call; no p99 if a round has fewer than 100 calls
  instructions   that the engine counts, as limits do
  allocated      bytes, dropped ones included, as the engine estimates

With --against, it also measures another version of the script: @7 is from the registry, a
manifest or a .lua file is not. A .lua file runs with the settings of FILE. The two sides
take turns in each round, so a machine that gets slower affects both. The change is from
the other version to FILE. "~" means no significant difference: p, by the Mann-Whitney U
test, is 0.05 or more. This is the method of benchstat.

Log lines go nowhere. The time stands still, and each call starts with the same random
numbers. A laptop is no agent: compare versions, and not machines.`

const benchExample = `  scriptctl bench route.yaml
  scriptctl bench route.yaml route_test.yaml --run gold --against @7
  scriptctl bench route.yaml --against faster.lua --rounds 40 -o json`

type benchOptions struct {
	run     string
	against string
	cfg     scriptbench.Config
}

// Bounds of a measurement.
const (
	maxRounds    = 10_000
	maxBenchTime = time.Minute
)

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use: "bench FILE...", Short: "Measure scripts on this machine, and compare versions", Long: benchLong, Example: benchExample,
		Args: wantArgs(1, anyNumber, "a manifest or a test file", "FILE..."),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return manifestExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			only, err := o.validate()
			if err != nil {
				return usage(err)
			}
			return a.bench(cmd.Context(), args, &o, only)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.run, "run", "", "only tests whose name matches this RE2 expression")
	flags.StringVar(&o.against, "against", "", "compare with this version of the script: @VERSION, a manifest or a .lua file")
	flags.IntVar(&o.cfg.Rounds, "rounds", 20, fmt.Sprintf("how many samples to take, %d at least", scriptbench.MinRounds))
	flags.DurationVar(&o.cfg.Time, "time", 20*time.Millisecond, "about how long the slower side makes calls in a round, twice")
	must(cmd.MarkFlagFilename("against", scriptExtensions...))
	return cmd
}

// validate checks the flags, and returns the expression of --run.
func (o *benchOptions) validate() (*regexp.Regexp, error) {
	switch {
	case o.cfg.Rounds < scriptbench.MinRounds || o.cfg.Rounds > maxRounds:
		return nil, script.Errorf(script.Invalid, "--rounds", "%d is not between %d and %d: fewer rounds have no confidence interval", o.cfg.Rounds, scriptbench.MinRounds, maxRounds)
	case o.cfg.Time <= 0 || o.cfg.Time > maxBenchTime:
		return nil, script.Errorf(script.Invalid, "--time", "%s is not between 0 and %s", o.cfg.Time, maxBenchTime)
	}
	only, err := regexp.Compile(o.run)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--run", "is no RE2 expression: %v", err)
	}
	return only, nil
}

func (a *app) bench(ctx context.Context, paths []string, o *benchOptions, only *regexp.Regexp) error {
	set := engines.Offline()
	suites, err := a.loadSuites(set, paths)
	if err != nil {
		return usage(err)
	}
	for i := range suites {
		suites[i].Choose(only)
	}
	var other *manifest.Manifest
	if o.against != "" {
		if other, err = a.benchedAgainst(ctx, suites, o.against); err != nil {
			return err
		}
	}
	b := &bench{app: a, engines: set, cfg: &o.cfg, view: benchView{Rounds: o.cfg.Rounds, Cases: []benchCaseView{}}}
	if other != nil {
		b.view.Against = other.SourceFile
	}
	for i := range suites {
		if err := b.suite(ctx, &suites[i], other); err != nil {
			return err
		}
	}
	if len(b.view.Cases) == 0 {
		return &exitError{code: exitTestFailed, err: fmt.Errorf("there is no test to measure in %s: add spec.tests to a manifest, or name a test file such as route_test.yaml", strings.Join(paths, ", "))}
	}
	return a.print(&b.view, b.footer)
}

// benchedAgainst returns the version of --against. Its SourceFile is what it is called.
func (a *app) benchedAgainst(ctx context.Context, suites []scripttest.Suite, against string) (*manifest.Manifest, error) {
	if len(suites) == 0 {
		return nil, nil
	}
	m := suites[0].Script
	for _, s := range suites {
		if s.Script.Name != m.Name {
			return nil, usage(script.Errorf(script.Invalid, "--against", "compares versions of one script, and the files have %s and %s: name the files of one", m.Name, s.Script.Name))
		}
	}
	other := manifest.Manifest{Name: m.Name, Engine: m.Engine, Entrypoint: m.Entrypoint, Settings: m.Settings, SourceFile: against}
	if filepath.Ext(against) == ".lua" {
		source, err := manifest.ReadFile(against)
		if err != nil {
			return nil, usage(script.Errorf(script.Invalid, "--against", "%w", err))
		}
		other.Source, other.Engine = source, script.EngineLua
		return &other, nil
	}
	sources := &replaySources{app: a, ref: script.Ref{Name: m.Name}}
	v, err := sources.against(ctx, against)
	if err != nil {
		return nil, err
	}
	other.Source, other.Engine, other.Entrypoint, other.Settings.Spec, other.SourceFile = v.Source, v.Engine, v.Entrypoint, v.Spec, v.Name
	return &other, nil
}

// bench measures the cases of suites.
type bench struct {
	app     *app
	engines *engines.Set
	cfg     *scriptbench.Config
	view    benchView

	libraries offline.Libraries
}

// suite measures the cases of a suite, and of the other version of its script if that is not nil.
func (b *bench) suite(ctx context.Context, s *scripttest.Suite, other *manifest.Manifest) error {
	good, failed, err := b.passing(ctx, *s)
	switch {
	case err != nil:
		return err
	case failed > 0:
		return &exitError{code: exitTestFailed, err: fmt.Errorf("%s of %s failed, so nothing was measured: see scriptctl test", count(failed, "test"), s.Script.Name)}
	}
	main, err := b.compile(s.Script)
	if err != nil {
		return err
	}
	var second *offline.Program
	var same []bool
	if other != nil {
		if same, _, err = b.passing(ctx, scripttest.Suite{Script: other, Cases: s.Cases}); err != nil {
			return err
		}
		if second, err = b.compile(other); err != nil {
			return err
		}
	}
	for i := range s.Cases {
		t := &s.Cases[i]
		if why := leftOut(t, good[i]); why != "" {
			b.app.notice("%s:%d: left out %q: %s", t.File, t.Line, plain(t.Name), why)
			continue
		}
		call := scripttest.CallOf(s.Script.Name, t)
		sides := []scriptbench.Side{{Program: main, Call: call}}
		if second != nil && same[i] {
			sides = append(sides, scriptbench.Side{Program: second, Call: call})
		} else if second != nil {
			b.app.warn(fmt.Sprintf("%s:%d: %q is not compared, because %s does not pass it", t.File, t.Line, plain(t.Name), other.SourceFile))
		}
		res, err := scriptbench.Measure(ctx, b.cfg, sides...)
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil:
			return &exitError{code: exitTestFailed, err: &manifest.Error{File: t.File, Line: t.Line, Message: fmt.Sprintf("%q: %v", t.Name, err), Err: errors.Unwrap(err)}}
		}
		b.add(s.Script, t, res)
	}
	return nil
}

// leftOut says why a case is not measured; "" if it is.
func leftOut(t *manifest.TestCase, passed bool) string {
	switch {
	case !passed:
		return "it reads values with kv, which only the fleet has: give some in a test file"
	case t.Gateway != nil:
		return "it tests a decision: add a case with the request that the script gets"
	case t.Error == script.Timeout:
		return "it tests a timeout, and the time of such a call is known"
	}
	return ""
}

// passing returns which cases pass, and how many fail; those that are skipped do neither.
func (b *bench) passing(ctx context.Context, s scripttest.Suite) (good []bool, failed int, err error) {
	err = scripttest.Run(ctx, b.engines, []scripttest.Suite{s}, scripttest.Options{}, func(r *scripttest.Result) {
		if r.Failure != nil {
			failed++
		}
		good = append(good, r.Failure == nil && r.Skipped == "")
	})
	if err != nil && ctx.Err() == nil {
		err = &exitError{code: exitRefused, err: err}
	}
	return good, failed, err
}

func (b *bench) compile(m *manifest.Manifest) (*offline.Program, error) {
	if m.Settings.Libraries == nil { // else it is a version that has its own
		if err := b.libraries.Resolve(m); err != nil {
			return nil, &exitError{code: exitRefused, err: err}
		}
	}
	p, err := offline.Compile(b.engines, &script.Edition{
		Version: script.Version{Engine: m.Engine, Entrypoint: m.Entrypoint}, Spec: m.Settings.Spec, Source: m.Source,
	})
	if err != nil {
		return nil, &exitError{code: exitRefused, err: m.Locate(err)}
	}
	return p, nil
}
