package lua

import (
	"maps"
	"slices"
	"sync"

	"github.com/scriptorium-dev/scriptorium/engine/lua/hostlib"
	"github.com/scriptorium-dev/scriptorium/engine/lua/stdlib"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// box is what all states share: the names that every script finds, and the
// values behind them. Nothing in it can be changed by a script: tables are
// within reach of reads alone, through metatables that are protected, and
// libraries are userdata.
type box struct {
	base       *vm.LTable    // what globals fall back to
	env        *vm.LTable    // the environment of programs that are wrapped, which set no globals
	without    *vm.LTable    // env where there are no coroutines
	stringMeta *vm.LTable    // of strings
	kube       *vm.LUserData // the library, which scripts get by require alone
	names      map[*vm.LFunction]string

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
		base:      &vm.LTable{},
		names:     stdlib.IteratorNames(),
		operators: stdlib.Operators(),
	}
	b.env = emptyEnvironment(b.base)
	functions := stdlib.Functions()
	functions["pcall"], functions["require"], functions["xpcall"] = basePcall, baseRequire, baseXpcall
	b.fill(b.base, "", functions)
	b.base.RawSetString("_VERSION", vm.LString(vm.LuaVersion))
	b.add(stdlib.Libraries())
	b.stringMeta = values.Protected(values.Members(b.base.RawGetString("string")))
	b.fill(b.base, "", hostlib.Functions())
	b.add(hostlib.Libraries())
	b.kube = b.newLibrary(hostlib.Kube())
	without := &vm.LTable{}
	b.base.ForEach(func(name, v vm.LValue) { without.RawSet(name, v) })
	b.without = emptyEnvironment(without)
	b.add([]values.Module{{Name: "coroutine", Functions: coroutineFunctions}})
	return b
}

// emptyEnvironment returns an environment that finds globals in base.
func emptyEnvironment(base *vm.LTable) *vm.LTable {
	return &vm.LTable{Metatable: values.Protected(base), Behind: base}
}

// environment returns the environment of programs that set no globals.
func (b *box) environment(coroutines bool) *vm.LTable {
	if coroutines {
		return b.env
	}
	return b.without
}

// fill adds functions to t, sorted by name.
func (b *box) fill(t *vm.LTable, prefix string, functions map[string]vm.LGFunction) {
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		fn := values.Builtin(functions[name])
		b.names[fn] = prefix + name
		t.RawSetString(name, fn)
	}
}

// HasGlobal is compile.Builtins's, as are the next two.
func (b *box) HasGlobal(name string) bool { return b.base.RawGetString(name) != vm.LNil }

// HasModule reports whether require returns something for the name.
func (b *box) HasModule(name string) bool {
	return name == hostlib.KubeLibrary || values.IsLibrary(b.base.RawGetString(name))
}

// Operator returns the builtin that a marker stands for, which the compiler left; nil if the text is none.
func (b *box) Operator(name string) vm.LValue {
	if fn := b.operators[name]; fn != nil {
		return fn
	}
	return nil
}

// add adds libraries to the base.
func (b *box) add(all []values.Module) {
	for _, m := range all {
		b.base.RawSetString(m.Name, b.newLibrary(m))
	}
}

// newLibrary returns a library.
func (b *box) newLibrary(m values.Module) *vm.LUserData {
	members := &vm.LTable{}
	b.fill(members, m.Name+".", m.Functions)
	for key, value := range m.Values {
		members.RawSetString(key, value)
	}
	meta := values.Protected(members)
	meta.RawSetString("__newindex", values.Builtin(func(l *vm.LState) int {
		l.RaiseError("the library %s is read-only", m.Name)
		return 0
	}))
	return &vm.LUserData{Value: values.Library{Members: members}, Metatable: meta}
}
