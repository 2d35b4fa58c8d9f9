package decisionlog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestRemovedSpool: after another program removed the spool under a running agent, sinks get the records of
// later calls, and a metric counts the lost ones.
func TestRemovedSpool(t *testing.T) {
	w := start(t, 2, nil)
	w.tenants["acme"] = script.TenantSettings{Audit: script.AuditStrict}
	send := func(input string) {
		t.Helper()
		e := call("acme", input)
		e.Settings = new(w.tenants["acme"])
		if err := w.Ended(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, sink := range w.sinks {
		sink.fail(errors.New("away"))
	}
	for range 8 { // four fill a file; sinks have only the first file open
		send(`"` + strings.Repeat("x", 40<<10) + `"`)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, "spool")); err != nil {
		t.Fatal(err)
	}
	send(`"late"`)
	for _, sink := range w.sinks {
		sink.fail(nil)
	}
	for _, sink := range w.sinks {
		eventually(t, func() bool {
			lines := sink.all()
			return len(lines) > 0 && string(parse(t, lines[len(lines)-1]).Input) == `"late"`
		})
	}
	if lost := w.counter(t, "scriptorium_decision_log_dropped_total"); lost != 8 {
		t.Errorf("%v records are lost, want 4 for each sink", lost)
	}
}
