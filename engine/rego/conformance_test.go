package rego_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/rego"
	"github.com/scriptorium-dev/scriptorium/script"
)

// targeted is an engine whose sources have the target.
type targeted struct {
	*rego.Engine
	target string
}

func (e targeted) with(src engine.Source) engine.Source {
	src.Runtime = script.Runtime{Rego: script.RegoOptions{Target: e.target}}
	return src
}

func (e targeted) Check(src engine.Source) error { return e.Engine.Check(e.with(src)) }

func (e targeted) Compile(src engine.Source) (engine.Program, error) {
	return e.Engine.Compile(e.with(src))
}

// endless takes longer than any limit.
const endless = "count([1 | some a in numbers.range(1, 30000); some b in numbers.range(1, 30000); a == b + 100000])"

func TestConformance(t *testing.T) {
	for _, target := range []string{"interpreted", "wasm"} {
		t.Run(target, func(t *testing.T) {
			enginetest.Run(t, func() engine.Engine { return targeted{newEngine(t), target} }, enginetest.Dialect{
				Name: "rego", OneArgument: true, Declarative: true, EchoInstructions: 20_000,

				Echo:       "package p\n\nallow := input\n",
				Constant:   "package p\n\nallow := 42\n",
				Count:      "package p\n\nallow := 1\n", // nothing stays of a call
				Config:     "package p\n\nallow := data.config\n",
				ConfigKeep: "package p\n\nallow := object.get(data.config, \"kept\", null)\n",

				Fail:     "package p\n\nallow := boom\n\nboom := x if some x in [1, 2]\n",
				FailLine: 5,

				Spin: "package p\n\nallow := " + endless + "\n",

				Repeat:      "package p\n\nallow := substring(\"" + strings.Repeat("x", 1100) + "\", 0, input)\n",
				Unencodable: "package p\n\nallow if input.nothing\n",

				Log:   "package p\n\nallow if print(input)\n",
				Value: "package p\n\ndefault allow := null\n\nallow := data.values[input]\n",

				Broken:       "package p\n\nallow := := 1\n",
				BrokenLine:   3,
				NoEntrypoint: "package p\n\nother := 1\n",
			})
		})
	}
}
