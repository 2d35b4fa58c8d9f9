package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// As Lua does, errors name the variable whose value is wrong: "attempt to call field 'execute' (a nil value)". The code of
// the function that runs says where a register got its value from.

// variable is where a value came from.
type variable struct {
	kind string // local, upvalue, global, field or method; "" if it is not known
	name string
	// of is the variable with the table of a field or a method.
	of *variable
}

// kindLocal and the others are the kinds of variables, in Lua's words.
const (
	kindLocal   = "local"
	kindUpvalue = "upvalue"
	kindGlobal  = "global"
	kindField   = "field"
	kindMethod  = "method"
)

// named is described for the i-th argument of the builtin that runs, which is an operand of the instruction that called
// it.
func named(l *vm.LState, i int) string { return described(l, i, l.Get(i), nil) }

// described returns "field 'execute' (a nil value)" for the i-th operand of an instruction, or "a nil value" if it has no
// name. The key that it was asked for, if any, is added behind the type.
func described(l *vm.LState, i int, v, key vm.LValue) string {
	text, more := "a "+valueName(v)+" value", ""
	if b, ok := key.(vm.LBool); ok {
		more = "key '" + b.String() + "'"
	} else if key != nil {
		more = "key '" + keyText(key) + "'"
	}
	if of := operandVariable(l, i, v); of.kind != "" {
		return of.kind + " '" + hostapi.KeyText(of.name) + "' (" + text + suffix(", ", more) + ")" + hint(v, of)
	}
	if more == "" {
		return text
	}
	return text + " (" + more + ")"
}

func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// operandVariable returns where v came from, which is the i-th operand of an instruction, or of the one that called the
// builtin that runs.
func operandVariable(l *vm.LState, i int, v vm.LValue) variable {
	current := l.Frame()
	caller := current
	if current != nil && current.Fn.IsG {
		caller = current.Parent
	}
	if caller == nil || caller.Fn == nil || caller.Fn.IsG || caller.Pc < 1 {
		return variable{}
	}
	p, pc := caller.Fn.Proto, caller.Pc-1
	const codePerInstruction = 16
	if !meterOf(l).Pay(pc / codePerInstruction) {
		return variable{}
	}
	reg, ok := operandRegister(p.Code[pc], i, current.Fn)
	values := l.Registers()
	if !ok || caller.Base+reg >= len(values) || values[caller.Base+reg] != v { // a metamethod changed it
		return variable{}
	}
	c := code{p, callOf(l).program}
	return c.variable(pc, reg)
}

// operandRegister returns the register of the i-th argument of a builtin that the instruction called.
func operandRegister(instruction vm.Instruction, i int, fn *vm.LFunction) (reg int, ok bool) {
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
		if operators := sandbox().operators; fn == operators[compile.Concat] || fn == operators[compile.Length] {
			return a + i, true
		}
		return a, i == 1
	}
	return 0, false
}

// code is a function of a program.
type code struct {
	*vm.FunctionProto
	program *program
}

// variable returns where the register has its value from before the instruction at pc.
func (c code) variable(pc, reg int) variable {
	if name, ok := c.local(pc, reg); ok && !strings.HasPrefix(name, "(") { // those of loops, and temporary ones
		return c.named(kindLocal, name)
	}
	at := c.assignment(pc, reg)
	if at < 0 {
		return variable{}
	}
	instruction := c.Code[at]
	from, key := instruction.B(), instruction.C()
	switch instruction.Op() {
	case glua.OP_MOVE, glua.OP_MOVEN:
		if from < reg {
			return c.variable(at, from)
		}
	case glua.OP_GETGLOBAL:
		return variable{kind: kindGlobal, name: c.constant(instruction.Bx())}
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
	return variable{}
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
func (c code) member(kind string, at, from, key int) variable {
	if key&vm.K == 0 && at > 0 && c.Code[at].Op() == glua.OP_GETTABLEKS {
		if load := c.Code[at-1]; load.Op() == glua.OP_LOADK && load.A() == key {
			return variable{kind: kind, name: c.constant(load.Bx()), of: new(c.variable(at, from))}
		}
	}
	if key&vm.K == 0 {
		return variable{}
	}
	name, ok := c.Constants[key&^vm.K].(vm.LString)
	if !ok {
		return variable{}
	}
	return variable{kind: kind, name: string(name), of: new(c.variable(at, from))}
}

// named returns a local variable or an upvalue. For scripts, a variable that wrap made is a global one.
func (c code) named(kind, name string) variable {
	if c.program != nil && c.program.MadeLocal[name] {
		kind = kindGlobal
	}
	return variable{kind: kind, name: name}
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

// hint suggests the name of a builtin if the variable of the value looks like a misspelled one.
func hint(value vm.LValue, v variable) string {
	var near string
	switch {
	case !vm.IsNil(value):
	case v.kind == kindGlobal:
		near = nearest(v.name, sandbox().base)
	case v.of != nil && v.of.kind == kindGlobal:
		if lib, ok := sandbox().base.RawGetString(v.of.name).(*vm.LUserData); ok && isLibrary(lib) {
			if near = nearest(v.name, lib.Value.(library).members); near != "" {
				near = v.of.name + "." + near
			}
		}
	}
	if near == "" {
		return ""
	}
	return ": did you mean " + near + "?"
}

// nearest returns the key of the table that differs least from the name; "" if none is similar.
func nearest(name string, table *vm.LTable) (near string) {
	least := 0
	table.ForEach(func(k, _ vm.LValue) {
		key := k.String()
		if !Similar(name, key) {
			return
		}
		if d := distance(name, key); near == "" || d < least || d == least && key < near {
			least, near = d, key
		}
	})
	return near
}

// Similar reports whether one of the names may be the other one, misspelled.
func Similar(a, b string) bool {
	const longest = 40
	if a == b || len(a) > longest || len(b) > longest {
		return false
	}
	return distance(a, b) <= min(2, len(a)/3)
}

// distance returns how many letters have to be inserted, removed, replaced or swapped with their neighbor.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows = [3][]int{above, row, before}
	}
	return rows[1][len(b)]
}
