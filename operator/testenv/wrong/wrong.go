// Package wrong has LuaScripts that a person might write and that cannot be, each with what
// is said of it: by kubectl apply while the webhook runs, and by a condition without it. The
// tests of both use it, so that the words stay the same.
package wrong

import (
	"encoding/base64"
	"strings"
)

// The tenants of the LuaScripts, as specs of ScriptTenants. There must be none that is called
// nobody.
const (
	Bounded = "namespaces: ['*']\nlimits: {timeout: 1s, sourceBytes: 1000}" // its name is bounded
	Closed  = "namespaces: [other]"                                         // its name is closed
)

// LuaScript is one of them.
type LuaScript struct {
	Name string
	Spec string // YAML
	Says string
}

// LuaScripts returns them for a namespace, which must not be called other.
func LuaScripts(namespace string) []LuaScript {
	return []LuaScript{
		{
			"syntax",
			"tenantId: bounded\nsource: |\n  function handle(name)\n    return name end\n  end\n",
			"spec.source: line 3, column 1: unexpected 'end'",
		},
		{
			"encoded",
			"tenantId: bounded\nscript: " + base64.StdEncoding.EncodeToString([]byte("function handle() return 1 +* 2 end")),
			"spec.script: line 1, column 29: unexpected '*'",
		},
		{
			"no-entrypoint",
			"tenantId: bounded\nsource: function main() end",
			`spec.entrypoint: the script defines no global function "handle"; define it or set the entrypoint`,
		},
		{
			"stranger",
			"tenantId: closed\nsource: function handle() end",
			"spec.tenantId: the ScriptTenant closed does not let the namespace " + namespace + " act for it: have " + namespace + " added to its spec.namespaces, or use another tenant",
		},
		{
			"nobodys",
			"tenantId: nobody\nsource: function handle() end",
			"spec.tenantId: there is no ScriptTenant nobody: have one created whose spec.namespaces names " + namespace,
		},
		{
			"own-limit",
			"tenantId: bounded\nsource: function handle() end\nlimits: {sourceBytes: 5}",
			"spec.source: the source has 21 bytes and may have 5: shorten it, or raise spec.limits.sourceBytes (at most 1048576)",
		},
		{
			"ceiling",
			"tenantId: bounded\nsource: function handle() end\nlimits: {timeout: 5s}",
			"spec.limits.timeout: 5s is more than the tenant bounded may have, 1s: ask for less, or have the tenant's limits raised",
		},
		{
			"large",
			"tenantId: bounded\nsource: function handle() return '" + strings.Repeat("x", 2000) + "' end",
			"spec.source: has 2031 bytes, more than the tenant bounded may have, 1000: have the tenant's limits.sourceBytes raised",
		},
		{
			"deep",
			"tenantId: bounded\nsource: function handle() end\nconfig: " + strings.Repeat("{a: ", 33) + "1" + strings.Repeat("}", 33),
			"spec.config: is nested deeper than 32",
		},
	}
}
