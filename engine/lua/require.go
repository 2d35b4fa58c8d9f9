package lua

import (
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/hostlib"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// baseRequire returns a library that is there already: scripts that were written
// for other hosts ask for those that they use. Or it returns what a library of the tenant
// gives, which the program was compiled with. It loads nothing.
func baseRequire(l *vm.LState) int {
	name := bind.ArgString(l, 1)
	libraries := callOf(l).base()
	if lib := libraries.RawGetString(name); values.IsLibrary(lib) {
		l.Push(lib)
		return 1
	}
	if name == hostlib.KubeLibrary {
		l.Push(sandbox().kube)
		return 1
	}
	if lib := callOf(l).program.libraries[name]; lib != nil {
		l.Push(lib.value(l))
		return 1
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
