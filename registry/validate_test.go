package registry_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestBadInput: each fault is Invalid, names its field, and stores nothing.
func TestBadInput(t *testing.T) {
	b := newBench(t)
	set := func(s script.Settings) func(*registry.PublishRequest) { return settings(s) }
	for _, test := range []struct {
		name  string
		field string
		says  string
		with  func(*registry.PublishRequest)
	}{
		{"no tenant", "tenant", "empty", func(r *registry.PublishRequest) { r.Name.Tenant = "" }},
		{"bad tenant", "tenant", "DNS label", func(r *registry.PublishRequest) { r.Name.Tenant = "a/b" }},
		{"bad name", "name", "DNS label", func(r *registry.PublishRequest) { r.Name.Script = "../x" }},
		{"no source", "source", "empty", func(r *registry.PublishRequest) { r.Source = nil }},
		{"NUL", "source", "NUL", func(r *registry.PublishRequest) { r.Source = []byte("a\n\x00") }},
		{"not UTF-8", "source", "UTF-8", func(r *registry.PublishRequest) { r.Source = []byte("é\n\xff") }},
		{"over the limit", "source", "raise limits.sourceBytes, at most 1 MiB", func(r *registry.PublishRequest) { r.Source = make65KiB() }},
		{"over 1 MiB", "source", "1 MiB", func(r *registry.PublishRequest) {
			r.Source = []byte(strings.Repeat("x", 1<<20+1))
			r.Settings = &script.Settings{Spec: script.Spec{Limits: script.MaxLimits()}}
		}},
		{"engine", "engine", "lua, other", func(r *registry.PublishRequest) { r.Engine = "wasm" }},
		{"entrypoint", "entrypoint", "is not the name of a function", func(r *registry.PublishRequest) { r.Entrypoint = "1st" }},
		{"entrypoint with code", "entrypoint", "is not the name of a function", func(r *registry.PublishRequest) { r.Entrypoint = "f();g" }},
		{"long entrypoint", "entrypoint", "64", func(r *registry.PublishRequest) { r.Entrypoint = strings.Repeat("f", 65) }},
		{"no author", "author", "who", func(r *registry.PublishRequest) { r.Author = "" }},
		{"long author", "author", "128", func(r *registry.PublishRequest) { r.Author = strings.Repeat("a", 129) }},
		{"author with escapes", "author", "control", func(r *registry.PublishRequest) { r.Author = "\x1b[2J" }},
		{"author not UTF-8", "author", "UTF-8", func(r *registry.PublishRequest) { r.Author = "\xff" }},
		{"long note", "note", "512", func(r *registry.PublishRequest) { r.Note = strings.Repeat("a", 513) }},
		{"negative revision", "expected_revision", "negative", func(r *registry.PublishRequest) { r.ExpectedRevision = -2 }},
		{"limit", "settings.limits.timeout", "maximum", set(script.Settings{Spec: script.Spec{Limits: script.Limits{Timeout: time.Hour}}})},
		{"negative limit", "settings.limits.stringBytes", "maximum", set(script.Settings{Spec: script.Spec{Limits: script.Limits{StringBytes: -1}}})},
		{"trigger", "settings.trigger.event", "DNS label", set(script.Settings{Spec: script.Spec{Trigger: script.Trigger{Event: "A b"}}})},
		{"a priority without an event", "settings.trigger.event", "must not be empty", set(script.Settings{Spec: script.Spec{Trigger: script.Trigger{Priority: 1}}})},
		{"a path that is not clean", "settings.trigger.match.pathPrefixes[0]", `write "/b"`, set(script.Settings{Spec: script.Spec{
			Trigger: script.Trigger{Event: "e", Match: script.Match{PathPrefixes: []string{"/a/../b"}}},
		}})},
		{"status with open", "settings.onError.status", "policy closed", set(script.Settings{Spec: script.Spec{OnError: script.OnError{Policy: script.PolicyOpen, Status: 503}}})},
		{"a policy of a later edition", "settings.onError.policy", "want closed or open", set(script.Settings{Spec: script.Spec{OnError: script.OnError{Policy: "ajar"}}})},
		{"a sample above 1", "settings.log.decisions.sample", "between 0 and 1", set(script.Settings{Spec: script.Spec{Decisions: &script.Decisions{Sample: 1.5}}})},
		{"a mask as of a record", "settings.log.decisions.mask[1]", `write "body"`, set(script.Settings{Spec: script.Spec{Decisions: &script.Decisions{Mask: []string{"a", "input.body"}}}})},
		{"config is an array", "settings.config", "object", set(script.Settings{Spec: script.Spec{Config: []byte("[1]")}})},
		{"config is null", "settings.config", "object", set(script.Settings{Spec: script.Spec{Config: []byte(" null")}})},
		{"config is not JSON", "settings.config", "JSON", set(script.Settings{Spec: script.Spec{Config: []byte(`{"a":1}}`)}})},
		{"config is blank", "settings.config", "JSON", set(script.Settings{Spec: script.Spec{Config: []byte(` `)}})},
		{"config not UTF-8", "settings.config", "UTF-8", set(script.Settings{Spec: script.Spec{Config: []byte("{\"a\":\"\xff\"}")}})},
		{"large config", "settings.config", "64 KiB", set(script.Settings{Spec: script.Spec{Config: make65KiB()}})},
		{"history limit", "settings.historyLimit", "50", set(script.Settings{HistoryLimit: 51})},
		{"negative history limit", "settings.historyLimit", "50", set(script.Settings{HistoryLimit: -1})},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := b.tryPublish("fine", test.with)
			wantKind(t, err, script.Invalid, test.field)
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
		})
	}
	if b.head() != 0 {
		t.Error("something was stored")
	}
}

func make65KiB() []byte { return []byte(strings.Repeat("x", 65<<10)) }

func TestWhereASourceIsNotText(t *testing.T) {
	b := newBench(t)
	for source, want := range map[string][2]int{"\x00": {1, 1}, "a\nbc\x00": {2, 3}, "é\xff": {1, 3}, "\n\n\xc3": {3, 1}} {
		_, err := b.tryPublish(source)
		e, _ := errors.AsType[*script.Error](err)
		if e == nil || e.Line != want[0] || e.Column != want[1] {
			t.Errorf("%q: %v, want line %d, column %d", source, err, want[0], want[1])
		}
	}
}

// TestAtTheBounds: what is just allowed is accepted.
func TestAtTheBounds(t *testing.T) {
	b := newBench(t)
	limits := script.MaxLimits()
	b.publish(strings.Repeat("x", 1<<20), func(r *registry.PublishRequest) {
		r.Settings = &script.Settings{Spec: script.Spec{Limits: limits}, HistoryLimit: script.MaxHistoryLimit}
		r.Author, r.Note = strings.Repeat("a", registry.MaxAuthorBytes), strings.Repeat("n\n", registry.MaxNoteBytes/2)
		r.Entrypoint = strings.Repeat("f", script.MaxEntrypointBytes)
	})
	b.publish(strings.Repeat("x", 65<<10)) // the limit that the release has counts
	_, err := b.tryPublish(strings.Repeat("y", 65<<10), settings(script.Settings{}))
	wantKind(t, err, script.Invalid, "source") // and so does one that comes with the source
}

// FuzzConfig: whatever a config is, it is refused or stored in one form.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, ` {"a" : [1, 2.50, null]} `, `[]`, `null`, `{"a":"\u0000"}`, "{\"a\":\"\xff\"}", `{"a":1}{}`, `{`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		b := newBench(t)
		result, err := b.tryPublish("x", settings(script.Settings{Spec: script.Spec{Config: config}}))
		if err != nil {
			wantKind(t, err, script.Invalid, "settings.config")
			return
		}
		stored := result.Release.Settings
		if again := b.publish("x", settings(stored)); again.Changed {
			t.Errorf("%q was stored as %q, which is not the same to itself", config, stored.Config)
		}
	})
}
