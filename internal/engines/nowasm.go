//go:build no_wasm

package engines

var wasmEngines []optional
