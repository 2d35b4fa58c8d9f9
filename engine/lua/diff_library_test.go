package lua_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDiffLibrary calls functions of the libraries with any arguments.
func TestDiffLibrary(t *testing.T) {
	d := newDiffer(t)
	d.compare(t, d.make(2*cases(), d.libraryCase))
}

// stringCalls are calls of the string library that make sense.
var stringCalls = []string{"byte", "sub", "rep", "reverse", "upper", "lower", "len"}

// patternCalls are calls that take patterns.
var patternCalls = []string{"string.find", "string.match", "string.gmatch", "string.gsub"}

// anyCalls are functions that are called with anything.
var anyCalls = strings.Fields(`
string.byte string.char string.find string.format string.gmatch string.gsub string.len string.lower string.match string.reverse string.sub
string.upper table.concat table.getn table.insert table.maxn table.remove table.sort
math.abs math.ceil math.floor math.fmod math.frexp math.ldexp math.max math.min math.modf math.mod math.pow math.sqrt math.deg math.rad
math.exp math.log math.log10 math.sin math.cos math.tan math.asin math.acos math.atan math.atan2 math.sinh math.cosh math.tanh tostring tonumber type select unpack next pairs ipairs rawequal rawget rawset assert error setmetatable getmetatable pcall
xpcall os.difftime`)

func (d *differ) libraryCase() string {
	switch d.IntN(9) {
	case 0:
		return fmt.Sprintf("return os.date(%s, %d)", literal(pick(d, "!%c", "!%Y-%m-%dT%H:%M:%S", "%x %X %p", "!%j %U %W %w %a %A %b %B", "%d%y%I%M%%")),
			d.Int64N(1<<32))
	case 1:
		return fmt.Sprintf("return os.time({year = %d, month = %d, day = %d, hour = %s, min = %s})", 1970+d.IntN(60), d.IntN(20)-3, d.IntN(60)-10,
			pick(d, "nil", "0", `"7"`, "30", "-1"), pick(d, "nil", "59", "61"))
	case 2, 3:
		name := pick(d, stringCalls...)
		positions := d.tail(d.position, d.position)
		if name == "rep" {
			positions = ", " + pick(d, "0", "1", "3", "-1", "2.9", `"2"`, "0/0", "-1/0", "nil", "{}")
		}
		return fmt.Sprintf("return string.%s(%s%s)", name, literal(d.subject()), positions)
	case 4, 5:
		return d.tableCase()
	default:
		var arguments []string
		for range d.IntN(4) {
			arguments = append(arguments, d.argument())
		}
		name := pick(d, anyCalls...)
		if strings.HasPrefix(name, "string.") && len(arguments) > 0 {
			arguments[0] = modest(arguments[0])
		}
		if name == "table.insert" && len(arguments) > 1 {
			arguments[1] = d.smallIndex() // or it would move members for ages
		}
		if slices.Contains(patternCalls, name) {
			for i, argument := range arguments {
				arguments[i] = strings.ReplaceAll(argument, `\000`, "%z") // a NUL ends a pattern there
			}
		}
		list := strings.Join(arguments, ", ")
		if strings.HasPrefix(name, "string.") && len(arguments) > 0 && d.chance(4) {
			return fmt.Sprintf("return (%s):%s(%s)", arguments[0], strings.TrimPrefix(name, "string."), strings.Join(arguments[1:], ", "))
		}
		return fmt.Sprintf("return %s(%s)", name, list)
	}
}

// tableCase changes a table by several calls.
func (d *differ) tableCase() string {
	var items []string
	for range d.IntN(8) {
		items = append(items, modest(pick(d, d.number(), d.number(), literal(d.subject()), strconv.Itoa(d.IntN(10)))))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "local t = {%s} local r = {} ", strings.Join(items, ", "))
	for range 1 + d.IntN(4) {
		position := pick(d, "1", "math.max(1, #t)", "math.max(1, #t - 1)", "#t + 1", "1.5", `"1"`)
		switch d.IntN(8) {
		case 0:
			fmt.Fprintf(&b, "table.insert(t, %s) ", modest(d.number()))
		case 1:
			fmt.Fprintf(&b, "table.insert(t, %s, %s) ", position, modest(d.number()))
		case 2:
			fmt.Fprintf(&b, "r[#r + 1] = {table.remove(t%s)} ", d.tail(func() string { return position }))
		case 3:
			fmt.Fprintf(&b, "r[#r + 1] = table.concat(t%s) ", d.tail(func() string { return pick(d, `","`, "nil", "1", "{}") }, d.smallIndex, d.smallIndex))
		case 4:
			fmt.Fprintf(&b, "r[#r + 1] = {unpack(t%s)} ", d.tail(d.smallIndex, d.smallIndex))
		case 5:
			fmt.Fprintf(&b, "table.sort(t%s) ", pick(d, "", "", ", function(a, b) return type(a) .. tostring(a) < type(b) .. tostring(b) end",
				", function(a, b) return tostring(a) .. type(a) > tostring(b) .. type(b) end", ", 1"))
		case 6:
			b.WriteString("r[#r + 1] = {#t, table.getn(t), table.maxn(t), select('#', unpack(t)), next({}), next({5})} ")
		case 7:
			b.WriteString("for i, v in ipairs(t) do r[#r + 1] = {i, v} end for k, v in pairs(r) do t[#t + 1] = k end ")
		}
	}
	b.WriteString("return t, r")
	return b.String()
}

func (d *differ) smallIndex() string {
	return pick(d, "1", "2", "0", "-1", "3", "nil", `"2"`, "2.5", "#t", "8")
}

// TestDiffErrors compares what calls with missing or wrong arguments raise.
func TestDiffErrors(t *testing.T) {
	d := newDiffer(t)
	d.compare(t, d.make(cases(), func() string {
		name := pick(d, anyCalls...)
		var arguments []string
		for range d.IntN(3) {
			arguments = append(arguments, pick(d, "nil", "{}", "true", "1", `"x"`, `"1"`, "tostring", "-1"))
		}
		return fmt.Sprintf("return %s(%s)", name, strings.Join(arguments, ", "))
	}))
}
