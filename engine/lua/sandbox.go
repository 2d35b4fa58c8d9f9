package lua

import (
	"slices"
	"sync"

	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// box is what all states share: the names that every script finds, and the
// values behind them. Nothing in it can be changed by a script: tables are
// within reach of reads alone, through metatables that are protected, and
// libraries are userdata.
type box struct {
	base    *vm.LTable // what globals fall back to
	envMeta *vm.LTable // of every environment
	bareEnv *vm.LTable // of programs that are wrapped, which set no globals

	withoutMeta    *vm.LTable // envMeta and bareEnv where there are no coroutines
	withoutBareEnv *vm.LTable
	without        *vm.LTable    // base where there are no coroutines
	strings        *vm.LTable    // members of the library
	stringMeta     *vm.LTable    // of strings
	kube           *vm.LUserData // the library, which scripts get by require alone
	names          map[*vm.LFunction]string

	ipairsNext, pairsNext, libraryNext *vm.LFunction
	// operators are the builtins behind rewritten operators.
	operators map[string]*vm.LFunction
}

var shared struct {
	once sync.Once
	box  *box
}

// sandbox returns the box, made at its first use.
func sandbox() *box {
	shared.once.Do(func() { shared.box = newBox() })
	return shared.box
}

func newBox() *box {
	b := &box{
		base:  &vm.LTable{},
		names: make(map[*vm.LFunction]string),

		ipairsNext:  builtin(baseIpairsNext),
		pairsNext:   builtin(baseNext),
		libraryNext: builtin(baseLibraryNext),
		operators: map[string]*vm.LFunction{
			compile.Concat: builtin(operatorConcat),
			compile.Length: builtin(operatorLength),
			compile.Arg:    builtin(operatorArg),
		},
	}
	b.names[b.ipairsNext], b.names[b.pairsNext], b.names[b.libraryNext] = "for iterator", "next", "for iterator"
	b.envMeta = protected(b.base)
	b.bareEnv = &vm.LTable{}
	b.bareEnv.Metatable, b.bareEnv.Behind = b.envMeta, b.base
	b.fill(b.base, "", baseFunctions())
	b.base.RawSetString("_VERSION", vm.LString(vm.LuaVersion))
	b.strings = b.library("string", stringFunctions(), nil)
	b.stringMeta = protected(b.strings)
	b.library("table", tableFunctions(), nil)
	b.library("math", mathFunctions(), mathConstants)
	b.library("os", osFunctions(), nil)
	b.library("json", jsonFunctions(), map[string]vm.LValue{"null": null})
	b.addAPI()
	_, b.kube = b.newLibrary(kubeLibrary, kubeFunctions(), nil)
	b.addCoroutines()
	return b
}

// fill adds functions to t, sorted by name.
func (b *box) fill(t *vm.LTable, prefix string, functions map[string]vm.LGFunction) {
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fn := builtin(functions[name])
		b.names[fn] = prefix + name
		t.RawSetString(name, fn)
	}
}

// HasGlobal is compile.Builtins's, as are the next two.
func (b *box) HasGlobal(name string) bool { return b.base.RawGetString(name) != vm.LNil }

// HasModule reports whether require returns something for the name.
func (b *box) HasModule(name string) bool {
	return name == kubeLibrary || isLibrary(b.base.RawGetString(name))
}

// Operator returns the builtin that a marker stands for, which the compiler left; nil if the text is none.
func (b *box) Operator(name string) vm.LValue {
	if fn := b.operators[name]; fn != nil {
		return fn
	}
	return nil
}

// library adds a library to the base and returns its members.
func (b *box) library(name string, functions map[string]vm.LGFunction, values map[string]vm.LValue) *vm.LTable {
	members, lib := b.newLibrary(name, functions, values)
	b.base.RawSetString(name, lib)
	return members
}

// newLibrary returns a library and its members.
func (b *box) newLibrary(name string, functions map[string]vm.LGFunction, values map[string]vm.LValue) (*vm.LTable, *vm.LUserData) {
	members := &vm.LTable{}
	b.fill(members, name+".", functions)
	for key, value := range values {
		members.RawSetString(key, value)
	}
	meta := protected(members)
	meta.RawSetString("__newindex", builtin(func(l *vm.LState) int {
		l.RaiseError("the library %s is read-only", name)
		return 0
	}))
	return members, &vm.LUserData{Value: library{members}, Metatable: meta}
}
