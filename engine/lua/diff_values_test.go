package lua_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// TestDiffFormat compares string.format.
func TestDiffFormat(t *testing.T) {
	d := newDiffer(t)
	d.compare(t, d.make(cases(), d.formatCase))
}

func (d *differ) formatCase() string {
	var format, arguments strings.Builder
	for range 1 + d.IntN(3) {
		format.WriteString(pick(d, "", "", "x", "[", "%%", "\t"))
		verb := pick(d, "d", "i", "u", "c", "x", "X", "o", "e", "E", "f", "g", "G", "q", "s")
		format.WriteString("%" + d.flags() + verb)
		argument := d.oddNumber()
		if verb == "s" || verb == "q" {
			text := strings.ReplaceAll(d.subject(), "\x00", "0")
			argument = pick(d, literal(text), literal(strings.Repeat(text, 10)), modest(d.number()))
		}
		if verb == "c" {
			argument = strconv.Itoa(d.IntN(256))
		}
		if d.chance(30) && verb != "c" {
			argument = modest(strings.ReplaceAll(d.argument(), `\000`, "0"))
		}
		if !d.chance(40) {
			arguments.WriteString(", " + argument)
		}
	}
	f := format.String()
	if d.chance(40) {
		f = pick(d, "%", "%y", "%5", "%10.123f", "%123d", "%-+ #0-d", "%.", "%.d", "%5%", "%ll", "%D", "%a", "%p", "%n", "% s") + f
	}
	return fmt.Sprintf("return string.format(%s%s)", literal(f), arguments.String())
}

func (d *differ) flags() string {
	var b strings.Builder
	if d.chance(2) {
		for range d.IntN(3) {
			b.WriteString(pick(d, "-", "+", " ", "#", "0"))
		}
	}
	if d.chance(2) {
		b.WriteString(strconv.Itoa(d.IntN(24)))
	}
	if d.chance(3) {
		b.WriteString("." + pick(d, "", strconv.Itoa(d.IntN(20)), strconv.Itoa(d.IntN(4))))
	}
	return b.String()
}

// number returns an expression for a number, often an odd one.
func (d *differ) number() string {
	switch d.IntN(9) {
	case 0:
		return pick(d, "0", "1e300", "-1e-300", "5e-324", "1e16", "123456789012345678", "1e100", "0.1", "99999999999999.5", "0.5", "1.5",
			"2.5", "-0.5", "1e-5", "0.0001")
	case 1:
		return strconv.FormatFloat(math.Float64frombits(d.Uint64()&^(1<<62)|1<<61), 'g', 17, 64)
	case 2:
		return strconv.FormatFloat((d.Float64()-0.5)*math.Pow(10, float64(d.IntN(40)-20)), 'g', -1, 64)
	case 3:
		return strconv.FormatFloat(math.Round(d.NormFloat64()*1e4)/100, 'f', -1, 64)
	case 4:
		return strconv.FormatInt(d.Int64N(2e14)-1e14, 10)
	default:
		return strconv.Itoa(d.IntN(300) - 100)
	}
}

// modest replaces an integer of so many digits that its text is another one in Lua.
func modest(expression string) string {
	const least, most = 1e13, 1e17
	if f, err := strconv.ParseFloat(expression, 64); err == nil && math.Abs(f) >= least && math.Abs(f) < most {
		return "77"
	}
	return expression
}

// oddNumber returns an expression for a number, now and then one that few expect.
func (d *differ) oddNumber() string {
	if !d.chance(8) {
		return d.number()
	}
	return pick(d, "1/0", "-1/0", "0/0", "1e15", "2^53", "-2^53", "2^53 - 1", "1e14", "2^63", "-2^63", "2^31", "-2^31", "2^32")
}

// argument returns an expression for a value of any type.
func (d *differ) argument() string {
	switch d.IntN(11) {
	case 0:
		return pick(d, "nil", "true", "false")
	case 1:
		return pick(d, "{}", "{1, 2, 3}", "{3, 1, 2}", `{"a", "b", 3}`, "{{1}}")
	case 2:
		return pick(d, "tostring", "function() end", "function(a, b) return a < b end")
	case 3, 4, 5:
		return d.number()
	case 6:
		return literal(d.numeral())
	default:
		return literal(d.subject())
	}
}

// numeral is text that may be a number.
func (d *differ) numeral() string {
	text := pick(d, strconv.Itoa(d.IntN(2000)-1000), fmt.Sprintf("%x", d.IntN(1<<30)), fmt.Sprintf("0x%X", d.IntN(1<<30)),
		strconv.FormatFloat(d.NormFloat64(), 'e', -1, 64), "0x", "1e", "1e+5", "1E-5", ".5", "5.", ".", "1.2.3", "0b1", "1_0", "+7", "- 7", "--7", "",
		"zz", "7fffffff", "1e400", "0x1234567890abcdef", "00012", "1e5x", "e5", "0xg", "10", "11", "777", "١")
	if d.chance(4) {
		text = pick(d, " ", "\t", "\n", "\v", "\f", "\r", "  ") + text
	}
	if d.chance(4) {
		text += pick(d, " ", "\t", "\n", "\v", "\f", "\r", "x", " 1", "\000")
	}
	return text
}

// TestDiffNumbers compares conversions and arithmetic.
func TestDiffNumbers(t *testing.T) {
	d := newDiffer(t)
	d.compare(t, d.make(cases(), d.numberCase))
}

func (d *differ) numberCase() string {
	switch d.IntN(5) {
	case 0:
		return fmt.Sprintf("return tostring(%s)", pick(d, d.oddNumber(), "-0"))
	case 1:
		return fmt.Sprintf("return tonumber(%s)", pick(d, literal(d.numeral()), d.argument()))
	case 2:
		return fmt.Sprintf("return tonumber(%s, %s)", pick(d, literal(d.numeral()), literal(d.numeral()), modest(d.argument())),
			pick(d, "2", "3", "8", "10", "16", "36", "1", "37", "0", "nil", `"16"`, "16.5"))
	case 3:
		return "return " + d.expression(3)
	default:
		return fmt.Sprintf("local a, b, c = %s, %s, %s return %s", d.argument(), d.argument(), d.number(), d.expression(3))
	}
}

// expression combines values by operators.
func (d *differ) expression(depth int) string {
	if depth == 0 || d.chance(4) {
		switch d.IntN(6) {
		case 0:
			return "(" + d.argument() + ")"
		case 1, 2:
			return pick(d, "a", "b", "c")
		default:
			return "(" + d.number() + ")"
		}
	}
	left, right := d.expression(depth-1), d.expression(depth-1)
	switch d.IntN(10) {
	case 0:
		return "not " + left
	case 1:
		return "- " + left
	case 2:
		return "join(" + left + ", " + right + ")"
	case 3:
		return "(" + left + pick(d, " == ", " ~= ") + right + ")"
	case 4:
		return "(" + left + pick(d, " and ", " or ") + right + ")"
	case 5:
		return "(" + left + pick(d, " < ", " <= ", " > ", " >= ") + right + ")"
	case 6:
		return "#(" + left + ")"
	case 7:
		return "mod(" + d.expression(0) + ", " + d.expression(0) + ")" // what is rounded otherwise has other remainders
	default:
		return "(" + left + pick(d, " + ", " - ", " * ", " / ", " ^ ") + right + ")"
	}
}
