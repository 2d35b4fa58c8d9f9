package lua_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestCheckMessages(t *testing.T) {
	e := lua.New()
	for _, test := range []struct {
		source, message string
		line, column    int
	}{
		{"local x = = 1", "unexpected '='", 1, 11},
		{"function handle()\n  end end", "unexpected 'end'", 2, 7},
		{"local t = {\n  1 2\n}", "unexpected '2'", 2, 5},
		{"x = 'abc", "the string that begins here is not closed on its line", 1, 5},
		{"x = [[abc\n\n", "the long string or comment that begins here is never closed", 1, 5},
		{"--[[ abc\n\n", "the long string or comment that begins here is never closed", 1, 1},
		{"function handle()\n  if x then\n", "the script ends, but the 'if' in the line above is not closed", 3, 1},
		{"function handle(", "the script ends, but the '(' in this line is not closed", 1, 17},
		{"function handle(\n\n", "the script ends, but the '(' 2 lines above is not closed", 3, 1},
		{"return 1 +", "the script ends within a statement", 1, 11},
		{"x\ny = 1", "the statement before 'y' is incomplete", 2, 1},
		{"x = @", "invalid token near '@'", 1, 5},
		{"x = 0x", "illegal hexadecimal number near '0x'", 1, 5},
		{"x = 1e", "malformed number near", 1, 0},
		{"break", "no loop to break", 1, 0},
		{"function handle() return ... end", "cannot use '...' outside a vararg function", 1, 0},
		{"goto nowhere", "no visible label 'nowhere'", 0, 0},
		{"x = ~1", "invalid '~' token near '~'", 1, 5},
		{"for i = 1 do end", "unexpected 'do'", 1, 11},
		{"x = \"a\" \"b\"", "unexpected '\"b\"'", 1, 9},
	} {
		err := e.Check(engine.Source{Code: []byte(test.source)})
		got, ok := errors.AsType[*script.Error](err)
		if !ok {
			t.Errorf("%q: error = %v", test.source, err)
			continue
		}
		if got.Kind != script.Script || !strings.HasPrefix(got.Message, test.message) || got.Line != test.line && test.line != 0 || got.Column != test.column {
			t.Errorf("%q: %s %q line %d column %d, want %q line %d column %d",
				test.source, got.Kind, got.Message, got.Line, got.Column, test.message, test.line, test.column)
		}
	}
}

func TestCheckEntrypoint(t *testing.T) {
	e := lua.New()
	for source, defined := range map[string]bool{
		"function handle() end":                            true,
		"handle = tostring":                                true,
		"if x then handle = 1 end":                         true,
		"local function f() handle = 1 end f()":            true,
		"_G.handle = tostring":                             true,
		"_G['han' .. 'dle'] = tostring":                    true,
		"rawset(_G, 'han' .. 'dle', tostring)":             true,
		"local name = 'handle'":                            true,
		"":                                                 false,
		"local function handle() end":                      false,
		"local t = {} function t.other() end":              false,
		"function Handle() end":                            false,
		"-- function handle() end\nlocal x = [[ handle ]]": false,
	} {
		err := e.Check(engine.Source{Code: []byte(source), Entrypoint: "handle"})
		if (err == nil) != defined {
			t.Errorf("%q: %v, want defined %v", source, err, defined)
		}
	}
}

// sourceBombs are sources that would take a compiler all stack, memory or time.
// Each says how one of n parts is made.
var sourceBombs = map[string]func(n int) string{
	"braces":       func(n int) string { return "x = " + strings.Repeat("{", n) },
	"braces shut":  func(n int) string { return "x = " + strings.Repeat("{", n/2) + strings.Repeat("}", n/2) },
	"parens":       func(n int) string { return "x = " + strings.Repeat("(", n/2) + "1" + strings.Repeat(")", n/2) },
	"brackets":     func(n int) string { return "x = " + strings.Repeat("a[", n/3) + "1" + strings.Repeat("]", n/3) },
	"not":          func(n int) string { return "x = " + strings.Repeat("not ", n/4) + "1" },
	"minus":        func(n int) string { return "x = " + strings.Repeat("- ", n/2) + "1" },
	"minus number": func(n int) string { return "x = 1" + strings.Repeat("- -1", n/4) },
	"length":       func(n int) string { return "x = " + strings.Repeat("#", n) + "y" },
	"power":        func(n int) string { return "x = " + strings.Repeat("2^", n/2) + "2" },
	"concat":       func(n int) string { return "x = " + strings.Repeat("a..", n/3) + "a" },
	"concat calls": func(n int) string { return "x = a" + strings.Repeat("..f()", n/5) },
	"sum":          func(n int) string { return "x = 1" + strings.Repeat("+1", n/2) },
	"sum of names": func(n int) string { return "x = a" + strings.Repeat("+a", n/2) },
	"and":          func(n int) string { return "x = a" + strings.Repeat(" and a", n/6) },
	"or":           func(n int) string { return "if a" + strings.Repeat(" or a", n/5) + " then end" },
	"compare":      func(n int) string { return "x = a" + strings.Repeat("<a", n/2) },
	"fields":       func(n int) string { return "x = a" + strings.Repeat(".b", n/2) },
	"calls":        func(n int) string { return "x = a" + strings.Repeat("()", n/2) },
	"methods":      func(n int) string { return "x = a" + strings.Repeat(":b()", n/4) },
	"strings":      func(n int) string { return "x = a" + strings.Repeat("''", n/2) },
	"elseif":       func(n int) string { return "if a then" + strings.Repeat(" elseif a then", n/14) + " end" },
	"ifs":          func(n int) string { return strings.Repeat("if a then ", n/10) },
	"dos":          func(n int) string { return strings.Repeat("do ", n/7) + strings.Repeat("end ", n/7) },
	"repeats":      func(n int) string { return strings.Repeat("repeat ", n/7) },
	"functions":    func(n int) string { return "x = " + strings.Repeat("function() return ", n/18) },
	"function row": func(n int) string { return strings.Repeat("function f()end ", n/16) },
	"locals":       func(n int) string { return strings.Repeat("local a ", n/8) },
	"local list":   func(n int) string { return "local a" + strings.Repeat(",a", n/2) },
	"parameters":   func(n int) string { return "function f(a" + strings.Repeat(",a", n/2) + ") end" },
	"arguments":    func(n int) string { return "f(a" + strings.Repeat(",a", n/2) + ")" },
	"assignments":  func(n int) string { return "a" + strings.Repeat(",a", n/4) + "=1" + strings.Repeat(",1", n/4) },
	"returns":      func(n int) string { return "return 1" + strings.Repeat(",1", n/2) },
	"items":        func(n int) string { return "x = {" + strings.Repeat("1,", n/2) + "}" },
	"members":      func(n int) string { return "x = {" + strings.Repeat("a=1,", n/4) + "}" },
	"labels":       func(n int) string { return many(n/10, "::l%d:: ") },
	"gotos":        func(n int) string { return strings.Repeat("goto x ", n/7) + "::x::" },
	"constants":    func(n int) string { return many(n/9, "a=%d ") },
	"numbers":      func(n int) string { return "x = " + strings.Repeat("9", n) },
	"names":        func(n int) string { return many(n/12, "a%d=1 ") },
	"conditions":   func(n int) string { return strings.Repeat("a=b or c ", n/9) },
	"statements":   func(n int) string { return strings.Repeat("a=b ", n/4) },
	"semicolons":   func(n int) string { return "a=1" + strings.Repeat(";", n) },
	"comments":     func(n int) string { return strings.Repeat("--[[]]", n/6) },
	"equals":       func(n int) string { return "x = [" + strings.Repeat("=", n) },
	"swaps":        func(n int) string { return strings.Repeat("a,b=b,a ", n/8) },
	"members set":  func(n int) string { return strings.Repeat("a.b=c ", n/6) },
	"table calls":  func(n int) string { return strings.Repeat("f{}", n/3) },
	"text calls":   func(n int) string { return strings.Repeat("f''", n/3) },
	"call row":     func(n int) string { return strings.Repeat("f();", n/4) },
	"method row":   func(n int) string { return strings.Repeat("a:b()", n/5) },
	"lengths":      func(n int) string { return strings.Repeat("a=#b ", n/5) },
	"joins":        func(n int) string { return strings.Repeat("a=b..c ", n/7) },
	"sums":         func(n int) string { return strings.Repeat("a=b+c ", n/6) },
	"empty tables": func(n int) string { return "x={" + strings.Repeat("{},", n/3) + "}" },
	"tables":       func(n int) string { return "x={" + strings.Repeat("{a=1},", n/6) + "}" },
	"empty blocks": func(n int) string { return "while x do " + strings.Repeat("do do end end ", n/14) + "end" },
	"labels first": func(n int) string {
		return "while x do " + many(50, "::l%d:: ") + strings.Repeat("do do end end ", max(n-450, 0)/14) + "end"
	},
	"labels deep": func(n int) string {
		return "while x do " + many(190, "do ::l%d:: ") + strings.Repeat("do do end end ", max(n-3100, 0)/14) + strings.Repeat("end ", 190) + "end"
	},
	"scoped":       func(n int) string { return strings.Repeat("do local a end ", n/15) },
	"loops":        func(n int) string { return strings.Repeat("for a in b do end ", n/18) },
	"whiles":       func(n int) string { return strings.Repeat("while a do end ", n/15) },
	"row of ifs":   func(n int) string { return strings.Repeat("if a then end ", n/14) },
	"returned":     func(n int) string { return "return{" + strings.Repeat("a,", n/2-5) + "}" },
	"varied":       func(n int) string { return "return{" + many(n/8, "'%d',") + "}" },
	"varied names": func(n int) string { return "return{" + many(n/8, "a%d,") + "}" },
	"few constants": func(n int) string { // as many as there may be, looked up as often as it goes
		return "x={" + many(min(n/6, 3000), "'%d',") + strings.Repeat("'2999',", min(max(n-20000, 0)/7, 800)) + "}"
	},
	"in functions": func(n int) string { // as many constants as there may be, in each of some functions
		return strings.Repeat("function f()return{"+many(500, "'%d',")+"}end ", n/3000)
	},
	"labels and gotos": func(n int) string {
		return strings.Repeat("function f() "+many(100, "::l%d:: ")+many(100, "goto l%d ")+"end ", n/1800)
	},
	"generated twice": func(n int) string { // with its globals as variables it uses too many
		var b strings.Builder
		names := strings.TrimSuffix(many(199, "l%d,"), ",")
		for i := range 4 {
			fmt.Fprintf(&b, "local function f%d() local %s = 1 return function() ", i, names)
		}
		b.WriteString("return " + names + " end" + strings.Repeat(" end end", 3) + " end ")
		return b.String() + many(40, "g%d=1 ") + "x={" + many(min(max(n-b.Len(), 0)/10, 2500), "'%d',") + "}"
	},
	"numerals":  func(n int) string { return "x={" + strings.Repeat("0xffffffff,1e300,", n/17) + "}" },
	"escapes":   func(n int) string { return "x='" + strings.Repeat("\\065", n/4) + "'" },
	"long text": func(n int) string { return "x=[==[" + strings.Repeat("\n", n) + "]==]" },
	"upvalues": func(n int) string {
		return strings.Repeat("local a,b,c,d,e,f,g,h=1 ", 20) + "function x() " + strings.Repeat("a=b ", n/4) + "end"
	},
	"scopes": func(n int) string {
		var b strings.Builder
		for i := range 60 {
			fmt.Fprintf(&b, "return function() local %s ", strings.TrimSuffix(many(180, fmt.Sprintf("v%d_%%d,", i)), ","))
		}
		return b.String() + strings.Repeat("x=y ", max(n-b.Len(), 0)/4) + strings.Repeat(" end", 60)
	},
}

func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestSourceBombs gives the compiler sources that are larger than the default. Most are
// refused; what is accepted must run, or end in an error, like any other.
func TestSourceBombs(t *testing.T) {
	needs.NoRace(t)
	for name, source := range sourceBombs {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{2000, 200_000} {
				e := lua.New()
				src := engine.Source{Code: []byte(source(n))}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				p, err := e.Compile(src)
				runtime.ReadMemStats(&after)
				const most = 600 << 20
				if took := after.TotalAlloc - before.TotalAlloc; took > most {
					t.Errorf("%d bytes of source: %d MiB allocated", len(src.Code), took>>20)
				}
				if err != nil {
					luatest.WantPresentable(t, err)
					if kind := script.KindOf(err); kind != script.Script && kind != script.Limit {
						t.Errorf("%d bytes: %v (%s)", len(src.Code), err, kind)
					}
					continue
				}
				_, err = luatest.Run(t, p, "acme")
				luatest.WantPresentable(t, err)
			}
		})
	}
}
