// Package instrument reads a WebAssembly module that a tenant wrote and rewrites it so that a runtime without fuel
// runs it within bounds: instructions, depth of calls, memory and tables. The rewriter also bounds what compiling the
// module can cost.
//
// # Gas
//
// A mutable i64 global, exported as GasName, holds how many instructions may still run. Each basic block subtracts its
// number of instructions on entry. At loop headers, on entry to functions that call others, and at least every few
// thousand instructions of straight code, the module tests whether gas is below zero. It then calls the one import that
// the rewriter adds, RefillName of MeterModule, of type (i64) -> (i64): the argument is gas, below zero, and the result
// becomes gas. The host ends the call there, or yields the processor and gives the next slice. If the slice is smaller
// than the debt, the result is still below zero: the next test calls the host again.
//
// A function keeps gas in a local between calls, because the runtime then holds it in a register. The global is exact
// whenever a host function runs and when a call ends; after a trap it may lag by what the innermost function ran.
//
// Operations on ranges of memory and tables charge for their size before they run.
//
// # Depth of calls
//
// A mutable i32 global, exported as StackName, holds how many bytes of stack calls may still take. Each function that
// can call others subtracts an estimate of its frame on entry and adds it on return. Below zero it calls the refill
// function, which may raise the global. If it is below zero still, the module executes unreachable. The host tells this
// trap from others by the global.
//
// After a trap both globals are undefined: set them before the instance is called again.
package instrument

import (
	"github.com/scriptorium-dev/scriptorium/script"
)

// Names that the rewriter adds to modules. Modules that use them are refused.
const (
	MeterModule = "scriptorium_meter" // the module of the import
	RefillName  = "refill"

	ReservedPrefix = "scriptorium:" // of exports
	GasName        = ReservedPrefix + "gas"
	StackName      = ReservedPrefix + "stack"
	globalPrefix   = ReservedPrefix + "global."
)

// DefaultStack is how many bytes of frames calls may take if Options do not say.
const DefaultStack = 4 << 20

// PageSize of memories.
const PageSize = 64 << 10

// Options are the bounds of one module.
type Options struct {
	// MaxMemoryPages is how many pages the memory may have: 1 to 65536.
	MaxMemoryPages uint32
	// MaxStack bounds the estimated bytes of the frames of calls; 0 means DefaultStack.
	MaxStack int32
	// TrackWrites makes the module note what it writes to memory, see WritesNames.
	TrackWrites bool
}

// Module is a rewritten module and what a host has to know of it.
type Module struct {
	Code    []byte
	Imports []Import          // those of the tenant's module, in order; all are functions
	Exports map[string]Export // those of the tenant's module
	// MutableGlobals are the names under which the rewriter exports the tenant's mutable globals, in the order of
	// their indices. Together with the memory they are all that a host has to restore before it uses the instance
	// of a Resettable module again.
	MutableGlobals []string
	// Resettable: the module has no instruction that changes tables or drops segments, and no mutable global that a
	// host cannot read (v128).
	Resettable bool
	HasMemory  bool
	MemoryMin  uint32 // pages
	MemoryMax  uint32 // pages; at most Options.MaxMemoryPages
	HasStart   bool   // the module runs code when it is instantiated
	Segments   int    // of data, and elements of tables: what an instance may begin with
	Stack      int32  // what the global StackName begins with

	names map[uint32]string
}

// ValueType is a type of the binary format.
type ValueType byte

// The types of core 2.0.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

func (t ValueType) valid() bool { return t >= V128 && t <= I32 || t == FuncRef || t == ExternRef }

func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return "unknown"
}

// FuncType is the type of a function.
type FuncType struct{ Params, Results []ValueType }

// Import is a function that the module wants.
type Import struct {
	Module, Name string
	Type         FuncType
}

// Kind of what a module exports.
type Kind byte

// The kinds.
const (
	Func   Kind = 0
	Table  Kind = 1
	Memory Kind = 2
	Global Kind = 3
)

func (k Kind) String() string {
	switch k {
	case Func:
		return "function"
	case Table:
		return "table"
	case Memory:
		return "memory"
	case Global:
		return "global"
	}
	return "unknown"
}

// Export is something that the module exports.
type Export struct {
	Kind  Kind
	Index uint32   // in the rewritten module
	Type  FuncType // of a function
}

// FunctionName returns the name that the module gives the function with the index in the rewritten module, or "".
func (m *Module) FunctionName(index uint32) string { return m.names[index] }

// Rewrite returns the module with meters in it. It keeps no reference to code. Time and memory are bounded by a small
// multiple of the module's size. Rewrite checks indices and structure, not types: the runtime does that when it
// compiles the result.
//
// Errors are *script.Error of kind Script: the module is malformed, or wants what is not there; or of kind Limit: it is
// over a bound.
func Rewrite(code []byte, opt Options) (*Module, error) {
	if opt.MaxStack <= 0 {
		opt.MaxStack = DefaultStack
	}
	if opt.MaxMemoryPages == 0 || opt.MaxMemoryPages > 1<<16 {
		return nil, script.Errorf(script.Internal, "", "the bound of the memory is %d pages: it must be 1 to 65536", opt.MaxMemoryPages)
	}
	p := parser{opt: opt, r: reader{buf: code}, m: &Module{
		Exports: map[string]Export{}, Resettable: true, Stack: opt.MaxStack, names: map[uint32]string{},
	}}
	p.module()
	if p.r.err != nil {
		return nil, p.r.err
	}
	return p.m, nil
}
