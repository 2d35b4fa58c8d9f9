package lua_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine/enginetest/corpus"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

var (
	corpusTable = flag.Bool("corpus.table", false, "print the table of docs/isolation.md after TestCorpus, of all variants")
	corpusThird = flag.Int("corpus.third", rand.IntN(thirds), "which third of the variants TestCorpus runs, from 0, unless another is given; -1 for all")
)

// silence is how long a child may say nothing before it counts as hanging.
const silence = time.Minute

// TestCorpus runs every script of the corpus as it is, and in a third of all ways to run it, another
// third each time. Each family has a process of its own.
func TestCorpus(t *testing.T) {
	needs.NoRace(t)
	scripts, err := corpus.Read(os.DirFS(corpusDir))
	if err != nil {
		t.Fatal(err)
	}
	if *corpusTable {
		*corpusThird = -1
	}
	t.Logf("-corpus.third %d", *corpusThird)
	families := make([]familyReport, len(corpus.Families))
	t.Run("family", func(t *testing.T) {
		for i, name := range corpus.Families {
			f := &families[i]
			f.name = name
			for _, s := range scripts {
				if s.Family == name {
					f.scripts++
				}
				if s.Family == name && s.ProcessOnly {
					f.processOnly = append(f.processOnly, s.Name)
				}
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f.run(t)
			})
		}
	})
	if *corpusTable {
		printTable(os.Stdout, families)
	}
}

// familyReport is what became of a family.
type familyReport struct {
	name        string
	scripts     int
	processOnly []string

	worst     worst // with default limits
	worstMost worst // with the highest limits
}

// worst are the runs that took most, each in one way.
type worst struct {
	runs              int
	wall, peak, total corpusRun
}

func (w *worst) add(r corpusRun) {
	w.runs++
	if r.Wall > w.wall.Wall {
		w.wall = r
	}
	if r.Peak > w.peak.Peak {
		w.peak = r
	}
	if r.Total > w.total.Total {
		w.total = r
	}
}

// columns returns the worst as columns of a table.
func (w *worst) columns() string {
	mebibytes := func(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
	return fmt.Sprintf("%d | %d ms (%s) | %s (%s) | %s (%s)", w.runs, w.wall.Wall.Milliseconds(), w.wall.Script,
		mebibytes(w.peak.Peak), w.peak.Script, mebibytes(w.total.Total), w.total.Script)
}

// Run runs the family in a child, and in another one behind what crashed it.
func (f *familyReport) run(t *testing.T) {
	t.Helper()
	for after, crashed := "", true; crashed; {
		after, crashed = f.child(t, after)
	}
	if f.worst.runs == 0 {
		t.Error("nothing was run")
	}
}

// child runs a child, and returns which script it crashed with.
func (f *familyReport) child(t *testing.T, after string) (last string, crashed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), corpusVariable+"="+f.name, afterVariable+"="+after, fmt.Sprint(thirdVariable, "=", *corpusThird))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun, readErr := f.listen(t, out, cmd.Process)
	if err := errors.Join(cmd.Wait(), readErr); err != nil {
		if begun.Script == "" || begun.Script == after {
			t.Fatalf("the child died: %v\n%.3000s", err, said.Bytes())
		}
		t.Errorf("%s %s: the process died: %v\n%.3000s", begun.Script, begun.Variant, err, said.Bytes())
		return begun.Script, true
	}
	return "", false
}

// listen reads what the child says, and kills it if it says nothing for too long.
func (f *familyReport) listen(t *testing.T, out io.Reader, child *os.Process) (last corpusRun, err error) {
	t.Helper()
	hangs := time.AfterFunc(silence, func() { _ = child.Kill() })
	defer hangs.Stop()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		hangs.Reset(silence)
		var r corpusRun
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return last, fmt.Errorf("the child says %q: %w", lines.Text(), err)
		}
		last = r
		if r.Ended {
			f.ended(t, r)
		}
	}
	return last, lines.Err()
}

func (f *familyReport) ended(t *testing.T, r corpusRun) {
	t.Helper()
	for _, problem := range r.Problems {
		t.Errorf("%s, %s: %s", r.Script, r.Variant, problem)
	}
	if r.Most {
		f.worstMost.add(r)
		return
	}
	f.worst.add(r)
}

// printTable prints the families as Markdown.
func printTable(w io.Writer, families []familyReport) {
	fmt.Fprintln(w, "| family | scripts | runs | worst wall time | worst heap growth | worst allocation in all |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	var all familyReport
	join := func(to *worst, from worst) {
		runs := to.runs + from.runs
		for _, r := range []corpusRun{from.wall, from.peak, from.total} {
			to.add(r)
		}
		to.runs = runs
	}
	for _, f := range families {
		fmt.Fprintf(w, "| %s | %d | %s |\n", f.name, f.scripts, f.worst.columns())
		all.scripts += f.scripts
		join(&all.worst, f.worst)
		join(&all.worstMost, f.worstMost)
		for _, name := range f.processOnly {
			all.processOnly = append(all.processOnly, f.name+"/"+name)
		}
	}
	fmt.Fprintf(w, "| **all** | %d | %s |\n", all.scripts, all.worst.columns())
	fmt.Fprintf(w, "| of these, with the highest limits | %d | %s |\n", all.worstMost.runs, all.worstMost.columns())
	if len(all.processOnly) > 0 {
		fmt.Fprintf(w, "\nFor a process of its own alone: %s.\n", strings.Join(all.processOnly, ", "))
	}
}
