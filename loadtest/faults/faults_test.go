package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// TestShort is the short setting: real processes, a few schedules.
func TestShort(t *testing.T) {
	needs.Time(t, "needs a minute or two for a cluster")
	needs.Program(t, "etcd")
	needs.Program(t, "nats-server")
	t.Setenv("TMPDIR", shortTemp(t))
	seed := uint64(time.Now().Unix())
	t.Logf("seed %d", seed)
	cfg := config{seed: seed, rebuild: 50, bound: 30 * time.Second, progress: t.Output()}
	cfg.shorten()
	report, err := run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if report.Totals.Schedules != cfg.schedules || report.Totals.Acked == 0 || report.Totals.Calls == 0 || report.Totals.Claims == 0 {
		t.Errorf("nothing was tested: %+v", report.Totals)
	}
	if report.Totals.Violations > 0 {
		t.Errorf("%d promises were broken", report.Totals.Violations)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if report.Totals.Violations == 0 && strings.HasPrefix(entry.Name(), "faults-") {
			t.Errorf("%s is left behind", filepath.Join(os.Getenv("TMPDIR"), entry.Name()))
		}
	}
}

// shortTemp returns a folder whose path leaves room for a socket's, which has a
// hundred bytes at most.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	return dir
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"--nonsense"}, {"argument"}, {"--output", "xml"}, {"--agents", "0"}, {"--schedules", "0"}, {"--registries", "-1"}} {
		cmd := newCommand()
		cmd.SetArgs(args)
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

func TestReportIsJSON(t *testing.T) {
	r := newReport(config{seed: 7, agents: 5, registries: 2}, "test")
	for i := range 10 {
		r.add(result{Seed: uint64(i), Actions: map[string]int{"kill": 2}, Acked: 3, Converged: float64(i + 1), Told: 0.5})
	}
	var out bytes.Buffer
	if err := r.printJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Totals.Acked != 30 || got.Totals.Actions["kill"] != 20 || got.Totals.Converged.Median != 6 || got.Totals.Converged.Max != 10 {
		t.Errorf("totals: %+v", got.Totals)
	}
	out.Reset()
	r.print(&out)
	if !strings.Contains(out.String(), "violations: 0") {
		t.Errorf("the text is %s", out.String())
	}
}
