package rego

import (
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// guestImports are the functions that OPA's modules import.
func guestImports() []sandbox.Import {
	list := []sandbox.Import{
		{Module: "env", Name: "opa_abort", Params: []sandbox.ValueType{sandbox.I32}, Call: abort},
		{Module: "env", Name: "opa_println", Params: []sandbox.ValueType{sandbox.I32}, Call: func(*sandbox.Call, []uint64) {}},
	}
	for n, name := range []string{"opa_builtin0", "opa_builtin1", "opa_builtin2", "opa_builtin3", "opa_builtin4"} {
		params := []sandbox.ValueType{sandbox.I32, sandbox.I32, sandbox.I32, sandbox.I32, sandbox.I32, sandbox.I32}
		list = append(list, sandbox.Import{
			Module: "env", Name: name, Params: params[:2+n], Results: []sandbox.ValueType{sandbox.I32},
			Call: func(c *sandbox.Call, stack []uint64) { stack[0] = uint64(builtin(c, stack[:2+n])) },
		})
	}
	return list
}

// maxOperand bounds the text of an operand of a function of the host, and of its result.
const maxOperand = 1 << 20

// builtin calls a function of OPA that the module has not itself: the number of the function and a context, which is
// not used, come before the operands. It returns the address of the result, 0 if it is undefined.
func builtin(c *sandbox.Call, stack []uint64) uint32 {
	state := c.State.(*wasmCall)
	name := state.query.builtins[int32(stack[0])]
	f := topdown.GetBuiltin(name)
	if f == nil {
		c.Failf("the policy calls a function that does not exist")
	}
	addresses := append([]uint64(nil), stack[2:]...) // Invoke uses the same stack
	operands := make([]*ast.Term, len(addresses))
	bytes := 0
	for i, address := range addresses {
		v, n := operand(c, uint32(address))
		operands[i], bytes = ast.NewTerm(v), bytes+n
	}
	c.Charge(costOf(name, bytes))
	if err := guard(name, operands); err != nil {
		c.Fail(err)
	}
	var result *ast.Term
	err := f(state.context(c), operands, func(t *ast.Term) error {
		result = t
		return nil
	})
	if err != nil {
		if halt, ok := errors.AsType[topdown.Halt](err); ok {
			c.Failf("%s: %s", name, clip(halt.Error()))
		}
		if state.failed == "" {
			state.failed = clip(err.Error())
		}
	}
	if result == nil {
		return 0
	}
	return give(c, name, result.Value)
}

// operand reads a value of the module, and says how many bytes of text it has.
func operand(c *sandbox.Call, address uint32) (ast.Value, int) {
	stack := c.Stack()
	stack[0] = uint64(address)
	check(c, c.Invoke(fnValueDump, stack[:1]))
	text := c.CString(uint32(stack[0]), maxOperand)
	c.ChargeBytes(len(text))
	v, err := decodeRego(text)
	if err != nil {
		c.Failf("a value that a function is called with cannot be read: %v", err)
	}
	return v, len(text)
}

// give makes a value in the module.
func give(c *sandbox.Call, name string, v ast.Value) uint32 {
	e := encoder{nodes: maxOperand, limit: maxOperand, sets: true}
	text, err := e.value(nil, v, maxOperandDepth)
	if err != nil {
		c.Fail(script.Errorf(script.Limit, "", "%s: the result has more than %d bytes, or is nested deeper than %d", name, maxOperand, maxOperandDepth))
	}
	address, err := pass(c, fnValueParse, text)
	check(c, err)
	return address
}

// check ends the call if there is an error.
func check(c *sandbox.Call, err error) {
	if err != nil {
		c.Fail(script.AsError(err))
	}
}

// context returns what functions of OPA want to know of the call.
func (w *wasmCall) context(c *sandbox.Call) topdown.BuiltinContext {
	if w.caches == nil {
		w.caches = builtins.Cache{}
	}
	inv := c.Inv
	return topdown.BuiltinContext{
		Context: c, Seed: randomOf{inv}, Time: w.now(inv), Cancel: topdown.NewCancel(), Cache: w.caches,
		PrintHook: printer{inv}, Capabilities: capabilitiesOf(w.query.program.options.V0),
	}
}
