package wasm

import (
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/httpwasm"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// What a module exports.
const (
	memoryName     = "memory"
	allocName      = "scriptorium_alloc"
	initializeName = "_initialize"
	// DefaultEntrypoint is the function that is called if a version names none.
	DefaultEntrypoint = "handle"
)

// Types of functions, a letter for each value: see typeOf.
const (
	allocType = "i:i"
	entryType = "ii:I"
)

// inspect meters the source and checks it against the contract that it keeps to; http says that it is the one of http-wasm.
// Types within functions are not checked.
func inspect(src engine.Source) (guest sandbox.Source, http bool, err error) {
	if src.Library || len(src.Libraries) > 0 {
		return guest, false, script.Errorf(script.Script, "source", "a wasm module has no libraries: link them into the module when you build it")
	}
	if len(src.Entrypoint) > script.MaxEntrypointBytes {
		return guest, false, script.Errorf(script.Invalid, "entrypoint", "has %d bytes: at most %d are allowed", len(src.Entrypoint), script.MaxEntrypointBytes)
	}
	// One page more than there may be: the sandbox needs it to make memory shorter again.
	m, err := instrument.Rewrite(src.Code, instrument.Options{MaxMemoryPages: sandbox.MaxMemory/sandbox.PageBytes + 1, TrackWrites: true})
	if err != nil {
		return guest, false, err
	}
	http = isHTTP(m)
	guest = sandbox.Source{Module: m, Imports: imports(http), Initialize: initializeName}
	if http {
		err = inspectHTTP(&guest, src.Entrypoint)
	} else {
		err = inspectPlain(&guest, entrypointOf(src))
	}
	if err != nil {
		return guest, http, err
	}
	for _, i := range m.Imports {
		if err := checkImport(guest.Imports, i); err != nil {
			return guest, http, err
		}
	}
	return guest, http, nil
}

// inspectPlain finds the functions of the contract "scriptorium".
func inspectPlain(guest *sandbox.Source, entrypoint string) error {
	if err := checkExports(guest.Module, []export{
		{allocName, allocType, true},
		{entrypoint, entryType, true},
		{engine.OnResponse, entryType, false},
		{initializeName, ":", false},
	}); err != nil {
		return err
	}
	guest.Functions = []string{alloc: allocName, entry: entrypoint, onResponse: ""}
	if _, ok := guest.Module.Exports[engine.OnResponse]; ok {
		guest.Functions[onResponse] = engine.OnResponse
	}
	return nil
}

func entrypointOf(src engine.Source) string {
	if src.Entrypoint == "" {
		return DefaultEntrypoint
	}
	return src.Entrypoint
}

// export is a function that a contract wants, or that has to be of this type if it is there.
type export struct {
	name, want string
	required   bool
}

func checkExports(m *instrument.Module, functions []export) error {
	if e, ok := m.Exports[memoryName]; !ok || e.Kind != instrument.Memory {
		return script.Errorf(script.Script, "source", "the module exports no memory with the name %q: export its memory, for example by the linker's --export-memory", memoryName)
	}
	for _, f := range functions {
		e, ok := m.Exports[f.name]
		switch {
		case !ok && f.required:
			return missing(m, f.name, f.want)
		case ok && e.Kind != instrument.Func:
			return script.Errorf(script.Script, "source", "the module exports %q as a %s: it has to be a function of type %s", f.name, e.Kind, typeText(f.want))
		case ok && typeOf(e.Type) != f.want:
			return script.Errorf(script.Script, "source", "the module exports the function %q with the type %s: it has to be %s", f.name, typeText(typeOf(e.Type)), typeText(f.want))
		}
	}
	return nil
}

func missing(m *instrument.Module, name, want string) error {
	var advice string
	switch name {
	case allocName:
		advice = "export it, as the contract of scriptorium says, or " + httpwasm.HandleRequest + " and " + httpwasm.HandleResponse + ", as the one of http-wasm does"
	case httpwasm.HandleRequest, httpwasm.HandleResponse:
		advice = "the handler ABI of http-wasm wants it: export it"
	default:
		advice = "export it, or name another function in spec.entrypoint"
	}
	if _, command := m.Exports[startName]; command && !isHTTP(m) {
		advice = "the module is a WASI command with _start: build a reactor, for example by -buildmode=c-shared (Go) or crate-type cdylib (Rust)"
	}
	return script.Errorf(script.Script, "source", "the module exports no function %q of type %s: %s", name, typeText(want), advice)
}

func checkImport(host []sandbox.Import, i instrument.Import) error {
	known := false
	for _, h := range host {
		if h.Module != i.Module {
			continue
		}
		known = true
		if h.Name != i.Name {
			continue
		}
		if got, want := typeOf(i.Type), signature(h.Params, h.Results); got != want {
			return script.Errorf(script.Script, "source", "the module imports %.80q of %.80q with the type %s: it is %s", i.Name, i.Module, typeText(got), typeText(want))
		}
		return nil
	}
	if known {
		return script.Errorf(script.Script, "source", "the module imports %.80q of %q, which has no such function: remove the import", i.Name, i.Module)
	}
	return script.Errorf(script.Script, "source", "the module imports %.80q of %.80q: only functions of %q and %q may be imported", i.Name, i.Module, host[0].Module, wasiModule)
}

// letters are what types of values are in short, in the order of their codes from 0x7c.
const letters = "FfIi"

// typeOf writes a type in short: letters of the parameters, a colon, letters of the results.
func typeOf(t instrument.FuncType) string {
	return signature(t.Params, t.Results)
}

func signature[T ~byte](params, results []T) string {
	short := func(types []T) string {
		text := make([]byte, 0, len(types))
		for _, t := range types {
			if n := int(t) - 0x7c; n >= 0 && n < len(letters) {
				text = append(text, letters[n])
			} else {
				text = append(text, '?')
			}
		}
		return string(text)
	}
	return short(params) + ":" + short(results)
}

// valueTypes is the inverse of signature.
func valueTypes(short string) (params, results []sandbox.ValueType) {
	p, r, _ := strings.Cut(short, ":")
	types := func(s string) (list []sandbox.ValueType) {
		for i := range len(s) {
			list = append(list, sandbox.ValueType(0x7c+strings.IndexByte(letters, s[i])))
		}
		return list
	}
	return types(p), types(r)
}

// typeText writes a short type for people: "(i32, i32) -> i64".
func typeText(short string) string {
	names := map[rune]string{'i': "i32", 'I': "i64", 'f': "f32", 'F': "f64", '?': "another type"}
	list := func(s string) string {
		var texts []string
		for _, c := range s {
			texts = append(texts, names[c])
		}
		return strings.Join(texts, ", ")
	}
	params, results, _ := strings.Cut(short, ":")
	text := "(" + list(params) + ")"
	if results != "" {
		text += " -> " + list(results)
	}
	return text
}
