package scriptctl

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
	"github.com/scriptorium-dev/scriptorium/internal/project"
)

func (a *app) printLint(v *lintView) error {
	switch a.output {
	case formatSARIF:
		v.countCharacters()
		return v.writeSARIF(a.Out)
	case formatGitHub:
		v.countCharacters()
		for i := range v.Findings {
			v.Findings[i].writeGitHub(a.Out)
		}
		return nil
	}
	return a.print(v, func(w io.Writer) {
		for i := range v.Findings {
			f := &v.Findings[i]
			fmt.Fprintf(w, "%s: %s: %s (%s %s)\n", f.position(), f.Level, plain(f.Message), f.Code, f.Rule)
		}
		fmt.Fprintf(w, "%s, %s\n", count(v.Errors, "error"), count(v.Warnings, "warning"))
	})
}

// countCharacters sets the columns of the findings in characters, as code scanners count. They were in bytes.
func (v *lintView) countCharacters() {
	sources := map[string][]string{}
	for i := range v.Findings {
		f := &v.Findings[i]
		lines, ok := sources[f.File]
		if !ok {
			text, _ := os.ReadFile(f.File) //nolint:gosec // a file that was linted; without it the column stays
			lines = strings.Split(string(text), "\n")
			sources[f.File] = lines
		}
		if f.Column > 0 && f.Line > 0 && f.Line <= len(lines) && f.Column-1 <= len(lines[f.Line-1]) {
			f.Column = utf8.RuneCountInString(lines[f.Line-1][:f.Column-1]) + 1
		}
	}
}

// writeGitHub writes the command with which GitHub Actions shows a finding beside its line.
func (f *lintFinding) writeGitHub(w io.Writer) {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	place := fmt.Sprintf("file=%s,line=%d", property.Replace(filepath.ToSlash(f.File)), f.Line)
	if f.Column > 0 {
		place += fmt.Sprintf(",col=%d", f.Column)
	}
	fmt.Fprintf(w, "::%s %s,title=%s::%s\n", f.Level, place, property.Replace(f.Code+" "+f.Rule), message.Replace(plain(f.Message)))
}

// The parts of SARIF 2.1.0 that code scanners read.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Columns string        `json:"columnKind"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		Name  string    `json:"name"`
		Short sarifText `json:"shortDescription"`
		Help  sarifText `json:"help"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		Rule      string          `json:"ruleId"`
		Level     project.Level   `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region struct {
			Line   int `json:"startLine"`
			Column int `json:"startColumn,omitempty"`
		} `json:"region"`
	}
)

func (v *lintView) writeSARIF(w io.Writer) error {
	var rules []sarifRule
	for _, r := range slices.Concat([]*lint.Rule{compiler}, lint.Rules) {
		rules = append(rules, sarifRule{ID: r.Code, Name: r.Name, Short: sarifText{r.Title}, Help: sarifText{r.Why}})
	}
	results := make([]sarifResult, len(v.Findings))
	for i := range v.Findings {
		f := &v.Findings[i]
		var at sarifLocation
		at.Physical.Artifact.URI = (&url.URL{Path: filepath.ToSlash(f.File)}).String()
		at.Physical.Region.Line, at.Physical.Region.Column = max(f.Line, 1), f.Column
		results[i] = sarifResult{Rule: f.Code, Level: f.Level, Message: sarifText{plain(f.Message)}, Locations: []sarifLocation{at}}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{sarifDriver{Name: "scriptctl lint", Version: thisVersion().String(), Rules: rules}}, Columns: "unicodeCodePoints", Results: results}},
	})
}
