package lua

import (
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/diagnose"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// HasGlobal reports whether every script has a global variable of the name.
func HasGlobal(name string) bool { return sandbox().HasGlobal(name) }

// HasMember reports whether the global variable is a library, and whether it has the member.
func HasMember(global, member string) (isLib, has bool) {
	ud, _ := sandbox().base.RawGetString(global).(*vm.LUserData)
	if ud == nil || !values.IsLibrary(ud) {
		return false, false
	}
	return true, ud.Value.(values.Library).Members.RawGetString(member) != vm.LNil
}

// NearestGlobal returns the global variable whose name differs least from the name; "" if none is similar.
func NearestGlobal(name string) string { return diagnose.Nearest(name, sandbox().base) }

// NearestMember is NearestGlobal for a member of a library.
func NearestMember(global, member string) string {
	ud, _ := sandbox().base.RawGetString(global).(*vm.LUserData)
	if ud == nil || !values.IsLibrary(ud) {
		return ""
	}
	return diagnose.Nearest(member, ud.Value.(values.Library).Members)
}

// HasModule reports whether require returns something for the name in every script.
func HasModule(name string) bool { return sandbox().HasModule(name) }

// Requires is engine.Checker's.
func (*Engine) Requires(src engine.Source) ([]engine.Require, error) {
	c, err := compile.Compile(compile.ChunkName, src, sandbox())
	if err != nil {
		return nil, err
	}
	return c.Requires, nil
}
