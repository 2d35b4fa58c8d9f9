package wire

import (
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fromWasm returns the message for o; nil for the defaults.
func fromWasm(o script.WasmOptions) *scriptv1.WasmOptions {
	if o == (script.WasmOptions{}) {
		return nil
	}
	return &scriptv1.WasmOptions{Reuse: o.Reuse}
}

// fromRego returns the message for o; nil for the defaults.
func fromRego(o script.RegoOptions) *scriptv1.RegoOptions {
	if o == (script.RegoOptions{}) {
		return nil
	}
	return &scriptv1.RegoOptions{Input: o.Input, Target: o.Target, V0: o.V0}
}

func toRuntime(w *scriptv1.WasmOptions, r *scriptv1.RegoOptions) script.Runtime {
	return script.Runtime{
		Wasm: script.WasmOptions{Reuse: w.GetReuse()},
		Rego: script.RegoOptions{Input: r.GetInput(), Target: r.GetTarget(), V0: r.GetV0()},
	}
}
