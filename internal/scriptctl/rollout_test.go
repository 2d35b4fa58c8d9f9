package scriptctl_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// TestWhatACandidateWaitsFor: the first agents by their names, and what holds up the first.
func TestWhatACandidateWaitsFor(t *testing.T) {
	for name, tt := range map[string]struct {
		trials     *registryv1.Trials
		line, json string // the end of the output, and what is in that of JSON
	}{
		"nothing":   {&registryv1.Trials{Passed: 3}, "since:       -\n", `"waiting": 0`},
		"one":       {&registryv1.Trials{Waiting: 1, WaitingFor: []string{"n1"}}, "waits for:   n1\n", `"n1"`},
		"one, why":  {&registryv1.Trials{Waiting: 1, WaitingFor: []string{"n1"}, WaitingWhy: "disk: it is full"}, "waits for:   n1 (disk: it is full)\n", `"waitingWhy": "disk: it is full"`},
		"many, why": {&registryv1.Trials{Waiting: 5, WaitingFor: []string{"n1", "n2"}, WaitingWhy: "busy\x1b\n"}, "waits for:   n1 (busy  ), n2 and 3 more\n", `"waiting": 5`},
		"many":      {&registryv1.Trials{Waiting: 5, WaitingFor: []string{"n1", "n2"}}, "waits for:   n1, n2 and 3 more\n", `"n2"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serveRollout(t, &rollout{status: &registryv1.ScriptStatus{Release: wire.FromRelease(tried(6, "")), Desired: 7, Trials: tt.trials}})
			run := func(flags ...string) string {
				var buf bytes.Buffer
				args := append([]string{"rollout", "status", "acme/route", "--registry", address}, flags...)
				if code := scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: &buf, Err: &buf}, args); code != 0 {
					t.Errorf("exit code %d: %s", code, &buf)
				}
				return buf.String()
			}
			if out := run(); !strings.HasSuffix(out, tt.line) {
				t.Errorf("got %q, want %q at its end", out, tt.line)
			}
			if out := run("-o", "json"); !strings.Contains(out, tt.json) || strings.Contains(out, "waitingWhy") != (tt.trials.GetWaitingWhy() != "") {
				t.Errorf("got %s, want %s in it", out, tt.json)
			}
		})
	}
}
