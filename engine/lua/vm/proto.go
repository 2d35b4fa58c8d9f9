package vm

import (
	"slices"

	glua "github.com/yuin/gopher-lua"
)

// Instruction is one of gopher-lua's: the operation is in the highest bits, then come A, C and B; or A and Bx, which
// takes the place of both.
type Instruction uint32

// K is set in a B or C that is a constant, not a register.
const K = 0x100

const (
	shiftOp, shiftA, shiftC = 26, 18, 9
	maskBx                  = 1<<shiftA - 1
	maxJump                 = maskBx >> 1 // is added to the distance of a jump, so that it is not negative
)

// Op returns the operation, one of gopher-lua's OP_….
func (i Instruction) Op() int { return int(i >> shiftOp) }

// A returns the first register, and the others what their names say.
func (i Instruction) A() int { return int(i>>shiftA) & 0xff }

// B is for A.
func (i Instruction) B() int { return int(i & 0x1ff) }

// C is for A.
func (i Instruction) C() int { return int(i>>shiftC) & 0x1ff }

// Bx is for A.
func (i Instruction) Bx() int { return int(i & maskBx) }

// Jump returns how many instructions are jumped over.
func (i Instruction) Jump() int { return i.Bx() - maxJump }

// FunctionProto is a function's code. It is shared by all states and never changes.
type FunctionProto struct {
	SourceName         string
	LineDefined        int
	NumUpvalues        int
	NumParameters      int
	IsVarArg           bool
	Code               []Instruction
	Constants          []LValue
	FunctionPrototypes []*FunctionProto
	DbgSourcePositions []int // the lines of the instructions
	DbgLocals          []glua.DbgLocalInfo
	DbgUpvalues        []string

	registers int
}

// NewProto takes over what gopher-lua has compiled. constant returns what stands for a text; nil is the text.
func NewProto(p *glua.FunctionProto, constant func(text string) LValue) *FunctionProto {
	n := &FunctionProto{
		SourceName: p.SourceName, LineDefined: p.LineDefined, NumUpvalues: int(p.NumUpvalues),
		NumParameters: int(p.NumParameters), IsVarArg: p.IsVarArg&glua.VarArgIsVarArg != 0,
		Code: make([]Instruction, len(p.Code)), Constants: make([]LValue, len(p.Constants)),
		DbgSourcePositions: slices.Clone(p.DbgSourcePositions), DbgUpvalues: slices.Clone(p.DbgUpvalues),
		registers: int(p.NumUsedRegisters),
	}
	for _, local := range p.DbgLocals {
		n.DbgLocals = append(n.DbgLocals, *local)
	}
	for i, c := range p.Constants {
		switch c := c.(type) {
		case glua.LNumber:
			n.Constants[i] = LNumber(c)
		case glua.LString:
			if n.Constants[i] = constant(string(c)); n.Constants[i] == nil {
				n.Constants[i] = LString(c)
			}
		case glua.LBool:
			n.Constants[i] = LBool(c)
		default:
			n.Constants[i] = LNil
		}
	}
	for _, inner := range p.FunctionPrototypes {
		n.FunctionPrototypes = append(n.FunctionPrototypes, NewProto(inner, constant))
	}
	n.takeCode(p.Code)
	return n
}

// takeCode makes calls of tail calls, says how many values an instruction takes where the one before it says how many
// there are, and counts the registers that gopher-lua's compiler does not: those that loops assign to.
func (p *FunctionProto) takeCode(code []uint32) {
	before := Instruction(glua.OP_NOP << shiftOp)
	for pc := 0; pc < len(code); pc++ {
		i := Instruction(code[pc])
		switch i.Op() {
		case glua.OP_TAILCALL:
			i = (i&(1<<shiftOp-1) | Instruction(opCall)<<shiftOp).taking(before, 1)
		case glua.OP_CALL:
			i = i.taking(before, 1)
		case glua.OP_CLOSURE: // the words after it say where its variables are
			for range p.FunctionPrototypes[i.Bx()].NumUpvalues {
				p.Code[pc] = i
				pc++
				i = Instruction(code[pc])
			}
		case glua.OP_RETURN:
			i = i.taking(before, 0)
		case glua.OP_FORLOOP, glua.OP_FORPREP:
			p.registers = max(p.registers, i.A()+4)
		case glua.OP_TFORLOOP:
			p.registers = max(p.registers, i.A()+3+max(i.C(), 3))
		case glua.OP_SETLIST:
			if open := i.taking(before, 1); open != i {
				i = open - 1 // here B is the number
			}
			if i.C() == 0 { // the next word is it
				p.Code[pc] = i
				pc++
				i = Instruction(code[pc])
			}
		}
		p.Code[pc], before = i, i
	}
}

// taking returns an instruction that takes the values from A on, but for those that it skips, with their number in B plus
// one, if it takes as many as there are and the instruction before it makes a fixed number of them.
func (i Instruction) taking(before Instruction, skips int) Instruction {
	made := before.C()
	if before.Op() == glua.OP_VARARG {
		made = before.B()
	} else if before.Op() != opCall {
		return i
	}
	if i.B() != 0 || made == 0 {
		return i
	}
	return i | Instruction(before.A()+made-i.A()-skips) //nolint:gosec // registers are fewer than 256
}

// ClosureAt returns the function that the instruction makes a closure of.
func (p *FunctionProto) ClosureAt(pc int) *FunctionProto {
	return p.FunctionPrototypes[p.Code[pc].Bx()]
}

// Line returns the line of an instruction; 0 if it is not known.
func (p *FunctionProto) Line(pc int) int {
	if pc >= 0 && pc < len(p.DbgSourcePositions) {
		return p.DbgSourcePositions[pc]
	}
	return 0
}
