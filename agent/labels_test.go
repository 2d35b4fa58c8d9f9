package agent_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestLabelsAreChecked(t *testing.T) {
	many := func(n int) map[string]string {
		labels := map[string]string{}
		for i := range n {
			labels[fmt.Sprint("label-", i)] = "x"
		}
		return labels
	}
	long := strings.Repeat("n", 1024)
	tests := map[string]struct {
		labels   map[string]string
		software string
		problem  string // "": none
	}{
		"none":           {},
		"as many as can": {labels: many(64), software: long},
		"as long as can": {labels: map[string]string{long: long}},
		"too many":       {labels: many(65), problem: "65"},
		"as much as can": {labels: map[string]string{long: long, long[1:] + "m": long}},
		"too much":       {labels: map[string]string{long: long, long[1:] + "m": long, "zone": "a"}, problem: "4101 bytes"},
		"long value":     {labels: map[string]string{"zone": long + "x", "rack": "1"}, problem: `"zone"`},
		"long name":      {labels: map[string]string{long + "x": "1"}, problem: `"nnnn`},
		"value no UTF-8": {labels: map[string]string{"zone": "\xff"}, problem: `"zone"`},
		"name no UTF-8":  {labels: map[string]string{"zone\xff": "1"}, problem: `"zone\xff"`},
		"long software":  {software: long + "x", problem: "software"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, err := agent.Open(agent.Config{
				Name: "n", Dir: t.TempDir(), Registry: "unix:x", Trusted: seal.TrustEverything(), Log: slog.New(slog.DiscardHandler),
				Labels: tt.labels, Software: tt.software,
			})
			if err == nil {
				defer a.Close()
			}
			if tt.problem == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("got %v, want an INVALID error that names %s", err, tt.problem)
			}
		})
	}
}
