package rego_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/rego"
	"github.com/scriptorium-dev/scriptorium/script"
)

func newEngine(tb testing.TB) *rego.Engine {
	tb.Helper()
	e, err := rego.New(rego.Config{Isolated: true})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func source(text, target string) engine.Source {
	return engine.Source{Code: []byte(text), Runtime: script.Runtime{Rego: script.RegoOptions{Target: target}}}
}

// run compiles the source and calls it.
func run(t *testing.T, src engine.Source, inv *engine.Invocation) (string, error) {
	t.Helper()
	p, err := newEngine(t).Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var res engine.Result
	if err := p.Run(t.Context(), inv, &res); err != nil {
		return "", err
	}
	return string(res.Value(0)), nil
}

func TestRun(t *testing.T) {
	for _, target := range []string{"wasm", "interpreted"} {
		for _, test := range []struct{ body, input, want string }{
			{`decision := input`, `{"b":[1,"x",null,true],"a":{}}`, `{"a":{},"b":[1,"x",null,true]}`},
			{"default allow := false\nallow if input.user == \"ann\"", `{"user":"ann"}`, `true`},
			{`decision := sprintf("%s-%d", [input.a, 3])`, `{"a":"x"}`, `"x-3"`},
			{`decision := {x | some x in input.list}`, `{"list":[3,1,2,1]}`, `[1,2,3]`},
			{`decision := crypto.sha256(input)`, `"x"`, `"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"`},
			{`decision := object.get(data.config, "limit", 7)`, `{}`, `7`},
			{`decision := strings.count(input, "a")`, `"banana"`, `3`},
			{`decision := object.subset({1, 2, 3}, {1})`, `0`, `true`},
		} {
			got, err := run(t, source("package acme.route\n\n"+test.body+"\n", target), &engine.Invocation{Args: [][]byte{[]byte(test.input)}})
			if err != nil || got != test.want {
				t.Errorf("%s: %s: got %s, %v, want %s", target, test.body, got, err, test.want)
			}
		}
	}
}
