package lua

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/hostlib"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// tenantLibrary is a library that the program was compiled with. Its chunk runs in each call that
// requires it, at most once, as part of the call. Its globals are its own.
type tenantLibrary struct {
	name string
	compile.Compiled
}

// compileLibraries compiles what the source can require.
func compileLibraries(libraries []script.Library) (map[string]*tenantLibrary, *script.Error) {
	if len(libraries) == 0 {
		return nil, nil
	}
	all := make(map[string]*tenantLibrary, len(libraries))
	for _, l := range libraries {
		name := l.Name.String()
		c, err := compile.Compile(name, engine.Source{Code: []byte(l.Source)}, sandbox())
		if err != nil {
			return nil, InLibrary(name, err)
		}
		all[name] = &tenantLibrary{name, c}
	}
	return all, nil
}

// InLibrary returns the error as one of whoever requires the library: its place is part of the message.
func InLibrary(name string, err *script.Error) *script.Error {
	e := *err
	e.Message = fmt.Sprintf("%s: %s", name, err.Message)
	if err.Line > 0 {
		e.Message = fmt.Sprintf("%s:%d: %s", name, err.Line, err.Message)
	}
	e.Line, e.Column = 0, 0
	return &e
}

// requiredBytes is what the first library of a call takes to remember it.
const requiredBytes = 512

// value returns what the library gives in the call.
func (t *tenantLibrary) value(l *vm.LState) vm.LValue {
	c := callOf(l)
	value, known := c.required[t.name]
	switch {
	case known && value == nil:
		l.RaiseError("the library '%s' requires itself, through those that it requires", t.name)
	case known:
		return value
	case c.required == nil:
		c.required = map[string]vm.LValue{}
		bind.Allocate(l, requiredBytes)
	}
	c.required[t.name] = nil
	defer func() {
		if c.required[t.name] == nil { // it failed, and may be required again
			delete(c.required, t.name)
		}
	}()
	bind.Allocate(l, vm.ClosureBytes+vm.TableBytes)
	l.Push(&vm.LFunction{Proto: t.Proto, Env: environment(c, &t.Compiled)})
	value = l.CallOne(0)
	if value == vm.LNil {
		l.RaiseError("the library '%s' returned nothing: it has to end with return and a table", t.name)
	}
	c.required[t.name] = value
	return value
}

// baseRequire returns a library that is there already: scripts that were written
// for other hosts ask for those that they use. Or it returns what a library of the tenant
// gives, which the program was compiled with. It loads nothing.
func baseRequire(l *vm.LState) int {
	name := bind.ArgString(l, 1)
	libraries := callOf(l).base()
	if lib := libraries.RawGetString(name); values.IsLibrary(lib) {
		return l.Return(lib)
	}
	if name == hostlib.KubeLibrary {
		return l.Return(sandbox().kube)
	}
	if lib := callOf(l).program.libraries[name]; lib != nil {
		return l.Return(lib.value(l))
	}
	names := []string{hostlib.KubeLibrary}
	libraries.ForEach(func(name, v vm.LValue) {
		if values.IsLibrary(v) {
			names = append(names, name.String())
		}
	})
	slices.Sort(names)
	l.RaiseError("module '%s' not found: there are %s", hostapi.Clip(name), strings.Join(names, ", "))
	return 0
}

// base returns what the globals of the call fall back to.
func (c *call) base() *vm.LTable {
	return c.env.Metatable.RawGetString("__index").(*vm.LTable)
}
