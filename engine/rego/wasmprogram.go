package rego

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// wasmProgram is a policy that runs as WebAssembly.
type wasmProgram struct {
	options    script.RegoOptions
	data       dataNeeds
	rules      map[position]string // by where they are
	main       *wasmQuery
	onResponse *wasmQuery // nil if the policy has no such rule
}

// position is a line of a file.
type position struct {
	file string
	line int
}

// positions returns where the rules are.
func (p *policy) positions() map[position]string {
	all := map[position]string{}
	for _, m := range p.compiler.Modules {
		for _, r := range m.Rules {
			all[position{r.Location.File, r.Location.Row}] = r.Ref().GroundPrefix().String()
		}
	}
	return all
}

// wasmQuery is a module that asks for one rule.
type wasmQuery struct {
	program  *wasmProgram
	path     string
	module   *sandbox.Module
	builtins map[int32]string // the functions that the module has not itself, by the numbers that it calls them by
}

// newWasmProgram makes machine code of the policy.
func newWasmProgram(s *sandbox.Sandbox, p *policy, made plan, src engine.Source) (*wasmProgram, error) {
	w := &wasmProgram{options: src.Runtime.Rego, data: p.needs(), rules: p.positions()}
	var err error
	if w.main, err = w.query(s, made.main, p.main.path); err != nil {
		return nil, err
	}
	if p.onResponse != nil {
		if w.onResponse, err = w.query(s, made.onResponse, p.onResponse.path); err != nil {
			w.main.module.Close()
			return nil, err
		}
	}
	return w, nil
}

func (w *wasmProgram) query(s *sandbox.Sandbox, g guest, path string) (*wasmQuery, error) {
	m, compileErr := s.Compile(g.source)
	if compileErr != nil {
		return nil, compileErr
	}
	wq := &wasmQuery{program: w, path: path, module: m}
	if err := wq.readBuiltins(); err != nil {
		m.Close()
		return nil, err
	}
	return wq, nil
}

// readBuiltins asks the module for the functions that it has not itself. That runs nothing of the tenant's.
func (q *wasmQuery) readBuiltins() error {
	var res engine.Result
	inv := &engine.Invocation{Limits: script.MaxLimits()}
	return q.module.Run(context.Background(), inv, false, &res, func(c *sandbox.Call, _ *engine.Result) error {
		stack := c.Stack()
		for _, f := range []int{fnBuiltins, fnJSONDump} {
			if err := c.Invoke(f, stack[:1]); err != nil {
				return err
			}
		}
		var numbers map[string]int32
		if err := json.Unmarshal(c.CString(uint32(stack[0]), maxValuesBytes), &numbers); err != nil {
			return &script.Error{Kind: script.Internal, Message: errModule.Error(), Err: err}
		}
		q.builtins = make(map[int32]string, len(numbers))
		for name, n := range numbers {
			q.builtins[n] = name
		}
		return nil
	})
}

// Target says how the policy runs: "wasm" or "interpreted".
func (*wasmProgram) Target() string { return script.RegoTargetWasm }

// OnResponse is engine.Program's.
func (w *wasmProgram) OnResponse() bool { return w.onResponse != nil }

// Size is engine.Program's.
func (w *wasmProgram) Size() int {
	n := w.main.module.Size()
	if w.onResponse != nil {
		n += w.onResponse.module.Size()
	}
	return n
}

// Close is engine.Program's.
func (w *wasmProgram) Close() {
	w.main.module.Close()
	if w.onResponse != nil {
		w.onResponse.module.Close()
	}
}

// Run is engine.Program's.
func (w *wasmProgram) Run(ctx context.Context, inv *engine.Invocation, res *engine.Result) error {
	q := w.main
	if inv.OnResponse {
		if q = w.onResponse; q == nil {
			return nil
		}
	}
	input, err := inputText(inv, w.options.Input)
	if err != nil {
		res.Reset()
		return err
	}
	return q.module.Run(ctx, inv, true, res, func(c *sandbox.Call, res *engine.Result) error { return q.call(c, input, res) })
}

// wasmCall is what host functions keep for a call.
type wasmCall struct {
	query  *wasmQuery
	time   *ast.Term
	caches map[any]any // of functions that give the same answer during a call
	failed string      // the first function that failed, and why
}

// call passes data and input, evaluates the query and takes the result.
func (q *wasmQuery) call(c *sandbox.Call, input []byte, res *engine.Result) error {
	state := &wasmCall{query: q}
	c.State = state
	data, err := q.program.data.document(c.Inv)
	if err != nil {
		return err
	}
	var address uint32
	if data != nil {
		if address, err = pass(c, fnJSONParse, data); err != nil {
			return err
		}
	}
	at, err := place(c, input)
	if err != nil {
		return err
	}
	if err := c.Invoke(fnHeapGet, c.Stack()[:1]); err != nil {
		return err
	}
	heap := c.Stack()[0]
	stack := [7]uint64{0, 0, uint64(address), uint64(at), uint64(len(input)), heap, asRego}
	if err := c.Invoke(fnEval, stack[:]); err != nil {
		return err
	}
	return q.take(c, state, c.CString(uint32(stack[0]), sandbox.MaxMemory), res)
}

// asRego makes a module write its results as Rego does, so that sets and keys that are no text stay what they are.
const asRego = 1

// place copies a text into the module.
func place(c *sandbox.Call, text []byte) (uint32, error) {
	stack := c.Stack()
	stack[0] = uint64(len(text))
	if err := c.Invoke(fnMalloc, stack[:1]); err != nil {
		return 0, err
	}
	address := uint32(stack[0])
	c.ChargeBytes(len(text))
	c.Write(address, text)
	return address, nil
}

// pass makes a value in the module, by the function that parses its text.
func pass(c *sandbox.Call, parse int, text []byte) (uint32, error) {
	at, err := place(c, text)
	if err != nil {
		return 0, err
	}
	stack := c.Stack()
	stack[0], stack[1] = uint64(at), uint64(len(text))
	if err := c.Invoke(parse, stack[:2]); err != nil {
		return 0, err
	}
	return uint32(stack[0]), nil
}

// take appends the result, from the set of results.
func (q *wasmQuery) take(c *sandbox.Call, state *wasmCall, set []byte, res *engine.Result) error {
	c.ChargeBytes(len(set))
	if len(set) > 4*c.Limits.ResultBytes+len(set0) { // escapes may be longer than what they stand for
		return tooLong(c.Limits.ResultBytes)
	}
	v, err := decodeRego(set)
	if err != nil {
		return script.Errorf(script.Limit, "", "the result cannot be said in JSON: %w", err)
	}
	if v = resultOf(v); v == nil {
		if c.Inv.OnResponse {
			return nil
		}
		return undefined(q.path, state.failed)
	}
	return finish(c.Inv, q.program.options.Input, v, res, c.Limits.ResultBytes)
}

// set0 is a set of one result, without its value, as a module writes it.
const set0 = `{{"` + string(resultVar) + `":}}`

// resultOf returns the value of a set of one result; nil if there is none.
func resultOf(set ast.Value) (v ast.Value) {
	results, ok := set.(ast.Set)
	if !ok {
		return nil
	}
	results.Foreach(func(t *ast.Term) {
		if o, ok := t.Value.(ast.Object); ok {
			if r := o.Get(ast.InternedTerm(string(resultVar))); r != nil {
				v = r.Value
			}
		}
	})
	return v
}

// abort is OPA's opa_abort: the policy cannot go on.
func abort(c *sandbox.Call, stack []uint64) {
	message := string(c.CString(uint32(stack[0]), maxMessage))
	if strings.Contains(message, "malloc") || strings.Contains(message, "memory") {
		c.Fail(script.Errorf(script.Limit, "limits.wasm.memory", "the policy needs more than its %d KiB of memory", c.Limits.WasmMemory>>10))
	}
	e := script.Errorf(script.Script, "", "%s", clip(message))
	// A conflict begins with file:line:column.
	if parts := strings.SplitN(message, ":", 4); len(parts) == 4 {
		line, lineErr := strconv.Atoi(parts[1])
		column, columnErr := strconv.Atoi(parts[2])
		if lineErr == nil && columnErr == nil {
			what := strings.TrimSpace(parts[3])
			if rule := c.State.(*wasmCall).query.program.rules[position{parts[0], line}]; rule != "" {
				what = "rule " + rule + ": " + what
			}
			e = script.Errorf(script.Script, "", "%s", clip(what))
			e = at(e, &ast.Location{File: parts[0], Row: line, Col: column})
		}
	}
	c.Fail(e)
}

// now returns the time of the call, which stands still.
func (w *wasmCall) now(inv *engine.Invocation) *ast.Term {
	if w.time == nil {
		w.time = ast.NumberTerm(json.Number(strconv.FormatInt(clockOf(inv).UnixNano(), 10)))
	}
	return w.time
}

func clockOf(inv *engine.Invocation) time.Time {
	if inv.Clock != nil {
		return inv.Clock()
	}
	return time.Now()
}
