package scriptctl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/scripttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// writeGoldens writes the golden files that changed.
func (a *app) writeGoldens(results []*scripttest.Result) error {
	for _, r := range results {
		path := r.Case.Golden
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as a person's own mkdir
			return cannotWrite(path, err)
		}
		err := writeWhole(path, func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(r.Golden))
			return err
		})
		if err != nil {
			return err
		}
		a.notice("%s: written", plain(path))
	}
	return nil
}

// lookEvery is how often watch looks for changes.
const lookEvery = 200 * time.Millisecond

// watch does it again whenever a file that the tests read changes, until ctx is done.
func (a *app) watch(ctx context.Context, paths []string, do func() error) error {
	for _, path := range paths { // a mistyped name: later, somebody may be writing the file
		if _, err := os.Stat(path); err != nil {
			return usage(script.Errorf(script.Invalid, path, "cannot be watched: %v", err))
		}
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var files []string
	for {
		files = a.testedFiles(paths, files)
		before := snapshot(paths, files)
		err := do()
		if ctx.Err() != nil {
			return nil
		}
		a.exit(err, nil)
		a.notice("waiting for changes; Ctrl-C ends")
		for snapshot(paths, files) == before {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}
}

// testedFiles returns the files that the tests read. Those of before stay if they cannot be loaded now: somebody is
// writing one of them.
func (a *app) testedFiles(paths, before []string) (files []string) {
	suites, err := a.loadSuites(engines.Offline(), paths) // test prints the error
	if err != nil {
		files = before
	}
	for i := range suites {
		m := suites[i].Script
		files = append(append(files, m.File, m.SourceFile), suites[i].OwnFiles()...)
		for j := range suites[i].Cases {
			files = append(files, suites[i].Cases[j].File, suites[i].Cases[j].Golden)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// snapshot returns a text that changes with the files, and with what is in the paths.
func snapshot(paths, files []string) string {
	var b strings.Builder
	look := func(path string) {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
	}
	for _, path := range paths {
		look(path)
		entries, _ := os.ReadDir(path) // a file has none
		for _, e := range entries {
			look(filepath.Join(path, e.Name()))
		}
	}
	for _, path := range files {
		look(path)
	}
	return b.String()
}
