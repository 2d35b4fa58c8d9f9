package dev

import (
	"io"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
)

// DialWith has dev dial its registry with the options.
func DialWith(options ...registryclient.Option) func(*Config) {
	return func(cfg *Config) { cfg.dial = options }
}

// Within gives dev so long to start, and to end.
func Within(d time.Duration) func(*Config) {
	return func(cfg *Config) { cfg.startTime, cfg.stopTime = d, d }
}

// WaitsFor says what a start of so many agents waits for after the change.
func WaitsFor(agents int, change registryclient.StatusChange) string {
	o := newOverview()
	o.take(change)
	return o.waitsFor(agents)
}

// Progress says what is waited for.
type Progress struct{ *progress }

// StartProgress starts to say so.
func StartProgress(out io.Writer) Progress { return Progress{startProgress(out)} }

// WaitFor says what it is from now on.
func (p Progress) WaitFor(what string) { p.waitFor("%s", what) }

// Stop ends it.
func (p Progress) Stop() { p.stop() }

// Journal is what a folder remembers.
type Journal struct{ *journal }

// OpenJournal opens the journal at path.
func OpenJournal(path string) (Journal, error) {
	j, err := openJournal(path)
	return Journal{j}, err
}

// Remember records that a file with the fingerprint was applied; without a file, that the
// script was removed.
func (j Journal) Remember(name, file, fingerprint string) error {
	return j.remember(name, applied{File: file, Fingerprint: fingerprint})
}

// Remembered returns the fingerprints by the scripts' names.
func (j Journal) Remembered() map[string]string {
	all := map[string]string{}
	for name, a := range j.applied {
		all[name] = a.Fingerprint
	}
	return all
}

// Close closes the file.
func (j Journal) Close() error { return j.close() }
