package scriptctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/internal/project"
	"github.com/scriptorium-dev/scriptorium/script"
)

const lintLong = `Lint finds mistakes in scripts without running them. It finds scripts that do not compile,
names that nothing defines, variables that nothing reads, statements that nothing reaches,
and calls with wrong arguments. It needs no registry and no agent.

PATH is a manifest, a folder with manifests, or a Lua file. Without PATH, lint reads the
current folder. "scriptctl explain" lists the rules and explains each.

The nearest .scriptorium.yaml, in the folder of the script or in one around it, sets levels:

  lint:
    rules:
      W009: off              # a code or a name, and off, warning or error
      unused-local: error

A comment ignores rules in its line. If it stands alone, it also ignores them in the next line:

  local version = 1 -- lint:ignore W005 the next version reads it

The exit code is 12 if a finding is an error, or with --strict if there is a finding.`

// The formats of lint, in addition to table, json and yaml.
const (
	formatSARIF  = "sarif"
	formatGitHub = "github"
)

// compiler is what an error of the compiler breaks. It is no rule of lint: nobody can turn it off.
var compiler = &lint.Rule{
	Code: "E001", Name: "compiler", Fails: true,
	Title: "The script does not compile.", Why: "The message says what the compiler expects. Correct the error.",
	Bad: "function handle(request)\n  return request.path", Good: "function handle(request)\n  return request.path\nend",
}

func (a *app) lintCommand() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use: "lint [PATH...]", Short: "Find mistakes in scripts without running them", Long: lintLong,
		Example: "  scriptctl lint\n  scriptctl lint route.yaml --strict\n  scriptctl lint scripts -o sarif > lint.sarif",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return append([]cobra.Completion{"lua"}, manifestExtensions...), cobra.ShellCompDirectiveFilterFileExt
		},
		Annotations: map[string]string{moreFormats: formatSARIF + "," + formatGitHub},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			return a.lint(cmd.Context(), args, strict)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail on warnings, too")
	return cmd
}

// lintView is what lint has found.
type lintView struct {
	Errors   int           `json:"errors"`
	Warnings int           `json:"warnings"`
	Findings []lintFinding `json:"findings"`

	libraries offline.Libraries
}

type lintFinding struct {
	Code    string        `json:"code"`
	Rule    string        `json:"rule"`
	Level   project.Level `json:"level"`
	Script  string        `json:"script,omitempty"` // none for a Lua file
	File    string        `json:"file"`
	Line    int           `json:"line"`
	Column  int           `json:"column,omitempty"`
	Message string        `json:"message"`
}

func (a *app) lint(ctx context.Context, paths []string, strict bool) error {
	var manifests []manifest.Manifest
	var faults []error
	for _, path := range paths {
		loaded, err := a.loadLinted(path)
		faults = append(faults, err)
		manifests = append(manifests, loaded...)
	}
	if err := errors.Join(faults...); err != nil {
		return usage(err)
	}
	view := lintView{Findings: []lintFinding{}}
	for i := range manifests {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m := &manifests[i]
		settings, err := project.Find(filepath.Dir(m.File))
		if err != nil {
			return usage(err)
		}
		view.check(m, settings)
	}
	if err := a.printLint(&view); err != nil {
		return err
	}
	if view.Errors > 0 || strict && view.Warnings > 0 {
		return &exitError{code: exitLint, err: fmt.Errorf("lint has found %s and %s", count(view.Errors, "error"), count(view.Warnings, "warning"))}
	}
	return nil
}

// loadLinted reads a manifest, a folder with manifests, or a Lua file, which is a script without a name.
func (a *app) loadLinted(path string) ([]manifest.Manifest, error) {
	if filepath.Ext(path) != ".lua" {
		return a.loadFile(path)
	}
	source, err := manifest.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := manifest.Manifest{Source: source, SourceFile: path, File: path, Line: 1, Engine: script.EngineLua, Entrypoint: manifest.DefaultEntrypoint}
	if engines.Offline().Lua.Check(engine.Source{Code: source, Entrypoint: m.Entrypoint}) != nil {
		m.Entrypoint = "" // the chunk is the program, or the source does not compile
	}
	return []manifest.Manifest{m}, nil
}

// check adds the findings in a script.
func (v *lintView) check(m *manifest.Manifest, settings *project.Config) {
	source, err := checked(v.libraries.Engines(), m)
	if err != nil {
		v.add(m, lintFinding{Code: compiler.Code, Rule: compiler.Name, Level: project.Error}, script.AsError(err))
		return
	}
	if m.Engine != script.EngineLua {
		return // the other rules are of Lua
	}
	v.checkLibraries(m)
	linted := lint.Source{Source: source, Config: m.Settings.Config}
	if m.Name != (script.Name{}) && linted.Config == nil {
		linted.Config = json.RawMessage("{}")
	}
	for _, f := range lint.Check(linted) {
		if level := settings.Level(f.Rule); level != project.Off {
			v.add(m, lintFinding{Code: f.Rule.Code, Rule: f.Rule.Name, Level: level}, &script.Error{Kind: script.Script, Line: f.Line, Column: f.Column, Message: f.Message})
		}
	}
}

// checkLibraries adds what is wrong with what the script requires. A library that is not in the folder may be in the
// registry.
func (v *lintView) checkLibraries(m *manifest.Manifest) {
	if m.Name == (script.Name{}) {
		return
	}
	with := *m
	if err := v.libraries.Resolve(&with); err != nil {
		f := lintFinding{Code: compiler.Code, Rule: compiler.Name, Level: project.Error}
		if script.KindOf(err) == script.NotFound {
			f.Level = project.Warning
		}
		v.add(m, f, err)
	}
}

func (v *lintView) add(m *manifest.Manifest, f lintFinding, err error) {
	f.File, f.Line, f.Column, f.Message = m.File, m.Line, 0, script.AsError(err).Message
	if located, ok := errors.AsType[*manifest.Error](m.Locate(err)); ok {
		f.File, f.Line, f.Column, f.Message = located.File, located.Line, located.Column, located.Message
	}
	if m.Name != (script.Name{}) {
		f.Script = m.Name.String()
	}
	if f.Level == project.Error {
		v.Errors++
	} else {
		v.Warnings++
	}
	v.Findings = append(v.Findings, f)
}

func (f *lintFinding) position() string {
	if f.Column == 0 {
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// explainRuleCommand explains the rules of lint.
func (a *app) explainRuleCommand() *cobra.Command {
	var codes []cobra.Completion
	for _, r := range lint.Rules {
		codes = append(codes, cobra.CompletionWithDesc(r.Code, r.Title))
	}
	return &cobra.Command{
		Use: "explain [RULE]", Short: "Explain the rules of lint",
		Long:    "Explain lists the rules of lint, or explains the one with the code or the name: what is wrong,\nwhat to do, and an example of both.",
		Example: "  scriptctl explain\n  scriptctl explain W012\n  scriptctl explain unused-local",
		Args:    wantArgs(0, 1, "optionally a rule", "[W012]"), ValidArgsFunction: cobra.FixedCompletions(codes, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listRules()
			}
			r := lint.Find(args[0])
			if args[0] == compiler.Code || args[0] == compiler.Name {
				r = compiler
			}
			if r == nil {
				return usage(script.Errorf(script.Invalid, "RULE", "%q is no rule: want a code such as W012 or a name such as unused-local; scriptctl explain lists them", args[0]))
			}
			return a.explainRule(r)
		},
	}
}

// ruleView is a rule of lint.
type ruleView struct {
	Code  string        `json:"code"`
	Name  string        `json:"name"`
	Level project.Level `json:"level"` // by default
	Title string        `json:"title"`
	Why   string        `json:"why"`
	Bad   string        `json:"bad"`
	Good  string        `json:"good"`
}

func viewOfRule(r *lint.Rule) *ruleView {
	return &ruleView{Code: r.Code, Name: r.Name, Level: new(project.Config).Level(r), Title: r.Title, Why: r.Why, Bad: r.Bad, Good: r.Good}
}

func (a *app) listRules() error {
	views := make([]*ruleView, 0, len(lint.Rules))
	rows := [][]string{{"CODE", "NAME", "LEVEL", "TITLE"}}
	for _, r := range lint.Rules {
		v := viewOfRule(r)
		views = append(views, v)
		rows = append(rows, []string{v.Code, v.Name, string(v.Level), v.Title})
	}
	return a.print(views, func(w io.Writer) { columns(w, rows) })
}

func (a *app) explainRule(r *lint.Rule) error {
	v := viewOfRule(r)
	indent := func(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
	return a.print(v, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s, by default %s\n\n%s\n%s\n\nWrong:\n\n%s\n\nRight:\n\n%s\n", v.Code, v.Name, v.Level, v.Title, v.Why, indent(v.Bad), indent(v.Good))
	})
}
