package wasm

import (
	"github.com/scriptorium-dev/scriptorium/engine/wasm/httpwasm"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// startName is what the ABI's own host calls in each instance: compilers make their main function of it.
const startName = "_start"

// isHTTP reports whether the module keeps to the handler ABI of http-wasm.
func isHTTP(m *instrument.Module) bool {
	for _, i := range m.Imports {
		if i.Module == httpwasm.HostModule {
			return true
		}
	}
	_, handles := m.Exports[httpwasm.HandleRequest]
	_, allocates := m.Exports[allocName]
	return handles && !allocates
}

// inspectHTTP finds the functions of http-wasm.
func inspectHTTP(guest *sandbox.Source, entrypoint string) error {
	if entrypoint != "" && entrypoint != DefaultEntrypoint && entrypoint != httpwasm.HandleRequest {
		return script.Errorf(script.Script, "entrypoint", "is %.80q: a module of http-wasm is called by %s: remove spec.entrypoint", entrypoint, httpwasm.HandleRequest)
	}
	if err := checkExports(guest.Module, []export{
		{httpwasm.HandleRequest, ":I", true},
		{httpwasm.HandleResponse, "ii:", true},
		{startName, ":", false},
		{initializeName, ":", false},
	}); err != nil {
		return err
	}
	if _, ok := guest.Module.Exports[startName]; ok {
		guest.Initialize = startName
	}
	guest.Functions = httpwasm.Functions()
	return nil
}
