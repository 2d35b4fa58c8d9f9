package rollout_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

var (
	mutantCount = flag.Int("rollout.mutants", 10, "how many mutants of the judge TestMutants tries, chosen at random; 0 for all")
	mutantSeed  = flag.Uint64("rollout.mutantseed", 0, "what TestMutants chooses by; 0 for another one each time")
)

// The judge is what these files say, but for the functions that make text alone.
var (
	judge = []string{"next.go", "calls.go", "gates.go", "set.go"}
	texts = []string{"Evidence", "lost", "nobodyLeft", "wait", "fail", "compared", "failed", "latency", "percentileOf", "gateSays", "passed", "question", "reason", "tooOldFor", "others"}
)

// equivalent are the mutants that decide as the judge does, and why.
var equivalent = map[string]string{}

// TestMutants: the other tests of this package fail for each mutant of the judge. A mutant compares
// or combines in another way, leaves a condition out, or takes the least for the most.
func TestMutants(t *testing.T) {
	needs.NoRace(t)
	needs.Time(t, "builds and runs mutants of this package")
	program, mutants := buildMutants(t)
	if out, err := tryMutant(t.Context(), program, 0); err != nil {
		t.Fatalf("the tests fail without a mutation: %v\n%s", err, out)
	}
	seed := cmp.Or(*mutantSeed, rand.Uint64())
	chosen := rand.New(rand.NewPCG(seed, 0)).Perm(len(mutants))
	if *mutantCount > 0 {
		chosen = chosen[:min(*mutantCount, len(chosen))]
	}
	t.Logf("%d of %d mutants, -rollout.mutantseed %d", len(chosen), len(mutants), seed)
	var running sync.WaitGroup
	next := make(chan int)
	for range 2 {
		running.Go(func() {
			for i := range next {
				_, err := tryMutant(t.Context(), program, i+1)
				switch why, same := equivalent[mutants[i]]; {
				case err == nil && !same:
					t.Errorf("no test fails for the mutant %s", mutants[i])
				case err != nil && same:
					t.Errorf("a test fails for the mutant %s, though it decides the same (%s)", mutants[i], why)
				}
			}
		})
	}
	for _, i := range chosen {
		next <- i
	}
	close(next)
	running.Wait()
}

// slow are tests that take long, and find no mutant that the others do not.
const slow = "TestCrashingCandidates|TestManyThaw|TestASlowScript|TestWhileTheStoreFails|TestMutants"

const mutantVariable = "SCRIPTORIUM_MUTANT"

func tryMutant(ctx context.Context, program string, number int) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, "-test.short", "-test.failfast", "-test.timeout", "60s", "-test.skip", slow)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutantVariable, number))
	return cmd.CombinedOutput()
}

// chosenMutant goes into the program beside the judge: each place that can be mutated asks it.
const chosenMutant = `package rollout

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("` + mutantVariable + `"))

func either(number int, is, mutated func() bool) bool {
	if mutant == number {
		return mutated()
	}
	return is()
}

func one[T any](number int, is, mutated T) T {
	if mutant == number {
		return mutated
	}
	return is
}
`

// buildMutants builds the tests of this package with all mutants of the judge in them, and returns
// what each one is.
func buildMutants(t *testing.T) (program string, mutants []string) {
	t.Helper()
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	put := func(name string, content []byte) {
		replace[filepath.Join(here, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("mutant.go", []byte(chosenMutant))
	for _, name := range judge {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := &mutator{source: source, file: name, found: mutants}
		put(name, m.mutate(t))
		mutants = m.found
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "mutants.test")
	put("overlay.json", overlay)
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the mutants: %v\n%s", err, out)
	}
	return program, mutants
}

// mutator rewrites a file so that each place asks which mutant it is to be.
type mutator struct {
	source []byte
	file   string
	fset   *token.FileSet
	found  []string
	places []place
}

// place is where there can be mutants. Its text, with those of the places in it, is "%s" in around.
type place struct {
	from, to int
	around   func(text string) string
}

func (m *mutator) mutate(t *testing.T) []byte {
	t.Helper()
	m.fset = token.NewFileSet()
	file, err := parser.ParseFile(m.fset, m.file, m.source, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && !slices.Contains(texts, f.Name.Name) {
			ast.Inspect(f.Body, func(n ast.Node) bool { m.visit(n); return true })
		}
	}
	slices.SortStableFunc(m.places, func(a, b place) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var b bytes.Buffer
	rest := m.write(&b, 0, len(m.source), m.places)
	if len(rest) > 0 {
		t.Fatalf("%d places are left", len(rest))
	}
	return b.Bytes()
}

// write writes the text, with the places in it, which are the first of places.
func (m *mutator) write(b *bytes.Buffer, from, to int, places []place) (rest []place) {
	for len(places) > 0 && places[0].from < to {
		p := places[0]
		b.Write(m.source[from:p.from])
		var inner bytes.Buffer
		places = m.write(&inner, p.from, p.to, places[1:])
		b.WriteString(p.around(inner.String()))
		from = p.to
	}
	b.Write(m.source[from:to])
	return places
}

func (m *mutator) offset(pos token.Pos) int { return m.fset.Position(pos).Offset }

func (m *mutator) text(n ast.Node) string {
	return string(m.source[m.offset(n.Pos()):m.offset(n.End())])
}

// add notes a place, and returns the number of its mutant.
func (m *mutator) add(n ast.Node, mutated string, around func(number int, text string) string) {
	m.found = append(m.found, fmt.Sprintf("%s: %s → %s", m.file, m.text(n), mutated))
	number := len(m.found)
	m.places = append(m.places, place{m.offset(n.Pos()), m.offset(n.End()), func(text string) string { return around(number, text) }})
}

var otherOperators = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+",
}

func (m *mutator) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		m.condition(n.Cond)
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					m.condition(e)
				}
			}
		}
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.CallExpr:
		of := map[string]string{"min": "max", "max": "min"}
		if f, ok := n.Fun.(*ast.Ident); ok && of[f.Name] != "" {
			other := of[f.Name] + strings.TrimPrefix(m.text(n), f.Name)
			m.add(n, other, func(number int, text string) string { return fmt.Sprintf("one(%d, %s, %s)", number, text, other) })
		}
	}
}

// condition has the condition be false.
func (m *mutator) condition(e ast.Expr) {
	m.add(e, "false", func(number int, text string) string {
		return fmt.Sprintf("either(%d, func() bool { return %s }, func() bool { return false })", number, text)
	})
}

func (m *mutator) binary(n *ast.BinaryExpr) {
	other := otherOperators[n.Op]
	if text := m.text(n); other == "" || n.Op == token.ADD && (strings.Contains(text, `"`) || strings.Contains(text, "String()")) {
		return
	}
	mutated := m.text(n.X) + " " + other + " " + m.text(n.Y)
	m.add(n, mutated, func(number int, text string) string {
		if n.Op == token.ADD || n.Op == token.SUB {
			return fmt.Sprintf("one(%d, %s, %s)", number, text, mutated)
		}
		return fmt.Sprintf("either(%d, func() bool { return %s }, func() bool { return %s })", number, text, mutated)
	})
}
