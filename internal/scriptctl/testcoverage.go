package scriptctl

import (
	"bufio"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/scripttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// coverageOptions are the flags of test about coverage.
type coverageOptions struct {
	show       bool
	html, lcov string // files
	least      float64
}

func (o *coverageOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.show, "coverage", false, "show how many lines and branches of each script the tests execute")
	flags.StringVar(&o.html, "coverage-html", "", "write a page with the coverage of each line to this file")
	flags.StringVar(&o.lcov, "coverage-lcov", "", "write the coverage in the format of lcov to this file")
	flags.Float64Var(&o.least, "coverage-least", 0, "fail if the tests execute a smaller `percentage` of all lines")
	for _, name := range []string{"coverage-html", "coverage-lcov"} {
		must(cmd.MarkFlagFilename(name))
	}
}

// new returns what the tests note their coverage in; nil if nobody wants it.
func (o *coverageOptions) new() (*scripttest.Coverage, error) {
	switch {
	case o.least < 0 || o.least > 100:
		return nil, script.Errorf(script.Invalid, "--coverage-least", "%v is no percentage: want 0 to 100", o.least)
	case !o.show && o.html == "" && o.lcov == "" && o.least == 0:
		return nil, nil
	}
	return &scripttest.Coverage{}, nil
}

// coverageView is the coverage of all scripts.
type coverageView struct {
	Lines    shareView            `json:"lines"`
	Branches shareView            `json:"branches"`
	Scripts  []scriptCoverageView `json:"scripts"`
}

type scriptCoverageView struct {
	Script   string    `json:"script"`
	File     string    `json:"file"`
	Lines    shareView `json:"lines"`
	Branches shareView `json:"branches"`
	// Missed are the lines of the source that no test executes.
	Missed []int `json:"missed"`
}

// shareView is how many of some things the tests execute.
type shareView struct {
	Executed int     `json:"executed"`
	All      int     `json:"all"`
	Percent  float64 `json:"percent"`
}

func viewOfShare(s scripttest.Share) shareView { return shareView{s.Executed, s.All, s.Percent()} }

func viewOfCoverage(scripts []scripttest.Covered) *coverageView {
	v := &coverageView{Scripts: []scriptCoverageView{}}
	var lines, branches scripttest.Share
	for i := range scripts {
		c := &scripts[i]
		lines, branches = lines.Add(c.LineShare()), branches.Add(c.BranchShare())
		s := scriptCoverageView{Script: c.Script.Name.String(), File: c.Script.File, Lines: viewOfShare(c.LineShare()), Branches: viewOfShare(c.BranchShare()), Missed: []int{}}
		for _, line := range slices.Sorted(maps.Keys(c.Lines)) {
			if c.Lines[line] == 0 {
				s.Missed = append(s.Missed, line)
			}
		}
		v.Scripts = append(v.Scripts, s)
	}
	v.Lines, v.Branches = viewOfShare(lines), viewOfShare(branches)
	return v
}

// report writes the files, and returns what to show.
func (o *coverageOptions) report(c *scripttest.Coverage) (*coverageView, error) {
	scripts := c.Scripts()
	var errs []error
	for _, file := range []struct {
		path  string
		write func(io.Writer, []scripttest.Covered) error
	}{{o.html, writeCoverageHTML}, {o.lcov, writeLCOV}} {
		if file.path != "" {
			errs = append(errs, writeWhole(file.path, func(w io.Writer) error { return file.write(w, scripts) }))
		}
	}
	return viewOfCoverage(scripts), errors.Join(errs...)
}

// writeWhole writes a file that nobody sees half of.
func writeWhole(path string, write func(io.Writer) error) error {
	const mode = 0o644
	f, err := newFile(path, mode)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush()); err != nil {
		f.discard()
		return cannotWrite(path, err)
	}
	return f.keep(true)
}

// write prints the coverage for a person.
func (v *coverageView) write(w io.Writer) {
	rows := [][]string{{"SCRIPT", "LINES", "BRANCHES", "MISSED LINES"}}
	for _, s := range v.Scripts {
		rows = append(rows, []string{s.Script, s.Lines.String(), s.Branches.String(), ranges(s.Missed)})
	}
	if len(v.Scripts) > 1 {
		rows = append(rows, []string{"all", v.Lines.String(), v.Branches.String(), ""})
	}
	columns(w, rows)
}

func (s shareView) String() string {
	return fmt.Sprintf("%.0f %% (%d of %d)", s.Percent, s.Executed, s.All)
}

// ranges returns "3-5, 9".
func ranges(lines []int) string {
	var parts []string
	for i := 0; i < len(lines); {
		j := i
		for j+1 < len(lines) && lines[j+1] == lines[j]+1 {
			j++
		}
		part := fmt.Sprint(lines[i])
		if j > i {
			part += fmt.Sprint("-", lines[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// writeLCOV writes a tracefile of lcov. A source in a manifest has the lines of the manifest.
func writeLCOV(w io.Writer, scripts []scripttest.Covered) error {
	for i := range scripts {
		c := &scripts[i]
		file, first, ok := c.Script.SourceLine(1)
		if !ok { // the lines are those of the source
			first = 1
		}
		fmt.Fprintf(w, "TN:\nSF:%s\n", filepath.ToSlash(file))
		for k, b := range c.Branches {
			for way, n := range []uint64{b.Taken, b.Skipped} {
				taken := fmt.Sprint(n)
				if b.Taken+b.Skipped == 0 {
					taken = "-" // the condition was not reached
				}
				fmt.Fprintf(w, "BRDA:%d,%d,%d,%s\n", b.Line+first-1, k, way, taken)
			}
		}
		branches := c.BranchShare()
		fmt.Fprintf(w, "BRF:%d\nBRH:%d\n", branches.All, branches.Executed)
		for _, line := range slices.Sorted(maps.Keys(c.Lines)) {
			fmt.Fprintf(w, "DA:%d,%d\n", line+first-1, c.Lines[line])
		}
		lines := c.LineShare()
		if _, err := fmt.Fprintf(w, "LF:%d\nLH:%d\nend_of_record\n", lines.All, lines.Executed); err != nil {
			return err
		}
	}
	return nil
}

// coveragePage shows each script with its lines.
var coveragePage = template.Must(template.New("coverage").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Coverage of scripts</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 2em; color: #1f2328; }
table { border-collapse: collapse; margin-bottom: 2em; }
.summary td, .summary th { padding: .2em 1em .2em 0; text-align: left; }
.source td { font: 12px ui-monospace, monospace; white-space: pre; padding: 0 .6em; }
.source td.n { text-align: right; color: #656d76; }
.hit { background: #dafbe1; } .part { background: #fff8c5; } .miss { background: #ffebe9; }
</style>
<h1>Coverage of scripts</h1>
<table class="summary"><tr><th>Script<th>Lines<th>Branches</tr>
{{range .View.Scripts}}<tr><td><a href="#{{.Script}}">{{.Script}}</a><td>{{.Lines}}<td>{{.Branches}}</tr>
{{end}}</table>
<p>A yellow line has a condition that always went the same way.</p>
{{range .Sources}}<h2 id="{{.Script}}">{{.Script}}</h2>
<table class="source">
{{range .Lines}}<tr class="{{.Class}}"><td class="n">{{.Number}}<td class="n">{{.Count}}<td>{{.Text}}</tr>
{{end}}</table>
{{end}}</html>
`))

type (
	coverageSource struct {
		Script string
		Lines  []coverageLine
	}
	coverageLine struct {
		Number             int
		Count, Text, Class string
	}
)

func writeCoverageHTML(w io.Writer, scripts []scripttest.Covered) error {
	var sources []coverageSource
	for i := range scripts {
		c := &scripts[i]
		partly := map[int]bool{}
		for _, b := range c.Branches {
			partly[b.Line] = partly[b.Line] || b.Taken == 0 || b.Skipped == 0
		}
		s := coverageSource{Script: c.Script.Name.String()}
		number := 0
		for text := range strings.Lines(string(c.Script.Source)) {
			number++
			line := coverageLine{Number: number, Text: strings.TrimRight(text, "\r\n")}
			if n, ok := c.Lines[number]; ok {
				line.Count = fmt.Sprint(n)
				switch {
				case n == 0:
					line.Class = "miss"
				case partly[number]:
					line.Class = "part"
				default:
					line.Class = "hit"
				}
			}
			s.Lines = append(s.Lines, line)
		}
		sources = append(sources, s)
	}
	return coveragePage.Execute(w, map[string]any{"View": viewOfCoverage(scripts), "Sources": sources})
}
