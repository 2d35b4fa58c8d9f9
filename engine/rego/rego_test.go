package rego_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/rego"
)

// run compiles the source and calls it.
func run(t *testing.T, source string, inv *engine.Invocation) (string, error) {
	t.Helper()
	p, err := rego.New(rego.Config{Isolated: true}).Compile(engine.Source{Code: []byte(source)})
	if err != nil {
		t.Fatal(err)
	}
	var res engine.Result
	if err := p.Run(t.Context(), inv, &res); err != nil {
		return "", err
	}
	return string(res.Value(0)), nil
}

func TestRun(t *testing.T) {
	got, err := run(t, "package acme.route\n\ndefault allow := false\n\nallow if input.user == \"ann\"\n", &engine.Invocation{Args: [][]byte{[]byte(`{"user":"ann"}`)}})
	if err != nil || got != "true" {
		t.Errorf("got %s, %v", got, err)
	}
}
