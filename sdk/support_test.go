package sdk_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
	"github.com/scriptorium-dev/scriptorium/script"
)

const tenant = "acme"

// variant is a program and how its instances are made.
type variant struct {
	name    string
	program engine.Program
}

// variants returns an example in a language: with an instance for each call, and with instances that calls share.
func variants(t *testing.T, e *wasm.Engine, language, example string) []variant {
	t.Helper()
	code := sdkbuild.Module(t, language, example)
	return []variant{{"fresh", compile(t, e, code, false)}, {"reuse", compile(t, e, code, true)}}
}

func compile(tb testing.TB, e *wasm.Engine, code []byte, reuse bool) engine.Program {
	tb.Helper()
	src := engine.Source{Code: code}
	src.Runtime.Wasm.Reuse = reuse
	program, err := e.Compile(src)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(program.Close)
	return program
}

func newEngine(tb testing.TB) *wasm.Engine {
	tb.Helper()
	e, err := wasm.New(wasm.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// call returns the result, "" if there is none, and the error of a program.
func call(t *testing.T, p engine.Program, host *enginetest.Host, config, argument string) (string, error) {
	t.Helper()
	inv := &engine.Invocation{Tenant: tenant, Host: host, Args: [][]byte{[]byte(argument)}, Config: []byte(config)}
	inv.Limits = limits()
	var result engine.Result
	if err := p.Run(t.Context(), inv, &result); err != nil || result.Len() == 0 {
		return "", err
	}
	return string(result.Value(0)), nil
}

// limits are the highest: the machine may be busy, and Go needs more instructions than the default for its start.
func limits() script.Limits { return script.MaxLimits() }
