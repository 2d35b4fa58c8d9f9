package rego_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine/rego"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hostile returns sources of about so many bytes that try to make the compiler use much more time or memory than that.
func hostile(size int) map[string]string {
	p := "package p\n\n"
	repeat := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	number := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i, i+1)
		}
		return b.String()
	}
	nested := func(open, middle, end string, most int) string {
		n := min(most, size/(len(open)+len(end)))
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	return map[string]string{
		"brackets":           p + "allow := " + nested("[", "1", "]", size),
		"braces":             p + "allow := " + nested("{", "1", "}", size),
		"objects":            p + "allow := " + nested(`{"a":`, "1", "}", size),
		"parentheses":        p + "allow := " + nested("(", "1", ")", size),
		"unclosed":           p + "allow := " + repeat("["),
		"unclosed braces":    p + "allow := " + repeat("{"),
		"unclosed sets":      p + "allow := " + repeat("{1,"),
		"unclosed rules":     p + "allow if " + repeat("{ x := {"),
		"deep brackets":      p + "allow := " + nested("[", "1", "]", 60),
		"deep sets":          p + "allow := " + nested("{", "1", "}", 60),
		"deep calls":         p + "allow := " + nested("count(", "[1]", ")", 60),
		"comprehensions":     p + "allow := " + nested("[x | x := ", "1", "]", 60),
		"set comprehensions": p + "allow := " + nested("{x | x := ", "1", "}", 60),
		"deep every":         p + "allow if " + nested("every x in [1] { ", "x == 1", " }", 60),
		"deep not":           p + "allow if {" + repeat("not ") + "true }",
		"minus":              p + "allow := " + repeat("-") + "1",
		"sums":               p + "allow := 1" + repeat("+1"),
		"ors":                p + "allow := {1}" + repeat("|{1}"),
		"products":           p + "allow if { x := 1" + repeat("*1") + " }",
		"rules":              p + number("r%d := %d\n"),
		"chain":              p + "allow := r0\n" + number("r%d := r%d\n") + fmt.Sprintf("r%d := 1", size),
		"same rule":          p + number("allow if input.x%d == %d\n"),
		"same value":         p + number("allow := %d if input.x == %d\n"),
		"elses":              p + "allow := 1 if input.x" + number(" else := %d if input.y == %d"),
		"body":               p + "allow if {\n" + number("input.x%d == %d\n") + "}",
		"unsafe":             p + "allow if {\n" + number("x%d == y%d\n") + "}",
		"variables":          p + "allow if {\nx0 := 1\n" + number("x%[2]d := x%[1]d\n") + "}",
		"reversed":           p + "allow if {\n" + reversed(size) + "}",
		"unified":            p + "allow if {\n" + number("x%d = x%d\n") + fmt.Sprintf("x%d = 1\n}", size/8),
		"everies":            p + "allow if {\n" + number("every x in input.y%d { x > %d }\n") + "}",
		"prints":             p + "allow if {\n" + number("print(input.x%d, %d)\n") + "}",
		"somes":              p + "allow if {\nsome " + number("a%d, b%d, ") + "z\n}",
		"literal":            p + "allow := [" + repeat("1,") + "1]",
		"object":             p + "allow := {" + number(`"k%d":%d,`) + `"z":1}`,
		"sets":               p + "allow := {" + number("%d,%d.5,") + "1}",
		"string":             p + "allow := \"" + repeat("x") + "\"",
		"number":             p + "allow := 1" + repeat("0"),
		"exponent":           p + "allow := 1e" + repeat("9"),
		"reference":          p + "allow := input" + repeat(".a"),
		"variable refs":      p + "allow if input" + repeat("[_]"),
		"imports":            p + number("import data.a%d as b%d\n"),
		"functions":          p + number("f%d(x) := x + %d\n"),
		"arguments":          p + "f(" + number("a%d, b%d, ") + "z) := 1",
		"types":              p + "x0 := {\"a\": 1, \"b\": \"x\"}\n" + number("x%[2]d := {\"a\": x%[1]d, \"b\": x%[1]d}\n"),
		"arrays of types":    p + "x0 := [1]\n" + number("x%[2]d := [x%[1]d, x%[1]d]\n"),
		"unions":             p + "x0 := 1\nx0 := \"a\"\n" + number("x%[2]d := [x%[1]d, 1]\nx%[2]d := {\"a\": x%[1]d}\n"),
		"withs":              p + "allow if input.x" + number(" with input.a%d as %d"),
		"strings":            p + number("r%d := \"x%d\"\n"),
		"heads":              p + number("a%d.b.c.d.e.f.g.h.i.j := %d\n"),
		"partial heads":      p + number("a.b[x].c%d[y].d if { x := input.x; y := %d }\n"),
		"comments":           p + repeat("#x\n"),
		"annotations":        p + repeat("# METADATA\n# title: x\n") + "allow := 1",
		"templates":          p + "allow := $\"" + repeat("{1}") + "\"",
		"deep templates":     p + "allow := " + nested("$\"{", "1", "}\"", 60),
		"packages":           "package p" + repeat(".p") + "\n\nallow := 1",
		"recursion":          p + number("r%d := r%d\n") + "r0 := r1",
		"nested refs":        p + "allow := " + nested("input[", "1", "]", 60),
		"semicolons":         p + "allow if { " + repeat("true;") + "true }",
	}
}

func reversed(size int) string {
	var b strings.Builder
	for i := size / 24; i > 0; i-- {
		fmt.Fprintf(&b, "x%d == x%d + 1\n", i, i-1)
	}
	return b.String() + "x0 := 1\n"
}

// TestHostileSources: the compiler ends soon, whatever the source, and takes memory in proportion to it.
func TestHostileSources(t *testing.T) {
	needs.NoRace(t)
	const size = 16 << 10
	for name, text := range hostile(size) {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			err := (rego.Checker{}).Check(source(text, "interpreted"))
			took := time.Since(begin)
			runtime.ReadMemStats(&after)
			if script.KindOf(err) == script.Internal {
				t.Error(err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 10_000*size {
				t.Errorf("it took %d MiB", used>>20)
			}
			t.Logf("%s: %v, %d KiB: %.150v", name, took, (after.TotalAlloc-before.TotalAlloc)>>10, err)
		})
	}
}

// TestHostileSizes: a policy from which the compiler makes far more than its source is refused, or the size of the program is
// the truth.
func TestHostileSizes(t *testing.T) {
	for name, rules := range map[string]func(i int) string{
		"indexes": func(i int) string { // rules of one name that have nothing in common
			text := fmt.Sprintf("decision if { input.y == %d\n", i)
			for j := range 6 {
				text += fmt.Sprintf("input.a%d == 1\n", i*6+j)
			}
			return text + "}\n"
		},
		"graphs": func(i int) string { return fmt.Sprintf("q.a%d := 1\nr%[1]d := 1 if q[_]\n", i) },
	} {
		for _, n := range []int{200, 600} {
			var b strings.Builder
			b.WriteString("package acme.p\ndecision if input.none\n")
			for i := range n {
				b.WriteString(rules(i))
			}
			e := newEngine(t)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			p, err := e.Compile(source(b.String(), script.RegoTargetInterpreted))
			if err != nil {
				if script.KindOf(err) != script.Limit {
					t.Errorf("%s of %d rules: %v", name, n, err)
				}
				continue
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if held := int(after.HeapAlloc) - int(before.HeapAlloc); held > p.Size() {
				t.Errorf("%s of %d rules: the program says that it holds %d KiB, and holds %d", name, n, p.Size()>>10, held>>10)
			}
			p.Close()
		}
	}
}
