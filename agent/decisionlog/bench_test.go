package decisionlog_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/filesink"
)

// BenchmarkToAFile records each call, as BenchmarkEnded does, to a file that is rotated.
func BenchmarkToAFile(b *testing.B) {
	w := start(b, 0, func(c *decisionlog.Config) {
		file, err := filesink.New(filesink.Config{Path: filepath.Join(b.TempDir(), "decisions.jsonl"), MaxBytes: 100 << 20, Keep: 1, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		c.Outputs = []decisionlog.Output{{Name: "file", ID: "file", Sink: file}}
	})
	e := returns(b, call("acme", benchmarkInput), `{"decision":"allow"}`)
	e.Decisions = all
	b.ReportAllocs()
	for b.Loop() {
		_ = w.Ended(b.Context(), e)
	}
}
