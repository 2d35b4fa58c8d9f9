package lua_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// rule is a difference from Lua 5.1 that docs/lua.md declares, in words that it
// contains.
type rule struct {
	declared string
	// differs reports whether this, and nothing else, is why here and there are
	// not the same.
	differs func(body, here, there string) bool
}

// rewritten is a rule for what becomes the same once it is rewritten here and
// there.
func rewritten(declared, pattern string, with func(string) string) rule {
	re := regexp.MustCompile(pattern)
	return rule{declared, func(_, here, there string) bool {
		return re.ReplaceAllStringFunc(here, with) == re.ReplaceAllStringFunc(there, with)
	}}
}

// within restricts a rule to bodies that match.
func within(pattern string, r rule) rule {
	re, differs := regexp.MustCompile(pattern), r.differs
	r.differs = func(body, here, there string) bool { return re.MatchString(body) && differs(body, here, there) }
	return r
}

var (
	namedKey   = regexp.MustCompile(` \(key '[^']*'\)|, key '[^']*'`)
	suggestion = regexp.MustCompile(`: did you mean [\w.]+\?`)
	signedNaN  = regexp.MustCompile(`[-+ ]*(?:nan|NAN) *`)
	escaped    = regexp.MustCompile(`\\\d{3}`)
	cutNUL     = regexp.MustCompile(`(?:\\000| )+`)
	number     = regexp.MustCompile(`-?\d+\.?\d*(?:e[-+]\d+)?`)
	rounded    = regexp.MustCompile(`\d(?:\\\.\d{1,13})?e\\\+1[456]`) // once it is quoted
	methodCall = regexp.MustCompile(`(?:calling '(\w+)' on bad self|bad argument #(\d+) to '(\w+)')`)
)

var rules = []rule{
	{"the key that was looked for", func(_, here, there string) bool { return namedKey.ReplaceAllString(here, "") == there }},
	{"suggest the name of a function", func(_, here, there string) bool { return suggestion.ReplaceAllString(here, "") == there }},
	rewritten("with its library", `bad argument #\d+ to '[\w.?]+'`, func(s string) string { return s[:strings.IndexByte(s, '\'')] }),
	within(`\):\w+\(`, rule{"counts the value before the colon", func(_, here, there string) bool {
		return strings.Replace(here, "to 'string.", "to '", 1) == methodCall.ReplaceAllStringFunc(there, selfCounted)
	}}),
	within(`tostring\(t`, rule{"`__tostring` has to return a string", func(_, here, there string) bool {
		return here == "error 'tostring' must return a string" || strings.ReplaceAll(here, `"`, "") == strings.ReplaceAll(there, `"`, "")
	}}),
	rewritten("addresses", `(?:table|function): 0x\w+`, cut),
	rewritten("print all their digits", `-?\b(?:\d{15,16}\b|9.007199254741[eE]\+15)`, func(s string) string {
		f, _ := strconv.ParseFloat(s, 64)
		return shortNumber(f)
	}),
	within(`\.\.|concat`, rule{"print all their digits", func(_, here, there string) bool {
		exact := rounded.ReplaceAllString(regexp.QuoteMeta(there), `\d{15,16}`)
		return regexp.MustCompile("^" + exact + "$").MatchString(here)
	}}),
	within(`math\.|\^`, rule{"in the last digits", func(_, here, there string) bool { return near(here, there) }}),
	within(`table\.sort`, rewritten("in which order", `attempt to compare (?:two .*|\w+ with \w+)`, cut)),
	rewritten("which of two wrong operands", `attempt to (?:perform arithmetic on|concatenate) .*`, cut),
	within(`gsub.*%`, rule{"at the end of a replacement", func(_, here, there string) bool {
		return here == "error invalid use of '%' in replacement string" && strings.Contains(there, `\000`)
	}}),
	within(`getmetatable\("`, rule{"the metatable of strings", func(_, here, there string) bool {
		return here == "false" && there == "{}"
	}}),
	within(`next\(`, rule{"a key that is not in the table", func(_, here, there string) bool {
		return here == "nil" && there == "error invalid key to 'next'"
	}}),
	within(`tonumber\(.*-.*, "?\d`, rule{"negative numerals in other bases", func(_, here, there string) bool {
		return strings.HasPrefix(here, "-") && strings.HasSuffix(there, "e+19")
	}}),
	within(`tonumber\(.*\w{14,}.*, "?\d`, rule{"and huge ones", func(_, here, there string) bool {
		huge, _ := strconv.ParseFloat(here, 64)
		return huge >= 1<<64 && there == "1.8446744073709552e+19"
	}}),
	within(`\d[^"]*\\000`, rule{"ends a numeral", func(_, here, _ string) bool {
		return here == "nil" || strings.HasPrefix(here, "error")
	}}),
	rewritten("the sign of", signedNaN.String(), unsigned),
	within(`format\(.*s`, rule{"takes any value", func(_, _, there string) bool {
		return strings.Contains(there, "(string expected, got ")
	}}),
	within(`format\(`, rule{"keeps a NUL", func(_, here, there string) bool {
		bare := func(s string) string { return cutNUL.ReplaceAllString(signedNaN.ReplaceAllStringFunc(s, unsigned), "") }
		return bare(here) == bare(there)
	}}),
	within(`format\(.*[diouxX]`, rule{"beyond 2^63", func(_, here, _ string) bool {
		return regexp.MustCompile(`9223372036854775808|8000000000000000|1000000000000000000000`).MatchString(here)
	}}),
	within(`format\(.*c.*\d{10}`, rule{"are not cut to 32 bits", func(_, here, there string) bool {
		here, there = escaped.ReplaceAllString(here, "?"), escaped.ReplaceAllString(there, "?")
		for i := range len(here) { // the byte that there is a NUL
			if here[:i]+here[i+1:] == there {
				return true
			}
		}
		return false
	}}),
	within(`os\.difftime.*(?:\d/0|e\d\d|\d{10})`, rule{"are not cut to 32 bits", func(_, here, there string) bool {
		return !strings.HasPrefix(here+there, "error")
	}}),
}

// near reports whether there is here but for the last digits of its numbers.
func near(here, there string) bool {
	a, b := number.FindAllString(here, -1), number.FindAllString(there, -1)
	if len(a) != len(b) || number.ReplaceAllString(here, "#") != number.ReplaceAllString(there, "#") {
		return false
	}
	for i := range a {
		x, _ := strconv.ParseFloat(a[i], 64)
		y, _ := strconv.ParseFloat(b[i], 64)
		if math.Abs(x-y) > 1e-12*max(math.Abs(x), math.Abs(y), 1) {
			return false
		}
	}
	return true
}

// cut leaves nothing of s.
func cut(string) string { return "" }

// unsigned is what is left of a nan.
func unsigned(string) string { return "nan" }

// selfCounted rewrites a complaint of Lua's about an argument of a method.
func selfCounted(s string) string {
	m := methodCall.FindStringSubmatch(s)
	if m[1] != "" {
		return fmt.Sprintf("bad argument #1 to '%s'", m[1])
	}
	n, _ := strconv.Atoi(m[2])
	return fmt.Sprintf("bad argument #%d to '%s'", n+1, m[3])
}

// shortNumber writes an integer as "%.14g" does.
func shortNumber(f float64) string {
	if math.Abs(f) < 1e14 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', 14, 64)
}

// excuse returns the rule that declares a difference, or "".
func excuse(body, here, there string) string {
	for _, r := range rules {
		if r.differs(body, here, there) {
			return r.declared
		}
	}
	return ""
}
