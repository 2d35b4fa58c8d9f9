package manifest_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestTrigger(t *testing.T) {
	for text, want := range map[string]script.Trigger{
		"":                                    {},
		"{event: pre-route}":                  {Event: "pre-route"},
		"{event: e, priority: -5, match: {}}": {Event: "e", Priority: -5},
		"{event: e, priority: 0, match: {hosts: [a, '*.a'], pathPrefixes: [/b], methods: [GET], headers: {x-c: '1', x-d: '*'}}}": {Event: "e", Match: script.Match{
			Hosts: []string{"a", "*.a"}, PathPrefixes: []string{"/b"}, Methods: []string{"GET"}, Headers: map[string]string{"x-c": "1", "x-d": script.AnyValue},
		}},
	} {
		m, err := manifest.Parse("m.yaml", []byte(spec("  source: return 1\n  trigger: "+text+"\n")), "")
		if err != nil || !m[0].Settings.Trigger.Equal(want) {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
	for text, want := range map[string]string{
		"{priority: 1}":                             "m.yaml:7:12: spec.trigger.event: is missing",
		"{event: e, priority: high}":                `m.yaml:7:33: spec.trigger.priority: is the text "high", want a number from -1000000 to 1000000`,
		"{event: e, priority: 1.5}":                 "m.yaml:7:33: spec.trigger.priority: is the number 1.5, want a number",
		"{event: e, priority: 1000001}":             "m.yaml:7:33: spec.trigger.priority: 1000001 is not between -1000000 and 1000000",
		"{event: e, match: {hosts: a}}":             `m.yaml:7:38: spec.trigger.match.hosts: is the text "a", want a list`,
		"{event: e, match: {hosts: []}}":            "m.yaml:7:38: spec.trigger.match.hosts: has no entries",
		"{event: e, match: {hosts: [a, B]}}":        `m.yaml:7:42: spec.trigger.match.hosts[1]: "B" is no host`,
		"{event: e, match: {pathPrefixes: [/a/]}}":  `m.yaml:7:46: spec.trigger.match.pathPrefixes[0]: "/a/" ends with /: prefixes match whole segments, so write "/a"`,
		"{event: e, match: {methods: [GET, get]}}":  `m.yaml:7:46: spec.trigger.match.methods[1]: "get" is no method`,
		"{event: e, match: {methods: [1]}}":         "m.yaml:7:41: spec.trigger.match.methods[0]: is the number 1, want text",
		"{event: e, match: {headers: {}}}":          "m.yaml:7:40: spec.trigger.match.headers: has no entries",
		"{event: e, match: {headers: {x-a: 1}}}":    "m.yaml:7:46: spec.trigger.match.headers.x-a: is the number 1, want text",
		"{event: e, match: {headers: {x-a: \"\"}}}": "m.yaml:7:46: spec.trigger.match.headers.x-a: is empty",
		"{event: e, match: {headers: {X-A: '1'}}}":  `m.yaml:7:40: spec.trigger.match.headers: "X-A" is no name of a header`,
		"{event: e, match: {path: /a}}":             "m.yaml:7:31: spec.trigger.match.path: is not a field",
	} {
		if _, err := manifest.Parse("m.yaml", []byte(spec("  source: return 1\n  trigger: "+text+"\n")), ""); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
