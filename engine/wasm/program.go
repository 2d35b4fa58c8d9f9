package wasm

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/httpwasm"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The functions of a module that the engine calls, by their places in sandbox.Source.Functions.
const (
	alloc = iota
	entry
	onResponse
)

// program is a compiled module.
type program struct {
	module     *sandbox.Module
	onResponse bool
	reuse      bool
	answer     sandbox.Body // by the contract that the module keeps to
	body       sandbox.Body // call, which would be a new value for each call
}

// OnResponse is engine.Program's.
func (p *program) OnResponse() bool { return p.onResponse }

// Size is engine.Program's.
func (p *program) Size() int { return p.module.Size() }

// Close is engine.Program's.
func (p *program) Close() { p.module.Close() }

// Run is engine.Program's.
func (p *program) Run(ctx context.Context, inv *engine.Invocation, res *engine.Result) error {
	if err := checkArguments(inv); err != nil {
		res.Reset()
		return err
	}
	return p.module.Run(ctx, inv, p.reuse, res, p.body)
}

// checkArguments refuses what is not one JSON value, and a config that is no object.
func checkArguments(inv *engine.Invocation) error {
	for i, arg := range inv.Args {
		if _, err := checkJSON(arg); err != nil {
			return invalid("args["+strconv.Itoa(i)+"]", err)
		}
	}
	if len(inv.Args) > 1 && (!inv.OnResponse || len(inv.Args) != 2) {
		return script.Errorf(script.Invalid, "args", "a wasm script takes one argument, not %d: put them into one array or object", len(inv.Args))
	}
	if len(inv.Config) > 0 {
		if _, err := checkJSON(inv.Config); err != nil {
			return invalid("config", err)
		}
		if bytes.TrimLeft(inv.Config, " \t\r\n")[0] != '{' {
			return script.Errorf(script.Invalid, "config", "want a JSON object")
		}
	}
	return nil
}

// call calls the function, and logs what the module has left over.
func (p *program) call(c *sandbox.Call, res *engine.Result) error {
	err := p.answer(c, res)
	finish(c)
	if e, ok := errors.AsType[*script.Error](err); ok && e.Kind == script.Script {
		if words := lastWords(c); words != "" {
			e.Message = hostapi.Clip(e.Message + ": " + words)
		}
	}
	return err
}

// null is the argument of a call without.
var null = []byte("null")

// handle passes the argument, calls the function and takes the result.
func (p *program) handle(c *sandbox.Call, res *engine.Result) error {
	function := entry
	if c.Inv.OnResponse {
		if function = onResponse; !p.onResponse {
			return nil
		}
	}
	arg := argumentOf(c.Inv)
	stack := c.Stack()
	stack[0] = uint64(len(arg))
	if err := c.Invoke(alloc, stack[:1]); err != nil {
		return err
	}
	address := uint32(stack[0])
	if address == 0 {
		return script.Errorf(script.Limit, "limits.wasm.memory", "the module has no memory for its argument of %d bytes: %s returned 0", len(arg), allocName)
	}
	c.ChargeBytes(len(arg))
	c.Write(address, arg)
	stack[0], stack[1] = uint64(address), uint64(len(arg))
	if err := c.Invoke(function, stack[:2]); err != nil {
		return err
	}
	address, length := uint32(stack[0]>>32), uint32(stack[0])
	if length == 0 {
		return nil
	}
	return take(c, res, address, length)
}

// exchange has a module of http-wasm handle the request, and the response if there is one.
func exchange(c *sandbox.Call, res *engine.Result) error {
	x, err := httpwasm.New(c)
	if err != nil {
		return err
	}
	stateOf(c).exchange = x
	if err := x.Call(c, finish); err != nil {
		return err
	}
	decision, err := x.Decision()
	if err != nil {
		return err
	}
	if err := fits(c, res, len(decision)); err != nil {
		return err
	}
	c.ChargeBytes(len(decision))
	return res.Append(func(dst []byte) ([]byte, error) { return append(dst, decision...), nil })
}

// fits returns an error if there is no room for a result of so many bytes.
func fits(c *sandbox.Call, res *engine.Result, length int) error {
	if most := c.Limits.ResultBytes - res.Bytes(); length > most {
		return script.Errorf(script.Limit, "", "the results have %d bytes of JSON, and may have %d: raise limits.resultBytes", length+res.Bytes(), c.Limits.ResultBytes)
	}
	return nil
}

// argumentOf returns the one argument of the call. A function on_response gets both of its arguments as one object.
func argumentOf(inv *engine.Invocation) []byte {
	switch len(inv.Args) {
	case 0:
		return null
	case 1:
		return inv.Args[0]
	}
	return slices.Concat([]byte(`{"request":`), inv.Args[0], []byte(`,"response":`), inv.Args[1], []byte("}"))
}

// take copies the result, if it is one JSON value.
func take(c *sandbox.Call, res *engine.Result, address, length uint32) error {
	if err := fits(c, res, int(length)); err != nil {
		return err
	}
	result := c.Read(address, length)
	c.ChargeBytes(len(result))
	spaces, err := checkJSON(result)
	if err != nil {
		return resultError(err)
	}
	return res.Append(func(dst []byte) ([]byte, error) {
		if spaces { // some who read results go by lines
			return compact(dst, result)
		}
		return append(dst, result...), nil
	})
}
