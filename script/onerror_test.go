package script_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestDocuments: their bytes are hashed, so those of versions from before a field stay what they were.
func TestDocuments(t *testing.T) {
	before := script.Spec{
		Trigger: script.Trigger{Event: "http-request"}, Limits: script.Limits{Instructions: 5}, Config: []byte(`{"a":"<"}`),
		Tests: []script.Test{{Name: "one", Error: script.Script}},
	}
	with := before
	with.OnError = script.OnError{Status: 429, Body: "<b>\n"}
	ordered := before
	ordered.Trigger.Priority, ordered.Trigger.Match = -5, script.Match{Hosts: []string{"a"}, Headers: map[string]string{"y": "1", "x": "*"}}
	recorded := before
	recorded.Decisions = &script.Decisions{Sample: 0.01, Errors: true, Mask: []string{"headers.authorization"}, Fields: []string{"input"}}
	silent := before
	silent.Decisions = &script.Decisions{}
	const old = `{"trigger":"http-request","limits":{"instructions":5},"config":{"a":"<"},"tests":[{"name":"one","error":"SCRIPT"}]`
	for _, tt := range []struct {
		spec script.Spec
		want string
	}{
		{script.Spec{}, `{}`},
		{before, old + `}`},
		{with, old + `,"onError":{"status":429,"body":"<b>\n"}}`},
		{ordered, old + `,"priority":-5,"match":{"hosts":["a"],"headers":{"x":"*","y":"1"}}}`},
		{recorded, old + `,"decisions":{"sample":0.01,"errors":true,"mask":["headers.authorization"],"fields":["input"]}}`},
		{silent, old + `,"decisions":{}}`},
		{script.Spec{OnError: script.OnError{Policy: script.PolicyOpen}}, `{"onError":{"policy":"open"}}`},
	} {
		document := tt.spec.Document()
		if string(document) != tt.want {
			t.Errorf("%s, want %s", document, tt.want)
		}
		if read, err := script.ParseSpec(document); err != nil || !read.Equal(tt.spec) {
			t.Errorf("%s reads back as %+v, %v", document, read, err)
		}
	}
	if with.Equal(before) || (script.Version{}).With(with).SameVersion((script.Version{}).With(before)) {
		t.Error("versions that differ in onError alone are the same")
	}
}

func TestOnError(t *testing.T) {
	for _, tt := range []struct {
		e     script.OnError
		field string // that is wrong; "" for none
	}{
		{script.OnError{}, ""},
		{script.OnError{Policy: script.PolicyOpen}, ""},
		{script.OnError{Policy: script.PolicyOf("closed"), Status: 300, Body: strings.Repeat("x", script.MaxOnErrorBodyBytes)}, ""},
		{script.OnError{Status: 599}, ""},
		{script.OnError{Status: 304}, ""},
		{script.OnError{Policy: "ajar"}, "policy"},
		{script.OnError{Policy: script.PolicyOpen, Status: 503}, "status"},
		{script.OnError{Policy: script.PolicyOpen, Body: "x"}, "body"},
		{script.OnError{Status: 299}, "status"},
		{script.OnError{Status: 600}, "status"},
		{script.OnError{Status: -1}, "status"},
		{script.OnError{Status: 304, Body: "x"}, "body"},
		{script.OnError{Body: strings.Repeat("x", script.MaxOnErrorBodyBytes+1)}, "body"},
		{script.OnError{Body: "\xff"}, "body"},
	} {
		err := tt.e.Validate("spec.onError")
		if tt.field == "" && err != nil || tt.field != "" && (script.KindOf(err) != script.Invalid || script.AsError(err).Field != "spec.onError."+tt.field) {
			t.Errorf("%.80v: %v, want a fault of %q", tt.e, err, tt.field)
		}
	}
	if (script.OnError{Policy: "ajar"}).Opens() {
		t.Error("a policy of a later edition lets requests through")
	}
}
