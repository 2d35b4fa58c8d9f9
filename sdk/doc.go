// Package sdk tests the SDKs for scripts that are WebAssembly modules: each has examples, which run on the engine and
// have to agree. Each language has a folder.
package sdk
