// Package diagnose says what errors are about. As Lua does, they name the variable whose value is wrong: "attempt to call
// field 'execute' (a nil value)". The code of the function that runs says where a register got its value from. The package
// also finds names that may be meant.
package diagnose

import (
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Variable is where a value came from.
type Variable struct {
	Kind string // local, upvalue, global, field or method; "" if it is not known
	Name string
	// Of is the variable with the table of a field or a method.
	Of *Variable
}

// The kinds of variables, in Lua's words.
const (
	Global      = "global"
	kindLocal   = "local"
	kindUpvalue = "upvalue"
	kindField   = "field"
	kindMethod  = "method"
)

// Program is what runs.
type Program interface {
	// MadeLocal reports whether the local variable of the name is a global one for scripts.
	MadeLocal(name string) bool
	// IsOperator reports whether the function is an operator, whose operands are its arguments.
	IsOperator(fn *vm.LFunction) bool
}

// Operand returns where v came from, which is the i-th operand of an instruction, or of the one that called the
// builtin that runs.
func Operand(l *vm.LState, i int, v vm.LValue, p Program) Variable {
	current := l.Frame()
	caller := current
	if current != nil && current.Fn.IsG {
		caller = current.Parent
	}
	if caller == nil || caller.Fn == nil || caller.Fn.IsG || caller.Pc < 1 {
		return Variable{}
	}
	proto, pc := caller.Fn.Proto, caller.Pc-1
	const codePerInstruction = 16
	if !l.Meter.Pay(pc / codePerInstruction) {
		return Variable{}
	}
	reg, ok := operandRegister(proto.Code[pc], i, p.IsOperator(current.Fn))
	values := l.Registers()
	if !ok || caller.Base+reg >= len(values) || values[caller.Base+reg] != v { // a metamethod changed it
		return Variable{}
	}
	c := code{proto, p}
	return c.variable(pc, reg)
}

// operandRegister returns the register of the i-th argument of a builtin that the instruction called.
func operandRegister(instruction vm.Instruction, i int, operator bool) (reg int, ok bool) {
	a, b, c := instruction.A(), instruction.B(), instruction.C()
	switch instruction.Op() {
	case glua.OP_GETTABLE, glua.OP_GETTABLEKS, glua.OP_SELF, glua.OP_UNM:
		return b, i == 1
	case glua.OP_SETTABLE, glua.OP_SETTABLEKS:
		return a, i == 1
	case glua.OP_ADD, glua.OP_SUB, glua.OP_MUL, glua.OP_DIV, glua.OP_MOD, glua.OP_POW:
		if i == 2 {
			b = c
		}
		return b, b&vm.K == 0
	case glua.OP_CALL:
		if operator {
			return a + i, true
		}
		return a, i == 1
	}
	return 0, false
}

// code is a function of a program.
type code struct {
	*vm.FunctionProto
	program Program
}

// variable returns where the register has its value from before the instruction at pc.
func (c code) variable(pc, reg int) Variable {
	if name, ok := c.local(pc, reg); ok && !strings.HasPrefix(name, "(") { // those of loops, and temporary ones
		return c.named(kindLocal, name)
	}
	at := c.assignment(pc, reg)
	if at < 0 {
		return Variable{}
	}
	instruction := c.Code[at]
	from, key := instruction.B(), instruction.C()
	switch instruction.Op() {
	case glua.OP_MOVE, glua.OP_MOVEN:
		if from < reg {
			return c.variable(at, from)
		}
	case glua.OP_GETGLOBAL:
		return Variable{Kind: Global, Name: c.constant(instruction.Bx())}
	case glua.OP_GETUPVAL:
		if from < len(c.DbgUpvalues) {
			return c.named(kindUpvalue, c.DbgUpvalues[from])
		}
	case glua.OP_GETTABLE, glua.OP_GETTABLEKS:
		return c.member(kindField, at, from, key)
	case glua.OP_SELF:
		if reg == instruction.A() {
			return c.member(kindMethod, at, from, key)
		}
		return c.variable(at, from)
	}
	return Variable{}
}

// local returns the name of the local variable in the register.
func (c code) local(pc, reg int) (name string, ok bool) {
	for _, l := range c.DbgLocals {
		switch {
		case l.StartPc > pc:
			return "", false
		case pc >= l.EndPc:
		case reg == 0:
			return l.Name, true
		default:
			reg--
		}
	}
	return "", false
}

// member returns the variable of a member with a constant name. In the first line of a loop, the instruction before loads it.
func (c code) member(kind string, at, from, key int) Variable {
	if key&vm.K == 0 && at > 0 && c.Code[at].Op() == glua.OP_GETTABLEKS {
		if load := c.Code[at-1]; load.Op() == glua.OP_LOADK && load.A() == key {
			return Variable{Kind: kind, Name: c.constant(load.Bx()), Of: new(c.variable(at, from))}
		}
	}
	if key&vm.K == 0 {
		return Variable{}
	}
	name, ok := c.Constants[key&^vm.K].(vm.LString)
	if !ok {
		return Variable{}
	}
	return Variable{Kind: kind, Name: string(name), Of: new(c.variable(at, from))}
}

// named returns a local variable or an upvalue. For scripts, a variable that wrap made is a global one.
func (c code) named(kind, name string) Variable {
	if c.program.MadeLocal(name) {
		kind = Global
	}
	return Variable{Kind: kind, Name: name}
}

func (c code) constant(i int) string {
	name, _ := c.Constants[i].(vm.LString)
	return string(name)
}

// assignment returns the last instruction before pc that assigns to the register; -1 if that depends on a jump.
func (c code) assignment(pc, reg int) int {
	last, target := -1, 0
	for at := 0; at < pc; at++ {
		instruction := c.Code[at]
		a, b := instruction.A(), instruction.B()
		assigns := false
		switch instruction.Op() {
		case glua.OP_LOADNIL:
			assigns = a <= reg && reg <= b
		case glua.OP_TFORLOOP:
			assigns = reg >= a+2
		case glua.OP_CALL, glua.OP_TAILCALL, glua.OP_VARARG:
			assigns = reg >= a
		case glua.OP_SELF:
			assigns = reg == a || reg == a+1
		case glua.OP_FORLOOP, glua.OP_FORPREP:
			assigns = reg >= a && reg <= a+3
		case glua.OP_JMP:
			if to := at + 1 + instruction.Jump(); to > at && to <= pc {
				target = max(target, to)
			}
		case glua.OP_CLOSURE:
			assigns = reg == a
			at += c.ClosureAt(at).NumUpvalues
		case glua.OP_SETGLOBAL, glua.OP_SETUPVAL, glua.OP_SETTABLE, glua.OP_SETTABLEKS, glua.OP_EQ, glua.OP_LT, glua.OP_LE,
			glua.OP_TEST, glua.OP_RETURN, glua.OP_SETLIST, glua.OP_CLOSE, glua.OP_NOP:
		default:
			assigns = reg == a
		}
		if !assigns {
			continue
		}
		if last = at; at < target { // it may be skipped
			last = -1
		}
	}
	return last
}
