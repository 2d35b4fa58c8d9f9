package manifest_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestOnError(t *testing.T) {
	for text, want := range map[string]script.OnError{
		"":                                  {},
		"{}":                                {},
		"{policy: closed}":                  {},
		"{policy: open}":                    {Policy: script.PolicyOpen},
		"{status: 429, body: \"later\\n\"}": {Status: 429, Body: "later\n"},
		"{policy: closed, status: 503}":     {Status: 503},
	} {
		m, err := manifest.Parse("m.yaml", []byte(spec("  source: return 1\n  onError: "+text+"\n")), "")
		if err != nil || m[0].Settings.OnError != want {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
	for text, want := range map[string]string{
		"open":                        `m.yaml:7:12: spec.onError: is the text "open", want fields: policy, status, body`,
		"{policy: ajar}":              `m.yaml:7:21: spec.onError.policy: is "ajar", want closed or open`,
		"{policy: true}":              "m.yaml:7:21: spec.onError.policy: is the boolean true, want text",
		"{policy: open, status: 503}": "m.yaml:7:35: spec.onError.status: only goes with the policy closed: remove it",
		"{policy: open, body: x}":     "m.yaml:7:33: spec.onError.body: only goes with the policy closed: remove it",
		"{status: 200}":               "m.yaml:7:21: spec.onError.status: 200 is not between 300 and 599",
		"{status: 0}":                 "m.yaml:7:21: spec.onError.status: is the number 0, want a status from 300 to 599",
		"{status: '503'}":             `m.yaml:7:21: spec.onError.status: is the text "503", want a status from 300 to 599`,
		"{status: 304, body: x}":      "m.yaml:7:32: spec.onError.body: goes with no status 304",
		"{stauts: 503}":               "m.yaml:7:13: spec.onError.stauts: is not a field; the fields here are policy, status, body",
		"{body: " + strings.Repeat("x", 4097) + "}": "m.yaml:7:19: spec.onError.body: has 4097 bytes, at most 4096 (4 KiB) are allowed",
	} {
		if _, err := manifest.Parse("m.yaml", []byte(spec("  source: return 1\n  onError: "+text+"\n")), ""); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
}
