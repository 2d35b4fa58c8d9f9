package manifest

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

var engines = []string{script.EngineLua, script.EngineRego, script.EngineWasm}

// runtime reads spec.runtime: the engine of the script.
func (d *decoder) runtime(n *yaml.Node, kind string) string {
	if n == nil {
		return script.EngineLua
	}
	const field = "spec.runtime"
	name, ok := d.text(n, field)
	switch {
	case ok && !slices.Contains(engines, name):
		d.fault(n, field, "%.80q is not a runtime: want one of %s", name, strings.Join(engines, ", "))
	case ok && kind == LuaKind && name != script.EngineLua:
		d.fault(n, field, "is %s, and a %s is in Lua: set kind to %s", name, LuaKind, Kind)
	}
	return name
}

// options reads spec.wasm and spec.rego.
func (d *decoder) options(fields map[string]*yaml.Node) (r script.Runtime) {
	if o, ok := d.section(fields["wasm"], "spec.wasm", wasmFields); ok {
		r.Wasm.Reuse = d.boolean(o["reuse"], "spec.wasm.reuse", false)
	}
	if o, ok := d.section(fields["rego"], "spec.rego", regoFields); ok {
		for name, value := range map[string]*string{"input": &r.Rego.Input, "target": &r.Rego.Target} {
			if o[name] != nil {
				*value, _ = d.text(o[name], "spec.rego."+name)
			}
		}
		r.Rego.V0 = d.boolean(o["v0"], "spec.rego.v0", false)
	}
	return r
}

// section reads an object that may be absent.
func (d *decoder) section(n *yaml.Node, path string, known []string) (map[string]*yaml.Node, bool) {
	if n == nil {
		return nil, false
	}
	return d.object(n, path, known)
}

// checkEngine refuses what a script of the runtime cannot have.
func (d *decoder) checkEngine(spec *yaml.Node, fields map[string]*yaml.Node, m *Manifest) {
	if !slices.Contains(engines, m.Engine) {
		return // which is a fault already
	}
	e := script.AsError(m.Settings.CheckEngine("spec", m.Engine))
	if e == nil {
		return
	}
	part, _, _ := strings.Cut(strings.TrimPrefix(e.Field, "spec."), ".")
	at := fields[part]
	if at == nil {
		at = spec
	}
	d.fault(at, e.Field, "%s", e.Message)
}

func (d *decoder) limits(n *yaml.Node) script.Limits {
	const path = "spec.limits"
	fields, ok := d.section(n, path, limitFields)
	if !ok {
		return script.Limits{}
	}
	most := script.MaxLimits()
	size := func(field string, highest int) int {
		return int(d.number(fields[field], path+"."+field, uint64(highest)))
	}
	l := script.Limits{
		Instructions: d.number(fields["instructions"], path+".instructions", most.Instructions),
		Timeout:      d.duration(fields["timeout"], path+".timeout", most.Timeout),
		SourceBytes:  size("sourceBytes", script.MaxArtifactBytes),
		ResultBytes:  size("resultBytes", most.ResultBytes),
		LogBytes:     size("logBytes", most.LogBytes),
		Concurrency:  size("concurrency", most.Concurrency),
	}
	d.luaLimits(fields, &l)
	if wasm, ok := d.section(fields["wasm"], path+".wasm", wasmLimits); ok {
		l.WasmMemory = int(d.number(wasm["memory"], path+".wasm.memory", uint64(script.MaxWasmMemory)))
	}
	return l
}

// luaLimits reads limits.lua, and the names that its fields had before there were other runtimes.
func (d *decoder) luaLimits(fields map[string]*yaml.Node, l *script.Limits) {
	const path = "spec.limits"
	lua, _ := d.section(fields["lua"], path+".lua", luaLimits)
	merged := maps.Clone(lua)
	for _, name := range luaLimits {
		if before := fields[name]; before != nil && lua[name] != nil {
			d.fault(before, path+"."+name, "is the former name of %s.lua.%s, which is there as well: remove it", path, name)
		} else if before != nil {
			if merged == nil {
				merged = map[string]*yaml.Node{}
			}
			merged[name] = before
		}
	}
	at := func(name string) string {
		if fields[name] != nil {
			return path + "." + name
		}
		return path + ".lua." + name
	}
	l.StringBytes = int(d.number(merged["stringBytes"], at("stringBytes"), uint64(script.MaxLimits().StringBytes)))
	l.Coroutines = d.boolean(merged["coroutines"], at("coroutines"), false)
}
