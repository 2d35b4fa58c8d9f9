package corpus_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/scriptorium-dev/scriptorium/engine/enginetest/corpus"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestRead(t *testing.T) {
	scripts, err := corpus.Read(fstest.MapFS{
		"tables/grow.lua": {Data: []byte("-- It grows.\n-- want: limit timeout\n-- alloc: 64MiB as it may\n-- only: process live heap\n-- limits: most\nlocal t = {}\n-- want: fine\n")},
		"loops/spin.lua":  {Data: []byte("-- want: fine\n-- row: a row\n-- coroutines: on\n-- as: program\nfunction handle() end\n")},
	})
	if err != nil || len(scripts) != 2 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	spin, grow := scripts[0], scripts[1]
	if spin.String() != "loops/spin" || !spin.Allows(corpus.Fine) || spin.Allows(script.Limit) || spin.Row != "a row" ||
		!spin.Coroutines || !spin.Program || spin.Alloc != corpus.DefaultAlloc || len(spin.Variants()) != 1 {
		t.Errorf("%+v", spin)
	}
	if grow.String() != "tables/grow" || !slices.Equal(grow.Want, []script.Kind{script.Limit, script.Timeout}) ||
		grow.Alloc != 64<<20 || !grow.ProcessOnly || !grow.MostLimits || len(grow.Variants()) != 1 || grow.Coroutines {
		t.Errorf("%+v", grow)
	}
	for _, v := range grow.Variants() {
		if !strings.Contains(v.Source, "local t = {}") {
			t.Errorf("%s is without the body", v.Name)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, text := range []string{"", "local x\n-- want: fine\n", "-- want: trouble\n", "-- want: fine\n-- alloc: 12\n"} {
		if _, err := corpus.Read(fstest.MapFS{"loops/x.lua": {Data: []byte(text)}}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// TestCorpus holds what the corpus must cover.
func TestCorpus(t *testing.T) {
	scripts, err := corpus.Read(os.DirFS("../../lua/testdata/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	const least = 150
	if len(scripts) < least {
		t.Errorf("%d scripts, want at least %d", len(scripts), least)
	}
	families, rows := map[string]bool{}, map[string]bool{}
	for _, s := range scripts {
		families[s.Family], rows[s.Row] = true, true
	}
	for _, family := range corpus.Families {
		if !families[family] {
			t.Errorf("no script of the family %s", family)
		}
	}
	for _, row := range []string{
		"builtins never look at the context", "string growth", "one instruction, gigabytes",
		"coroutines escape the meter, or overflow the Go stack",
		"Go stack overflow in parser, patterns, replacement strings", "tail calls bloat tracebacks",
		"escapes", "shared mutable state", "hostile results", "L.SetMx",
	} {
		if !rows[row] {
			t.Errorf("no script for %q", row)
		}
	}
}
