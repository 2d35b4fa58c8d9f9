package script

import (
	"crypto/sha256"
	"encoding/json"
)

// The names of engines: what a version's Engine says, and spec.runtime of a manifest.
const (
	EngineLua  = "lua"
	EngineWasm = "wasm"
	EngineRego = "rego"
)

// Runtime holds the options of a version that one engine alone has. The zero Runtime has the defaults.
type Runtime struct {
	Wasm WasmOptions
	Rego RegoOptions
}

// WasmOptions are those of a WebAssembly module.
type WasmOptions struct {
	// Reuse runs calls in instances that the engine resets, in place of a new instance for each call.
	Reuse bool
}

// RegoOptions are those of a policy.
type RegoOptions struct {
	// Input is the form of the input document: "" is the argument as it is.
	Input string
	// Target is what the policy is compiled to: "" is WebAssembly if the policy allows it.
	Target string
	// V0 reads the source as Rego from before version 1.
	V0 bool
}

// The values of RegoOptions.
const (
	RegoInputEnvoy        = "envoy" // the input of Envoy's external authorization, as opa-envoy-plugin has it
	RegoTargetWasm        = "wasm"
	RegoTargetInterpreted = "interpreted"
)

// IsZero reports whether all options have their defaults.
func (r Runtime) IsZero() bool { return r == Runtime{} }

// CheckEngine returns an Invalid error that names the first part of s that a version of the engine cannot have; field is
// the path of s, such as "spec".
func (s Spec) CheckEngine(field, engine string) error {
	foreign := func(name, of string) error {
		return Errorf(Invalid, field+name, "is for the runtime %s, and the runtime is %s: remove it", of, engine)
	}
	switch {
	case engine != EngineLua && s.Library:
		return foreign(".library", EngineLua)
	case engine != EngineLua && s.Limits.Coroutines:
		return foreign(".limits.lua.coroutines", EngineLua)
	case engine != EngineLua && s.Limits.StringBytes != 0:
		return foreign(".limits.lua.stringBytes", EngineLua)
	case engine == EngineLua && s.Limits.WasmMemory != 0:
		return foreign(".limits.wasm.memory", EngineWasm)
	case engine == EngineRego && s.Runtime.Rego.Target == RegoTargetInterpreted && s.Limits.WasmMemory != 0:
		return Errorf(Invalid, field+".limits.wasm.memory", "does not bound an interpreted policy, which takes the memory of its tenant's process: remove it, or rego.target")
	}
	return s.Runtime.Validate(field, engine)
}

// Validate returns an Invalid error that names the first option that the engine does not have.
func (r Runtime) Validate(field, engine string) error {
	if engine != EngineWasm && r.Wasm != (WasmOptions{}) {
		return Errorf(Invalid, field+".wasm", "is for the runtime wasm, and the runtime is %s: remove it", engine)
	}
	if engine != EngineRego && r.Rego != (RegoOptions{}) {
		return Errorf(Invalid, field+".rego", "is for the runtime rego, and the runtime is %s: remove it", engine)
	}
	switch r.Rego.Input {
	case "", RegoInputEnvoy:
	default:
		return Errorf(Invalid, field+".rego.input", "%.80q is not a form of the input: want %s, or leave it out", r.Rego.Input, RegoInputEnvoy)
	}
	switch r.Rego.Target {
	case "", RegoTargetWasm, RegoTargetInterpreted:
	default:
		return Errorf(Invalid, field+".rego.target", "%.80q is not a target: want %s or %s, or leave it out", r.Rego.Target, RegoTargetWasm, RegoTargetInterpreted)
	}
	return nil
}

// Inputs are what is compiled beside the source.
type Inputs struct {
	Libraries []Library
	Runtime   Runtime
}

// Inputs returns what of s is compiled.
func (s Spec) Inputs() Inputs { return Inputs{s.Libraries, s.Runtime} }

// Digest returns the digest of the inputs: zero for none, and DigestOfLibraries if there are no options.
func (in Inputs) Digest() Digest {
	libraries := DigestOfLibraries(in.Libraries)
	if in.Runtime.IsZero() {
		return libraries
	}
	sum := sha256.New()
	sum.Write(libraries[:])
	sum.Write(in.Runtime.document())
	return Digest(sum.Sum(nil))
}

// document returns r as JSON, always the same for the same options.
func (r Runtime) document() []byte {
	text, err := json.Marshal(specDocument{Wasm: wasmDocument(r.Wasm), Rego: regoDocument(r.Rego)})
	if err != nil {
		return nil // texts and booleans do not fail
	}
	return text
}
