package lua

import (
	"slices"
	"sync"

	glua "github.com/yuin/gopher-lua"
)

// box is what all states share: the names that every script finds, and the
// values behind them. Nothing in it can be changed by a script: tables are
// within reach of reads alone, through metatables that are protected, and
// libraries are userdata.
type box struct {
	base    *glua.LTable // what globals fall back to
	envMeta *glua.LTable // of every environment
	bareEnv *glua.LTable // of programs that are wrapped, which set no globals

	withoutMeta    *glua.LTable // envMeta and bareEnv where there are no coroutines
	withoutBareEnv *glua.LTable
	without        *glua.LTable // base where there are no coroutines
	threads        threads
	strings        *glua.LTable // members of the library
	stringMeta     *glua.LTable // of strings
	arrayMeta      *glua.LTable // marks a table as a JSON array
	lazyMeta       *glua.LTable // marks a table as a lazy object
	requestMeta    *glua.LTable // marks a table as a request that was lazy
	nullsMeta      *glua.LTable // marks a table that was lazy and has null members; it may be a request
	plainMeta      *glua.LTable // of nil, booleans, numbers and functions
	null           *glua.LUserData
	kube           *glua.LUserData // the library, which scripts get by require alone
	names          map[*glua.LFunction]string

	ipairsNext, pairsNext, libraryNext *glua.LFunction
	// operators are the builtins behind rewritten operators.
	operators map[string]*glua.LFunction
	refusals  map[string]*glua.LFunction

	keyRefusal *glua.LFunction
}

// library is what the userdata of a library holds.
type library struct{ members *glua.LTable }

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
		base:      newTable(),
		arrayMeta: newTable(),
		lazyMeta:  newTable(),
		null:      &glua.LUserData{Metatable: glua.LNil},
		names:     make(map[*glua.LFunction]string),

		requestMeta: newTable(),
		nullsMeta:   newTable(),

		ipairsNext:  builtin(baseIpairsNext),
		pairsNext:   builtin(baseNext),
		libraryNext: builtin(baseLibraryNext),
		operators: map[string]*glua.LFunction{
			concatOperator: builtin(operatorConcat),
			lengthOperator: builtin(operatorLength),
			argOperator:    builtin(operatorArg),
		},
	}
	b.names[b.ipairsNext], b.names[b.pairsNext], b.names[b.libraryNext] = "for iterator", "next", "for iterator"
	b.refusals, b.keyRefusal = refusals(), keyRefusal()
	b.lazyMeta.RawSetString("__index", builtin(lazyIndex))
	b.lazyMeta.RawSetString("__newindex", builtin(lazyNewIndex))
	b.requestMeta.RawSetString("__index", builtin(requestIndex))
	b.nullsMeta.RawSetString("__index", builtin(requestIndex))
	b.nullsMeta.RawSetString("__newindex", builtin(nullsNewIndex))
	b.plainMeta = newTable()
	b.refuse(b.plainMeta)
	b.refuseKeys(b.plainMeta, "__index", "__newindex")
	b.envMeta = protected(b.base)
	b.bareEnv = newTable()
	b.bareEnv.Metatable = b.envMeta
	b.null.Metatable = b.nullMeta()
	b.fill(b.base, "", baseFunctions())
	b.base.RawSetString("_VERSION", glua.LString(glua.LuaVersion))
	b.strings = b.library("string", stringFunctions(), nil)
	b.stringMeta = protected(b.strings)
	b.refuse(b.stringMeta)
	b.refuseKeys(b.stringMeta, "__newindex")
	for event, fn := range arithmetic() {
		b.stringMeta.RawSetString(event, fn)
		b.plainMeta.RawSetString(event, fn)
		b.null.Metatable.(*glua.LTable).RawSetString(event, fn)
	}
	b.library("table", tableFunctions(), nil)
	b.library("math", mathFunctions(), mathConstants)
	b.library("os", osFunctions(), nil)
	b.library("json", jsonFunctions(), map[string]glua.LValue{"null": b.null})
	b.addAPI()
	_, b.kube = b.newLibrary(kubeLibrary, kubeFunctions(), nil)
	b.addCoroutines()
	return b
}

// newTable returns an empty table.
func newTable() *glua.LTable { return &glua.LTable{Metatable: glua.LNil} }

// protected returns a metatable that finds members in index, and that scripts
// can neither read nor replace.
func protected(index *glua.LTable) *glua.LTable {
	meta := newTable()
	meta.RawSetString("__index", index)
	meta.RawSetString("__metatable", glua.LFalse)
	return meta
}

// noEnv is the environment of builtins, which use none.
var noEnv = newTable()

// builtin returns fn as a function for scripts.
func builtin(fn glua.LGFunction) *glua.LFunction {
	return &glua.LFunction{IsG: true, Env: noEnv, GFunction: fn}
}

// fill adds functions to t, sorted by name.
func (b *box) fill(t *glua.LTable, prefix string, functions map[string]glua.LGFunction) {
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

// hasGlobal reports whether every script finds a global of the name.
func (b *box) hasGlobal(name string) bool { return b.base.RawGetString(name) != glua.LNil }

// library adds a library to the base and returns its members.
func (b *box) library(name string, functions map[string]glua.LGFunction, values map[string]glua.LValue) *glua.LTable {
	members, lib := b.newLibrary(name, functions, values)
	b.base.RawSetString(name, lib)
	return members
}

// newLibrary returns a library and its members.
func (b *box) newLibrary(name string, functions map[string]glua.LGFunction, values map[string]glua.LValue) (*glua.LTable, *glua.LUserData) {
	members := newTable()
	b.fill(members, name+".", functions)
	for key, value := range values {
		members.RawSetString(key, value)
	}
	meta := protected(members)
	meta.RawSetString("__newindex", builtin(func(l *glua.LState) int {
		l.RaiseError("the library %s is read-only", name)
		return 0
	}))
	b.refuse(meta)
	return members, &glua.LUserData{Value: library{members}, Metatable: meta}
}

// refuse adds the refusals to a metatable.
func (b *box) refuse(meta *glua.LTable) {
	for event, fn := range b.refusals {
		meta.RawSetString(event, fn)
	}
}

// refuseKeys adds the refusal of members to a metatable.
func (b *box) refuseKeys(meta *glua.LTable, events ...string) {
	for _, event := range events {
		meta.RawSetString(event, b.keyRefusal)
	}
}

func (b *box) nullMeta() *glua.LTable {
	meta := newTable()
	b.refuse(meta)
	b.refuseKeys(meta, "__index", "__newindex")
	meta.RawSetString("__metatable", glua.LFalse)
	meta.RawSetString("__tostring", builtin(func(l *glua.LState) int {
		l.Push(glua.LString("null"))
		return 1
	}))
	return meta
}
