package lua_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestDiffPatterns compares find, match, gmatch and gsub.
func TestDiffPatterns(t *testing.T) {
	d := newDiffer(t)
	d.compare(t, d.make(2*cases(), d.patternCase))
}

func (d *differ) patternCase() string {
	s, p := literal(d.subject()), literal(d.pattern())
	if d.chance(40) {
		p = modest(strings.ReplaceAll(d.argument(), `\000`, "%z")) // a NUL ends a pattern there
	}
	switch d.IntN(8) {
	case 0, 1:
		return fmt.Sprintf("return string.find(%s, %s%s)", s, p, d.tail(d.position, func() string { return pick(d, "true", "false", "nil", "1") }))
	case 2, 3:
		return fmt.Sprintf("return string.match(%s, %s%s)", s, p, d.tail(d.position))
	case 4:
		return fmt.Sprintf("local t = {} for a, b, c in string.gmatch(%s, %s) do t[#t + 1] = {a, b, c} end return t", s, p)
	default:
		return fmt.Sprintf("return string.gsub(%s, %s, %s%s)", s, p, d.replacement(), d.tail(func() string {
			return pick(d, "0", "1", "2", "-1", "100", "1.7", `"2"`, "nil", "{}")
		}))
	}
}

// tail returns none, some or all of the optional arguments.
func (d *differ) tail(arguments ...func() string) string {
	var b strings.Builder
	for _, argument := range arguments[:d.IntN(len(arguments)+1)] {
		b.WriteString(", " + argument())
	}
	return b.String()
}

// position is where in a string to begin or end.
func (d *differ) position() string {
	if d.chance(8) {
		return pick(d, "nil", `"2"`, "1.5", "-1.5", "1e10", "-1e10", "0/0", "1/0", "-1/0", "true", "{}", `"x"`, "2^31", "-2^31", "2^53")
	}
	return strconv.Itoa(d.IntN(40) - 20)
}

// alphabet is what subjects and patterns share, so that they match at times.
const alphabet = "aaabbbcABCxyz0123 \t\n.,;-_()[]{}%^$*+?'\"\\"

func (d *differ) letter() byte { return alphabet[d.IntN(len(alphabet))] }

func (d *differ) subject() string {
	n := d.IntN(25)
	b := make([]byte, n)
	for i := range b {
		switch {
		case d.chance(20):
			b[i] = byte(d.IntN(256))
		case d.chance(4):
			b[i] = pick(d, byte('('), ')', '[', ']')
		case d.chance(2):
			b[i] = "ab1 "[d.IntN(4)]
		default:
			b[i] = d.letter()
		}
	}
	return string(b)
}

// pattern returns a pattern, which may be malformed.
func (d *differ) pattern() string {
	var b strings.Builder
	if d.chance(6) {
		b.WriteByte('^')
	}
	d.items(&b, 1+d.IntN(5), 0)
	if d.chance(6) {
		b.WriteByte('$')
	}
	p := b.String()
	if d.chance(25) && p != "" { // break it
		at := d.IntN(len(p))
		p = p[:at] + pick(d, "", "%", "[", "]", "(", ")", "-", "^", "$", "%b", "%f", "%1", "%9", "%0") + p[at+d.IntN(2):]
	}
	return p
}

func (d *differ) items(b *strings.Builder, n, depth int) {
	for range n {
		switch k := d.IntN(20); {
		case k < 3 && depth < 3:
			b.WriteByte('(')
			d.items(b, d.IntN(3), depth+1)
			b.WriteByte(')')
		case k == 3:
			b.WriteString("()")
		case k == 4:
			b.WriteString("%b" + pick(d, "()", "[]", "ab", "aa", "  "))
		case k == 5:
			b.WriteString("%f" + d.set())
		case k == 6 && d.chance(2):
			b.WriteString("%" + strconv.Itoa(1+d.IntN(3)))
		default:
			b.WriteString(d.single() + pick(d, "", "", "", "*", "+", "-", "?"))
		}
	}
}

// single returns a single-character class.
func (d *differ) single() string {
	switch d.IntN(6) {
	case 0:
		return "."
	case 1, 2:
		return d.class()
	case 3:
		return d.set()
	default:
		c := pick(d, byte('a'), 'b', '1', ' ', d.letter())
		if strings.IndexByte("^$()%.[]*+-?", c) >= 0 && !d.chance(10) {
			return "%" + string(c)
		}
		return string(c)
	}
}

func (d *differ) class() string {
	const classes = "acdlpsuwxzACDLPSUWXZ.%()bf-]^"
	c := classes[d.IntN(len(classes))]
	if (c == 'b' || c == 'f') && !d.chance(10) {
		c = 'w'
	}
	return "%" + string(c)
}

func (d *differ) set() string {
	var b strings.Builder
	b.WriteByte('[')
	if d.chance(4) {
		b.WriteByte('^')
	}
	if d.chance(10) {
		b.WriteString(pick(d, "]", "-", "]-", "^"))
	}
	for range 1 + d.IntN(3) {
		switch d.IntN(4) {
		case 0:
			b.WriteString(pick(d, "a-c", "0-9", "A-Z", "b-a", " -~", "x-", "-x", "%a-z", "a-%%", "\200-\377"))
		case 1:
			b.WriteString(d.class())
		default:
			if c := d.letter(); c != ']' && c != '%' {
				b.WriteByte(c)
			}
		}
	}
	b.WriteByte(']')
	return b.String()
}

func (d *differ) replacement() string {
	switch d.IntN(9) {
	case 0:
		return pick(d, `{a = "x", b = 1, ab = false, ["1"] = "%1"}`, `{[1] = "one", [2] = 22}`, `setmetatable({}, {__index = function(_, k) return k end})`)
	case 1:
		return pick(d, `function(...) return select("#", ...) end`, `function(a) return a end`, `function() end`,
			`function(a, b) return b end`, `function() return false end`, `function() return {} end`, `function(a) return #a, 2 end`,
			`function() error("no") end`, `function() error({1}) end`, `string.upper`)
	case 2:
		return pick(d, "12", "1.5", "nil", "true", "-0.5")
	default:
		var b strings.Builder
		for range d.IntN(4) {
			b.WriteString(pick(d, "x", "%0", "%1", "%2", "%%", "<", string(d.letter()), "%", "%a", "\000"))
		}
		return literal(b.String())
	}
}
