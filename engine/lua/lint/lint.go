// Package lint finds what in a script is probably not meant: names that nobody defines, variables that nobody reads,
// code that nothing reaches, and calls that fail. It runs nothing, and takes time linear in the source.
package lint

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Source is a script that compiles.
type Source struct {
	engine.Source
	// Config is the script's config as JSON; nil if it is not known.
	Config json.RawMessage
}

// Finding is a place in a source that breaks a rule.
type Finding struct {
	Rule    *Rule
	Line    int
	Column  int // 0 if it is not known
	Message string
}

// Check returns the findings in the source in the order of their places, without those that a comment ignores:
//
//	local unused = 1 -- lint:ignore W005 the next version reads it
//
// The comment stands in the same line, or alone in the line before.
func Check(src Source) []Finding {
	syntax, ok := compile.Parse(src.Code)
	if !ok {
		return nil
	}
	c := newChecker(src, syntax)
	c.run(syntax)
	ignored := ignores(string(src.Code))
	findings := slices.DeleteFunc(c.findings, func(f Finding) bool { return slices.Contains(ignored[f.Line], f.Rule.Code) })
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Rule.Code, b.Rule.Code))
	})
	return findings
}

// Advise returns the findings in a source that are most likely mistakes: see Rule.Advice.
func Advise(src engine.Source) (advice []*script.Error) {
	for _, f := range Check(Source{Source: src}) {
		if f.Rule.Advice {
			advice = append(advice, &script.Error{Kind: script.Script, Line: f.Line, Message: f.Message})
		}
	}
	return advice
}

var ignoring = regexp.MustCompile(`^(.*?)--+\s*lint:\s*ignore\s+((?:W\d+[, ]*)+)`)

// ignores returns the codes of the rules that comments ignore, by line.
func ignores(code string) map[int][]string {
	ignored := map[int][]string{}
	line := 0
	for text := range strings.Lines(code) {
		line++
		m := ignoring.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		codes := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		ignored[line] = append(ignored[line], codes...)
		if strings.TrimSpace(m[1]) == "" {
			ignored[line+1] = append(ignored[line+1], codes...)
		}
	}
	return ignored
}
