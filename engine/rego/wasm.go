package rego

import (
	"context"

	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The functions of OPA's modules that a call calls, by their places in sandbox.Source.Functions.
const (
	fnEval = iota
	fnMalloc
	fnJSONParse
	fnValueParse
	fnValueDump
	fnJSONDump
	fnHeapGet
	fnBuiltins
)

var guestFunctions = []string{
	fnEval: "opa_eval", fnMalloc: "opa_malloc", fnJSONParse: "opa_json_parse", fnValueParse: "opa_value_parse",
	fnValueDump: "opa_value_dump", fnJSONDump: "opa_json_dump", fnHeapGet: "opa_heap_ptr_get", fnBuiltins: "builtins",
}

// guest is a query as a module for the sandbox.
type guest struct {
	source sandbox.Source
}

// toWasm makes a module of a query. It is metered.
func (p *policy) toWasm(q *query) (guest, *script.Error) {
	r := rego.New(rego.Compiler(p.compiler), rego.ParsedQuery(q.source))
	compiled, err := r.Compile(context.Background())
	if err != nil {
		return guest{}, script.Errorf(script.Script, "", "OPA cannot compile the policy to WebAssembly: %s", clip(err.Error()))
	}
	code, err := ownMemory(compiled.Bytes)
	if err != nil {
		return guest{}, &script.Error{Kind: script.Internal, Message: err.Error(), Err: err}
	}
	m, err := instrument.Rewrite(code, instrument.Options{MaxMemoryPages: sandbox.MaxMemory/sandbox.PageBytes + 1, TrackWrites: true})
	if err != nil {
		e := *script.AsError(err)
		e.Message = "the policy as WebAssembly: " + e.Message
		return guest{}, &e
	}
	return guest{source: sandbox.Source{Module: m, Imports: guestImports(), Functions: guestFunctions}}, nil
}

// plan is how a policy runs.
type plan struct {
	main, onResponse guest
	reason           string // why it has to be interpreted, or ""
}

// maxCopied is the size of the documents of a bundle that each call of a module may copy, in bytes of JSON.
const maxCopied = 128 << 10

// plan decides how the policy runs. The source and its options decide, nothing else.
func (p *policy) plan(options script.RegoOptions) (plan, *script.Error) {
	if options.Target == script.RegoTargetInterpreted {
		return plan{reason: "its target is " + script.RegoTargetInterpreted}, nil
	}
	var made plan
	err := p.copies()
	if err == nil {
		made.main, err = p.toWasm(&p.main)
	}
	if err == nil && p.onResponse != nil {
		made.onResponse, err = p.toWasm(p.onResponse)
	}
	if err != nil && options.Target == script.RegoTargetWasm {
		return plan{}, err
	}
	if err != nil {
		return plan{reason: err.Message}, nil //nolint:nilerr // then the policy is interpreted
	}
	return made, nil
}

// copies refuses documents that are too large to be copied for each call.
func (p *policy) copies() *script.Error {
	if base := p.needs().base; base != nil && base.StringLength() > maxCopied {
		return script.Errorf(script.Limit, "source", "its documents of data have more than %d KiB, which a module copies for each call", maxCopied>>10)
	}
	return nil
}
