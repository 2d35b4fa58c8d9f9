package lua_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestDiffPositions compares the lines that messages name.
func TestDiffPositions(t *testing.T) {
	d := newDiffer(t)
	d.driver = diffPositions
	bodies := []string{
		"\nlocal function f() error('x') end\nf()",
		"\nlocal function f() error('x', 0) end\nf()",
		"\nlocal function f() error('x', 1) end\nf()",
		"\nlocal function f() error('x', 2) end\nf()",
		"\nlocal function f()\n error('x', 3) end\nlocal function g()\n f() return 1 end\ng() return 1",
		"\nlocal function f()\n error('x', 50)\nend\nf()",
		"\nlocal function f() error({1}, 2) end\nf()",
		"\nlocal function f() error(12, 2) end\nf()",
		"\nlocal function f() error() end\nf()",
		"\nlocal function f() error(nil, 2) end\nf()",
		"\nreturn pcall(error, 'x')",
		"\nreturn pcall(error, 'x', 2)",
		"\nlocal x\nx = nil + 1",
		"\nlocal x = {}\nx.y()\nreturn x",
		"\nlocal x = 1 < {}",
		"\nlocal x = 'a' .. {}",
		"\nassert(false)",
		"\nassert(nil, 'm')",
		"\nassert(false, 12)",
		"\nstring.rep()",
		"\nlocal t = setmetatable({}, {__index = function(t, k)\n error('no ' .. k) end})\nreturn t.x",
		"\nlocal t = setmetatable({}, {__index = function(t, k)\n error('no ' .. k, 2) end})\nreturn t.x",
		"\nlocal t = {3, 1, 2}\ntable.sort(t, function(a, b)\n error('cmp') end)",
		"\nreturn pcall(function()\n error('inner') end)",
		"\nreturn select(2, pcall(function()\n local x = y.z end))",
		"\nreturn xpcall(function()\n error('a') end, function(m) return m .. '!' end)",
		"\nreturn xpcall(function()\n error('a') end, function(m) error(m) end)",
		"\nfor i = 1, 3 do\n if i == 2 then error(i) end\nend",
		"\nlocal co = coroutine.create(function()\n error('in') end)\nreturn coroutine.resume(co)",
		"\nlocal co = coroutine.wrap(function()\n error({}) end)\nreturn co()",
	}
	d.compare(t, bodies)
}

// TestDiffPrograms compares small programs: control flow, scope, varargs, closures
// and metamethods.
func TestDiffPrograms(t *testing.T) {
	d := newDiffer(t)
	d.compare(t, d.make(cases(), func() string {
		if d.chance(3) {
			return d.metaProgram()
		}
		p := programmer{differ: d, names: []string{"a", "b", "c"}}
		p.line("local log = {} local a, b, c = 1, 'x', {1, 2, 3}")
		p.block(2)
		p.line("return a, b, c, log")
		return p.text.String()
	}))
}

// programmer makes a program up.
type programmer struct {
	*differ
	text  strings.Builder
	names []string
	loops int
}

func (p *programmer) line(format string, args ...any) { fmt.Fprintf(&p.text, format+" ", args...) }

func (p *programmer) name() string { return p.names[p.IntN(len(p.names))] }

func (p *programmer) value() string {
	switch p.IntN(11) {
	case 9:
		return fmt.Sprintf("%s(%s %s %s)", pick(p.differ, "not ", "type", "", "1 == "), p.name(), pick(p.differ, "and", "or", "=="), p.value())
	case 10:
		return fmt.Sprintf("(%s %s %s) %s %s", p.name(), pick(p.differ, "and", "or"), p.name(), pick(p.differ, "and", "or", "=="), p.value())
	case 0:
		return pick(p.differ, "nil", "true", "false")
	case 1:
		return pick(p.differ, `"y"`, `"10"`, `""`)
	case 2:
		return fmt.Sprintf("(function(...) return %s end)(%s, %s)", pick(p.differ, "...", "(...)", "select('#', ...)", "..., 1", "{...}"), p.name(), p.name())
	case 3:
		return fmt.Sprintf("(%s %s %s)", p.name(), pick(p.differ, "and", "or", "==", "~="), p.name())
	case 4:
		return fmt.Sprintf("{%s, %s, k = %s}", p.name(), p.name(), p.name())
	case 5:
		return fmt.Sprintf("(tonumber(%s) or %d) %s %d", p.name(), p.IntN(9), pick(p.differ, "+", "-", "*"), p.IntN(9))
	case 6:
		return p.name()
	default:
		return fmt.Sprint(p.IntN(20))
	}
}

func (p *programmer) block(depth int) {
	scope := len(p.names)
	for range 1 + p.IntN(4) {
		p.statement(depth)
	}
	p.names = p.names[:scope]
}

func (p *programmer) statement(depth int) {
	kind := p.IntN(16)
	if depth == 0 && kind > 5 {
		kind %= 6
	}
	switch kind {
	case 12: // closures over the variables of a loop
		p.loops++
		p.line("do local fs, m = {}, 0 repeat m = m + 1 local q = %s fs[m] = function(z) q = z or q return q, %s end", p.value(), p.name())
		p.line("if %s then break end until m >= 3 or q == %s", p.value(), p.name())
		p.line("for _, f in ipairs(fs) do log[#log + 1] = tostring(type(f(%s))) %s = (f()) end end", p.name(), p.name())
	case 13: // methods and fields
		p.line("do local o = {v = %s, get = function(self, ...) return self.v, ... end, set = function(self, v) self.v = v return self end}", p.value())
		p.line("%s = o:set(%s):get(%s) %s = select('#', o:get(%s, o:get())) o.v, o.w = o.w, %s log[#log + 1] = type(o.v) .. type(o.w) end",
			p.name(), p.value(), p.name(), p.name(), p.name(), p.value())
	case 14: // values in a row
		p.line("do local function r(...) return %s, ... end local l = {r(), r(%s, %s), (r(1)), r(r(%s))}", p.value(), p.name(), p.value(), p.name())
		p.line("%s = #l > 2 and l[3] %s = l[%d] log[#log + 1] = type(l[2]) end", p.name(), p.name(), 1+p.IntN(5))
	case 15: // loops within each other that end early
		p.line("for i = 1, 3 do for j = 3, 1, -1 do local f = function() i = j return %s end if %s then break end %s = f() end", p.value(), p.value(), p.name())
		p.line("if %s then local u = %s %s = u break else %s = i end end", p.value(), p.value(), p.name(), p.name())
	case 0:
		p.line("%s = %s", p.name(), p.value())
	case 1:
		p.line("%s, %s = %s, %s", p.name(), p.name(), p.value(), p.value())
	case 2:
		p.line("%s, %s, %s = %s", p.name(), p.name(), p.name(), p.value())
	case 3:
		name := pick(p.differ, "d", "e", "f", "a")
		p.line("local %s, g = %s", name, p.value())
		p.names = append(p.names, name, "g")
	case 4:
		p.line("if type(%s) == 'table' then %s.k, %s = %s, %s end", "c", "c", p.name(), p.value(), p.value())
	case 5:
		p.line("log[#log + 1] = tostring(type(%s)) .. #log", p.name())
	case 6:
		p.line("if %s then", p.value())
		p.block(depth - 1)
		p.line("else")
		p.block(depth - 1)
		p.line("end")
	case 7:
		p.line("for i = %d, %d, %s do", p.IntN(5), p.IntN(8), pick(p.differ, "1", "2", "-1", "0.5"))
		p.names = append(p.names, "i")
		p.block(depth - 1)
		p.names = p.names[:len(p.names)-1]
		if p.chance(3) {
			p.line("if %s then break end", p.value())
		}
		p.line("end")
	case 8:
		p.line("for k, v in ipairs({%s, %s}) do", p.value(), p.value())
		p.names = append(p.names, "k", "v")
		p.block(depth - 1)
		p.names = p.names[:len(p.names)-2]
		p.line("end")
	case 9:
		p.loops++
		p.line("do local n%d = 0 %s", p.loops, pick(p.differ, "repeat", fmt.Sprintf("while n%d < 3 do", p.loops)))
		repeats := strings.HasSuffix(p.text.String(), "repeat ")
		p.line("n%d = n%d + 1", p.loops, p.loops)
		loop := p.loops
		p.block(depth - 1)
		if repeats {
			p.line("until n%d >= 2 end", loop)
		} else {
			p.line("end end")
		}
	case 10:
		p.line("local function h(x, y, ...)")
		p.names = append(p.names, "x", "y")
		p.block(depth - 1)
		p.names = p.names[:len(p.names)-2]
		p.line("return x, %s end", p.value())
		p.line("%s, %s = h(%s)", p.name(), p.name(), p.value())
	default:
		p.line("local fs = {} for j = 1, 3 do local u = j fs[j] = function(x) u = u + (tonumber(x) or 1) return u end end")
		p.line("%s = fs[1](%s) + fs[2]() + fs[1]()", p.name(), p.name())
	}
}

// metaProgram uses metamethods.
func (d *differ) metaProgram() string {
	var b strings.Builder
	b.WriteString(`local log = {} local function note(n) return function(...) log[#log + 1] = n .. select("#", ...) `)
	fmt.Fprintf(&b, `return %s end end local m = {} `, pick(d, "1", "true", "false", "nil", `"s"`, "(...)", "{7}", "2, 3"))
	for _, event := range []string{"__add", "__sub", "__mul", "__div", "__mod", "__pow", "__unm", "__concat", "__eq", "__lt", "__le", "__index", "__newindex", "__call", "__tostring"} {
		if d.chance(2) {
			fmt.Fprintf(&b, "m.%s = note(%q) ", event, event)
			if event == "__unm" { // Lua hands it the operand twice
				b.WriteString("m.__unm = function(v) log[#log + 1] = 'unm' return v end ")
			}
		}
	}
	if d.chance(4) {
		b.WriteString("m.__metatable = 'locked' ")
	}
	if d.chance(4) {
		b.WriteString("m.__index = {x = 5, y = 6} ")
	}
	b.WriteString("local t, u, v = setmetatable({1, 2}, m), setmetatable({}, m), {3} ")
	if d.chance(3) {
		b.WriteString("setmetatable(v, {__add = note('other'), __lt = note('lt'), __concat = note('cc'), __eq = m.__eq}) ")
	}
	operand := func() string { return pick(d, "t", "u", "v", "t", "1", `"2"`, `"z"`, "nil", "true") }
	var results []string
	for range 1 + d.IntN(3) {
		results = append(results, pick(d,
			fmt.Sprintf("%s %s %s", operand(), pick(d, "+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", ">", ">="), operand()),
			"-"+pick(d, "t", "u", "v"), "#"+pick(d, "t", "u", "v"), "t.x", "u[1]", "u(1, 2)", "v(1)", "tostring(t)", "rawget(u, 'x')", "rawequal(t, u)",
			"getmetatable(t) == m", "(function() u.z = 1 return rawget(u, 'z') end)()", "select('#', setmetatable(u, nil))", "t .. 1 .. 'a' .. u", "next(u)",
			"pcall(t, 1)", "not t", "t and u and 1"))
	}
	fmt.Fprintf(&b, "local r = {%s} return r[1], r[2], r[3], r[4], log", strings.Join(results, ", "))
	return b.String()
}
