package vm

import (
	glua "github.com/yuin/gopher-lua"
)

const (
	opCall = glua.OP_CALL
	// fieldsPerFlush is how many elements gopher-lua's compiler has an instruction set at once.
	fieldsPerFlush = 50
)

// execute executes instructions until the frame `last` has returned, or all have, or the thread yields.
//
// Each instruction is paid for first. ls.top is where the frame's registers end, save between an instruction with as many
// results as there are and the one after it, which takes them.
//
//nolint:gocyclo,funlen // it is the machine
func (ls *LState) execute(last *Frame) {
	m := ls.Meter
	cf := ls.frame
	code, constants := cf.Fn.Proto.Code, cf.Fn.Proto.Constants
	for {
		i := code[cf.Pc]
		cf.Pc++
		if m.Left--; (m.Left < 0 || m.Stop.Load() != 0) && !m.Control.GoesOn() {
			ls.stop()
		}
		r := ls.reg[cf.Base:]
		switch a := i.A(); i.Op() {
		case glua.OP_MOVE:
			r[a] = r[i.B()]
		case glua.OP_MOVEN:
			r[a] = r[i.B()]
			for range i.C() {
				i = code[cf.Pc]
				cf.Pc++
				r[i.A()] = r[i.B()]
			}
		case glua.OP_LOADK:
			r[a] = constants[i.Bx()]
		case glua.OP_LOADBOOL:
			r[a] = LBool(i.B() != 0)
			if i.C() != 0 {
				cf.Pc++
			}
		case glua.OP_LOADNIL:
			for to := i.B(); a <= to; a++ {
				r[a] = LNil
			}
		case glua.OP_GETUPVAL:
			r[a] = *cf.Fn.Upvalues[i.B()].at
		case glua.OP_GETGLOBAL:
			key := constants[i.Bx()]
			name, _ := key.(LString)
			if behind := cf.Fn.Env.Behind; behind != nil {
				if v := behind.name(string(name)); v != nil {
					r[a] = v
					continue
				}
			} else if v := cf.Fn.Env.name(string(name)); v != nil {
				r[a] = v
				continue
			}
			v := ls.GetTable(cf.Fn.Env, key)
			ls.reg[cf.Base+a] = v
		case glua.OP_GETTABLE:
			key := rk(r, constants, i.C())
			if t, ok := r[i.B()].(*LTable); ok {
				if n, ok := key.(LNumber); ok {
					if at := int(n) - 1; at >= 0 && at < len(t.array) && LNumber(at+1) == n && !IsNil(t.array[at]) {
						r[a] = t.array[at]
						continue
					}
				}
			}
			v := ls.GetTable(r[i.B()], key)
			ls.reg[cf.Base+a] = v
		case glua.OP_GETTABLEKS:
			key := rk(r, constants, i.C())
			name, isName := key.(LString)
			switch of := r[i.B()].(type) {
			case *LTable:
				var v LValue
				if of.Lazy != nil && isName {
					v = of.Lazy.Member(ls, string(name))
				}
				if v == nil && isName {
					v = of.name(string(name))
				}
				if v == nil && of.Metatable == nil {
					v = LNil
				}
				if v != nil {
					r[a] = v
					continue
				}
			case *LUserData:
				if index, ok := of.Metatable.index(); ok && isName {
					if v := index.name(string(name)); v != nil {
						r[a] = v
						continue
					}
				}
			}
			v := ls.GetTable(r[i.B()], key)
			ls.reg[cf.Base+a] = v
		case glua.OP_SETGLOBAL:
			ls.setTable(cf.Fn.Env, constants[i.Bx()], r[a])
		case glua.OP_SETUPVAL:
			*cf.Fn.Upvalues[i.B()].at = r[a]
		case glua.OP_SETTABLE, glua.OP_SETTABLEKS:
			key, v := rk(r, constants, i.B()), rk(r, constants, i.C())
			t, ok := r[a].(*LTable)
			if !ok || t.Metatable != nil {
				ls.setTable(r[a], key, v)
				continue
			}
			switch k := key.(type) {
			case LNumber:
				if at := int(k) - 1; at >= 0 && at < len(t.array) && LNumber(at+1) == k {
					t.array[at] = v
					continue
				}
			case LString:
				if at, ok := t.names[string(k)]; ok && !IsNil(v) {
					t.slots[at].value = v
					continue
				}
			}
			ls.set(t, key, v)
		case glua.OP_NEWTABLE:
			r[a] = ls.newTable(i.B(), i.C())
		case glua.OP_SELF:
			of, key := r[i.B()], rk(r, constants, i.C())
			name, isName := key.(LString)
			if _, ok := of.(LString); ok && isName {
				if index, ok := ls.G.Strings.index(); ok {
					if v := index.name(string(name)); v != nil {
						r[a], r[a+1] = v, of
						continue
					}
				}
			}
			v := ls.GetTable(of, key)
			ls.reg[cf.Base+a], ls.reg[cf.Base+a+1] = v, of
		case glua.OP_ADD, glua.OP_SUB, glua.OP_MUL, glua.OP_DIV, glua.OP_MOD, glua.OP_POW:
			left, right := rk(r, constants, i.B()), rk(r, constants, i.C())
			x, ok := left.(LNumber)
			y, ok2 := right.(LNumber)
			if !ok || !ok2 {
				v := ls.arithmetic(i.Op(), left, right)
				ls.reg[cf.Base+a] = v
				continue
			}
			switch i.Op() {
			case glua.OP_ADD:
				x += y
			case glua.OP_SUB:
				x -= y
			case glua.OP_MUL:
				x *= y
			default:
				x = calculate(i.Op(), x, y)
			}
			r[a] = ls.numbers.value(x)
		case glua.OP_UNM:
			v := rk(r, constants, i.B())
			if n, ok := v.(LNumber); ok {
				r[a] = ls.numbers.value(-n)
				continue
			}
			v = ls.negative(v)
			ls.reg[cf.Base+a] = v
		case glua.OP_NOT:
			r[a] = LBool(LVIsFalse(r[i.B()]))
		case glua.OP_JMP:
			cf.Pc += i.Jump()
		case glua.OP_EQ:
			if ls.Equal(rk(r, constants, i.B()), rk(r, constants, i.C())) != (a != 0) {
				cf.Pc++
			}
		case glua.OP_LT, glua.OP_LE:
			left, right := rk(r, constants, i.B()), rk(r, constants, i.C())
			x, ok := left.(LNumber)
			y, ok2 := right.(LNumber)
			var holds bool
			switch {
			case !ok || !ok2:
				holds = ls.less(left, right, i.Op() == glua.OP_LE)
			case i.Op() == glua.OP_LT:
				holds = x < y
			default:
				holds = x <= y
			}
			if holds != (a != 0) {
				cf.Pc++
			}
		case glua.OP_TEST:
			if LVAsBool(r[a]) == (i.C() == 0) {
				cf.Pc++
			}
		case glua.OP_TESTSET:
			if v := r[i.B()]; LVAsBool(v) != (i.C() == 0) {
				r[a] = v
			} else {
				cf.Pc++
			}
		case glua.OP_CALL:
			start := cf.Base + a
			args := i.B() - 1
			if args < 0 {
				args = ls.top - start - 1
			}
			f := ls.enter(start, args, i.C()-1, start)
			if f.Fn.IsG {
				if ls.callGo(f) {
					return
				}
				continue
			}
			cf = f
			code, constants = f.Fn.Proto.Code, f.Fn.Proto.Constants
		case glua.OP_RETURN:
			if ls.open != nil {
				ls.closeUpvalues(cf.Base)
			}
			at := cf.Base + a
			n := i.B() - 1
			if n < 0 {
				n = ls.top - at
			}
			ls.leave(cf, at, n)
			if cf == last || ls.frame == nil {
				return
			}
			cf = ls.frame
			code, constants = cf.Fn.Proto.Code, cf.Fn.Proto.Constants
		case glua.OP_FORLOOP:
			n, step, limit := r[a].(LNumber), r[a+2].(LNumber), r[a+1].(LNumber)
			n += step
			v := ls.numbers.value(n)
			r[a] = v
			if step > 0 && n <= limit || step <= 0 && n >= limit {
				cf.Pc += i.Jump()
				r[a+3] = v
			}
		case glua.OP_FORPREP:
			ls.prepare(r[a : a+3])
			cf.Pc += i.Jump()
		case glua.OP_TFORLOOP:
			r[a+3], r[a+4], r[a+5] = r[a], r[a+1], r[a+2]
			ls.call(cf.Base+a+3, 2, i.C(), cf.Base+a+3)
			ls.top = cf.top
			r = ls.reg[cf.Base:]
			if v := r[a+3]; !IsNil(v) {
				r[a+2] = v
				cf.Pc += code[cf.Pc].Jump()
			}
			cf.Pc++
		case glua.OP_SETLIST:
			ls.setList(cf, i)
		case glua.OP_CLOSE:
			ls.closeUpvalues(cf.Base + a)
		case glua.OP_CLOSURE:
			r[a] = ls.closure(cf, cf.Fn.Proto.FunctionPrototypes[i.Bx()])
		case glua.OP_VARARG:
			ls.variadic(cf, i)
		case glua.OP_NOP:
		default:
			ls.RaiseError("the machine has no instruction %d", i.Op())
		}
	}
}

// rk returns the value of B or C, a register or a constant.
func rk(r, constants []LValue, n int) LValue {
	if n&K != 0 {
		return constants[n&^K]
	}
	return r[n]
}

// index returns the table that __index says.
func (t *LTable) index() (*LTable, bool) {
	if t == nil {
		return nil, false
	}
	v, ok := t.name("__index").(*LTable)
	return v, ok
}

// prepare begins a loop over numbers: the first, the last and the step.
func (ls *LState) prepare(loop []LValue) {
	for i, what := range [...]string{"initial value", "limit", "step"} {
		if _, ok := loop[i].(LNumber); !ok {
			ls.RaiseError("'for' %s must be a number", what)
		}
	}
	loop[0] = ls.numbers.value(loop[0].(LNumber) - loop[2].(LNumber))
}

// setList sets elements of a constructor's table.
func (ls *LState) setList(cf *Frame, i Instruction) {
	at, block, n := cf.Base+i.A(), i.C(), i.B()
	if block == 0 {
		block = int(cf.Fn.Proto.Code[cf.Pc])
		cf.Pc++
	}
	if n == 0 {
		n = ls.top - at - 1
	}
	t := ls.reg[at].(*LTable)
	before := t.Footprint()
	for j := 1; j <= n; j++ {
		t.RawSetInt((block-1)*fieldsPerFlush+j, ls.reg[at+j])
	}
	if after := t.Footprint(); after != before {
		ls.Meter.Made(after.Since(before))
	}
	ls.setTop(cf.top, ls.top)
}

// closure makes a function.
func (ls *LState) closure(cf *Frame, p *FunctionProto) *LFunction {
	fn := &LFunction{Env: cf.Fn.Env, Proto: p, Upvalues: make([]*Upvalue, p.NumUpvalues)}
	for n := range fn.Upvalues {
		where := cf.Fn.Proto.Code[cf.Pc]
		cf.Pc++
		if where.Op() == glua.OP_MOVE {
			fn.Upvalues[n] = ls.findUpvalue(cf.Base + where.B())
		} else {
			fn.Upvalues[n] = cf.Fn.Upvalues[where.B()]
		}
	}
	ls.Meter.Made(ClosureBytes + upvalueBytes*len(fn.Upvalues))
	return fn
}

// variadic copies arguments beyond the parameters.
func (ls *LState) variadic(cf *Frame, i Instruction) {
	from := cf.start + 1 + cf.Fn.Proto.NumParameters
	given := max(cf.start+1+cf.args-from, 0)
	n, at := i.B()-1, cf.Base+i.A()
	if n < 0 {
		n = given
		ls.need(at + n)
		ls.setTop(at+n, max(ls.top, at+n))
	}
	for j := range n {
		if j < given {
			ls.reg[at+j] = ls.reg[from+j]
		} else {
			ls.reg[at+j] = LNil
		}
	}
}
