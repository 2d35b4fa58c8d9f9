package decisionlog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestStrict: the records are on disk when the call ends, and come to the sinks of a later process.
func TestStrict(t *testing.T) {
	w := start(t, 2, nil)
	strict := func(tenant string, i int) *execute.Ended {
		w.tenants[tenant] = script.TenantSettings{Audit: script.AuditStrict}
		e := call(tenant, fmt.Sprint(i))
		e.Settings = new(w.tenants[tenant])
		return e
	}
	w.sinks[0].fail(errors.New("away"))
	const calls = 50
	for i := range calls {
		if err := w.Ended(t.Context(), strict("acme", i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return len(w.sinks[1].all()) == calls })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = w.Close(ended)
	w.metrics = prometheus.NewRegistry()
	w.open(t, 2, nil)
	eventually(t, func() bool { return len(w.sinks[0].all()) == calls })
	for i, line := range w.sinks[0].all() {
		if r := parse(t, line); string(r.Input) != fmt.Sprint(i) {
			t.Fatalf("record %d is of call %s", i, r.Input)
		}
	}
	if again := w.sinks[1].all(); len(again) > 0 {
		t.Errorf("the other sink got %d records again", len(again))
	}
	// The spool is bounded, also for a tenant alone.
	w.sinks[0].fail(errors.New("away"))
	var err error
	for i := 0; err == nil && i < 100_000; i++ {
		e := strict("acme", i)
		e.Call.Args = [][]byte{[]byte(`"` + strings.Repeat("x", 32<<10) + `"`)}
		err = w.Ended(t.Context(), e)
	}
	if script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "the audit of tenant acme is strict") {
		t.Errorf("without room, the call ends with %v", err)
	}
	if err := w.Ended(t.Context(), strict("shop", 1)); err != nil {
		t.Errorf("another tenant has no room: %v", err)
	}
	w.sinks[0].fail(nil)
	eventually(t, func() bool { return w.Ended(t.Context(), strict("acme", 0)) == nil })
}

// TestStrictWithoutASink: the error names the flag.
func TestStrictWithoutASink(t *testing.T) {
	for name, w := range map[string]*world{
		"no sink":  start(t, 0, nil),
		"no spool": start(t, 1, func(c *decisionlog.Config) { c.SpoolBytes = -1 }),
	} {
		w.tenants["acme"] = script.TenantSettings{Audit: script.AuditStrict}
		e := call("acme", `1`)
		e.Settings = nil
		if err := w.Ended(t.Context(), e); script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "--decision-log") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(w.dir, "spool")); err == nil && name == "no sink" {
			t.Error("there is a folder that nobody needs")
		}
		free := call("shop", `1`)
		if err := w.Ended(t.Context(), free); err != nil {
			t.Errorf("%s: another tenant's call: %v", name, err)
		}
	}
}

// TestSpoolThatCannotBeOpened: the agent does not start, so no call runs unrecorded. The error names the file.
func TestSpoolThatCannotBeOpened(t *testing.T) {
	for name, spoil := range map[string]func(dir string) (string, error){
		"the folder is a file": func(dir string) (string, error) { return dir, os.WriteFile(dir, nil, 0o600) },
		"a file is a link to nothing": func(dir string) (string, error) {
			path := filepath.Join(dir, "00000000000000000001.records")
			return path, errors.Join(os.MkdirAll(dir, 0o700), os.Symlink("nothing", path))
		},
	} {
		dir := filepath.Join(t.TempDir(), "decisions")
		path, err := spoil(dir)
		if err != nil {
			t.Fatal(err)
		}
		r, err := decisionlog.New(decisionlog.Config{
			Outputs: []decisionlog.Output{{Name: "a", ID: "a", Sink: &memory{}}}, Spool: dir, SpoolBytes: 1 << 20, Log: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if r != nil {
			_ = r.Close(t.Context())
		}
	}
}

// TestStrictCallWithoutTimeLeft: a call that has run out of time has its record, and ends with what it ended with.
func TestStrictCallWithoutTimeLeft(t *testing.T) {
	w := start(t, 1, nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		e := fails(call("acme", `1`), script.Errorf(script.Timeout, "", "the call's time ran out"))
		e.Settings.Audit = script.AuditStrict
		if err := w.Ended(over, e); err != nil {
			t.Fatal(err)
		}
	}
	if refused := w.counter(t, "scriptorium_decision_log_refused_calls_total"); refused != 0 {
		t.Errorf("%v calls were refused", refused)
	}
}

// TestRefusedRecordsOfProcesses: a refused record of a process counts like one of the agent.
func TestRefusedRecordsOfProcesses(t *testing.T) {
	w := start(t, 1, func(c *decisionlog.Config) { c.SpoolBytes = 1 })
	e := decisionlog.Handed(&workerv1.Record{}, "acme", true, time.Now())
	defer e.Release()
	if _, err := w.Record(e); err == nil {
		t.Error("there is room")
	}
	if refused := w.counter(t, "scriptorium_decision_log_refused_calls_total"); refused != 1 {
		t.Errorf("%v calls were refused", refused)
	}
}

// flooded is a sink for which there is another record whenever it has written.
type flooded struct {
	memory
	more func()
}

func (f *flooded) Write(ctx context.Context, records [][]byte) error {
	f.more()
	return f.memory.Write(ctx, records)
}

// TestStrictBesideAFlood: a tenant that keeps a sink busy does not keep the records of a strict audit from it.
func TestStrictBesideAFlood(t *testing.T) {
	sink := &flooded{}
	w := start(t, 1, func(c *decisionlog.Config) { c.Outputs[0].Sink = sink })
	send := func(e *execute.Ended) {
		if err := w.Ended(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	loud := call("loud", `1`)
	loud.Decisions = all
	sink.more = func() { send(loud) }
	send(loud)
	eventually(t, func() bool { return len(sink.all()) > 2 })
	strict := call("acme", `"strict"`)
	strict.Settings.Audit = script.AuditStrict
	send(strict)
	eventually(t, func() bool { return strings.Contains(strings.Join(sink.all(), ""), `"strict"`) })
}
