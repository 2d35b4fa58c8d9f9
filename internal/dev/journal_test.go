package dev_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/dev"
)

func openJournal(t *testing.T, path string) dev.Journal {
	t.Helper()
	j, err := dev.OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func remember(t *testing.T, j dev.Journal, name, file, fingerprint string) {
	t.Helper()
	if err := j.Remember(name, file, fingerprint); err != nil {
		t.Fatal(err)
	}
}

func wantRemembered(t *testing.T, j dev.Journal, want map[string]string) {
	t.Helper()
	if got := j.Remembered(); !maps.Equal(got, want) {
		t.Errorf("it remembers %v, want %v", got, want)
	}
}

// TestJournalCostsTheSame: what a publish writes does not grow with the number of manifests.
func TestJournalCostsTheSame(t *testing.T) {
	cost := map[int]int64{}
	for _, scripts := range []int{100, 10_000} {
		path := filepath.Join(t.TempDir(), "applied.json")
		j := openJournal(t, path)
		for i := range scripts {
			remember(t, j, fmt.Sprintf("acme/s%05d", i), "/f", "one")
		}
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			remember(t, j, fmt.Sprintf("acme/s%05d", i), "/f", "two")
		}
		after, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if !os.SameFile(before, after) {
			t.Errorf("of %d scripts the journal was written anew", scripts)
		}
		cost[scripts] = after.Size() - before.Size()
	}
	if cost[100] != cost[10_000] || cost[100] == 0 {
		t.Errorf("50 publishes write %d bytes beside 100 scripts, and %d beside 10,000", cost[100], cost[10_000])
	}
}

// TestJournalDoesNotGrow: it is written anew now and then, which costs each change little.
func TestJournalDoesNotGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "applied.json")
	j := openJournal(t, path)
	var largest int64
	for i := range 10_000 {
		remember(t, j, "acme/one", "/f", fmt.Sprint(i))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	if line := int64(len(`{"acme/one":{"file":"/f","fingerprint":"9999"}}`) + 1); largest > 1100*line {
		t.Errorf("of one script the journal is %d bytes long", largest)
	}
	wantRemembered(t, openJournal(t, path), map[string]string{"acme/one": "9999"})
}

// TestJournalSurvivesACrash: wherever it ends in the middle of a line, the lines before
// hold, and what comes after is remembered.
func TestJournalSurvivesACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "applied.json")
	j := openJournal(t, path)
	remember(t, j, "acme/one", "/f", "1")
	remember(t, j, "acme/two", "/f", "2")
	remember(t, j, "acme/one", "", "")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for end := last; end <= len(whole); end++ {
		if err := os.WriteFile(path, whole[:end], 0o600); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"acme/one": "1", "acme/two": "2"}
		if end >= len(whole)-1 { // all but the line's end
			delete(want, "acme/one")
		}
		j := openJournal(t, path)
		wantRemembered(t, j, want)
		remember(t, j, "acme/three", "/f", "3")
		want["acme/three"] = "3"
		wantRemembered(t, openJournal(t, path), want)
	}
}

// TestJournalOfBefore: what earlier software has written is read.
func TestJournalOfBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "applied.json")
	if err := os.WriteFile(path, []byte("{\n  \"acme/one\": {\n    \"file\": \"/f\",\n    \"fingerprint\": \"1\"\n  }\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, path)
	remember(t, j, "acme/two", "/f", "2")
	wantRemembered(t, openJournal(t, path), map[string]string{"acme/one": "1", "acme/two": "2"})
}

func TestJournalThatIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "applied.json")
	if err := os.WriteFile(path, []byte("[]\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dev.OpenJournal(path); err == nil {
		t.Error("it was read")
	}
}
