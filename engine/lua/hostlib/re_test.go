package hostlib_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestRe(t *testing.T) {
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: `return re.test("/api/v1/users", "^/api/v[0-9]+/"), re.test("x", "y")`, Want: "true\nfalse"},
		{Body: `return re.match("/users/42", "^/users/(\\d+)$")`, Want: `"42"`},
		{Body: `return re.match("/users/42", "\\d+"), re.match("x", "\\d+")`, Want: "\"42\"\nnull"},
		{Body: `return re.match("k=v", "(\\w)=(\\w)")`, Want: "\"k\"\n\"v\""},
		{Body: `return re.match("b", "(a)|(b)")`, Want: "false\n\"b\""},
		{Body: `return re.match("aXbX", "(?i)x", 3), re.find("aXbX", "(?i)x", 3)`, Want: "\"X\"\n4\n4"},
		{Body: `return re.find("hello", "l+")`, Want: "3\n4"},
		{Body: `return re.find("hello", "(l)(l)")`, Want: "3\n4\n\"l\"\n\"l\""},
		{Body: `return re.find("hello", "x")`, Want: "null"},
		{Body: `return re.find("", ""), re.find("abc", "", 4), re.find("abc", "", 100), re.find("abc", "$", -1)`, Want: "1\n4\n4\n4\n3"},
		{Body: `return re.find("abab", "^ab", 3), re.find("abab", "b", -1), re.find("ab", "\\bb", 2)`, Want: "null\n4\nnull"},
		{Body: `return re.find("xabc", "\\Qabc", 2), re.find("xa.c)", "\\Qa.c)", 2)`, Want: "2\n2\n5"},
		{Body: `return re.gsub("a.b.c", "\\Q.", "-")`, Want: "\"a-b-c\"\n2"},
		{Body: `return re.match("xaBc", "(?i)(ab)\\QC", 2)`, Want: `"aB"`},
		{Body: `return re.find("a\nb", "(?m)^b", 2)`, Want: "3\n3"},
		{Body: `return re.gsub("hello world", "o", "0")`, Want: "\"hell0 w0rld\"\n2"},
		{Body: `return re.gsub("hello", "l", "L", 1), re.gsub("hello", "l", "L", 0)`, Want: "\"heLlo\"\n\"hello\"\n0"},
		{Body: `return re.gsub("abc", "(\\w)", "<%1%0%%>")`, Want: "\"<aa%><bb%><cc%>\"\n3"},
		{Body: `return re.gsub("abc", "\\w", "<%1>")`, Want: "\"<a><b><c>\"\n3"},
		{Body: `return re.gsub("abc", "", "-")`, Want: "\"-a-b-c-\"\n4"},
		{Body: `return re.gsub("abc", "x*", "-")`, Want: "\"-a-b-c-\"\n4"},
		{Body: `return re.gsub("baac", "a*", "-")`, Want: "\"-b-c-\"\n3"},
		{Body: `return re.gsub("üöä", "", "-")`, Want: "\"-ü-ö-ä-\"\n4"},
		{Body: `return re.gsub("b", "(a)|b", "[%1]")`, Want: "\"[]\"\n1"},
		{Body: `return re.gsub("$name is $age", "\\$(\\w+)", {name = "ann", age = 7})`, Want: "\"ann is 7\"\n2"},
		{Body: `return re.gsub("$name is $x", "\\$(\\w+)", {name = "ann"})`, Want: "\"ann is $x\"\n2"},
		{Body: `return re.gsub("abc", "\\w", function(c) if c ~= "b" then return c:upper() end end)`, Want: "\"AbC\"\n3"},
		{Body: `return re.gsub("k=v", "(\\w)=(\\w)", function(k, v) return v .. "=" .. k end)`, Want: "\"v=k\"\n1"},
		{Body: `return re.gsub("aa", "^a", "b")`, Want: "\"ba\"\n1"},
		{Body: `return re.gsub("a b", "\\b", "|")`, Want: "\"|a| |b|\"\n4"},
		{Body: `return re.gsub("abc", "b", 5)`, Want: "\"a5c\"\n1"},
		{Body: `return re.escape("a.b*c"), re.test("a.b", "^" .. re.escape("a.b") .. "$")`, Want: "\"a\\\\.b\\\\*c\"\ntrue"},
		{Body: `return re.gsub("abc", "b", "%2")`, Fail: "invalid capture index %2: the pattern has 0"},
		{Body: `return re.gsub("abc", "b", "%x")`, Fail: "invalid use of '%' in replacement"},
		{Body: `return re.gsub("abc", "b", "x%")`, Fail: "malformed replacement (ends with '%')"},
		{Body: `return re.gsub("abc", "b", nil)`, Fail: "bad argument #3 to 're.gsub' (string, function or table expected, got nil)"},
		{Body: `return re.gsub("abc", "b", function() return {} end)`, Fail: "invalid replacement value (a table)"},
		{Body: `return re.gsub("abc", "b", function() error("boom") end)`, Fail: "boom"},
		{Body: `return re.test("x", "(")`, Fail: "bad argument #2 to 're.test' (malformed pattern: missing closing ): `(`)"},
		{Body: `return re.test("x", "a)(b")`, Fail: "malformed pattern: unexpected )"},
		{Body: `return re.test("x", "(?=a)")`, Fail: "malformed pattern: invalid or unsupported Perl syntax: `(?=`"},
		{Body: `return re.test("x", "\255")`, Fail: "malformed pattern: invalid UTF-8"},
		{Body: `return re.test("x", ("a"):rep(1025))`, Fail: "longer than 1024 bytes"},
		{Body: `return re.test("x", "((a{100}){100}){100}")`, Fail: "malformed pattern: invalid repeat count"},
		{Body: `return re.test("x", "(a{20}){30}b{300}")`, Fail: "too large once its repetitions are written out"},
		{Body: `return re.test("x", ("(a)"):rep(33))`, Fail: "more than 32 groups"},
		{Body: `return re.test("x", "(?i)" .. ("[B-\\x{1e942}]"):rep(70))`, Fail: "more than 2 ranges beyond ASCII"},
		{Body: `return re.test("x", "(?si)" .. ("[B-ǵ]"):rep(70))`, Fail: "more than 2 ranges beyond ASCII"},
		{Body: `return re.test("x", ("\\pL"):rep(17))`, Fail: "more than 16 of"},
		{Body: `return re.test({}, "x")`, Fail: "bad argument #1 to 're.test' (string expected, got table)"},
		{Body: `return #re.gsub(("x"):rep(10000), "x", ("y"):rep(40))`, Fail: "over the limit", Kind: script.Limit},
	})
}

// TestReAgainstGo compares searches in the middle of texts, which are made by another
// way here, with what Go finds.
func TestReAgainstGo(t *testing.T) {
	needs.NoRace(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	pieces := []string{"a", "b", ".", "^", "$", `\b`, `\B`, "(a)", "(b|)", "a*", "b+?", "[^a]", "(?:ab|a)", "ü", `\n`, "(?m:^)", "(?m:$)", "x?", "(a*)", "|", `\A`, `\z`, "(?s:.)"}
	letters := []string{"a", "b", "ab", "x", "\n", "ü", " ", "\xff", "é"}
	e := lua.New()
	for range 1500 {
		var pattern, text strings.Builder
		for range 1 + r.IntN(5) {
			pattern.WriteString(pieces[r.IntN(len(pieces))])
		}
		for range r.IntN(9) {
			text.WriteString(letters[r.IntN(len(letters))])
		}
		if r.IntN(8) == 0 { // a text that is too long to be searched in one go
			text.WriteString(strings.Repeat("ab", 20_000))
		}
		compareGsub(t, e, pattern.String(), text.String())
	}
}

func compareGsub(t *testing.T, e engine.Engine, pattern, text string) {
	t.Helper()
	re, err := regexp.Compile(pattern)
	if err != nil {
		return
	}
	var want []string
	const most = 50
	for _, at := range re.FindAllStringSubmatchIndex(text, most) {
		line := ""
		for i := range len(at) / 2 {
			piece := "-"
			if at[2*i] >= 0 {
				piece = fmt.Sprintf("%x", text[at[2*i]:at[2*i+1]])
			}
			line += " " + piece
		}
		want = append(want, line)
	}
	body := fmt.Sprintf(`local t = json.array()
		re.gsub(crypto.unhex(%q), %q, function(...)
			local line = ""
			for i = 1, select("#", ...) do
				local c = select(i, ...)
				line = line .. " " .. (c and crypto.hex(c) or "-")
			end
			t[#t + 1] = line
		end, %d)
		return t`, fmt.Sprintf("%x", text), "("+pattern+")", most)
	inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: luatest.Patient, Instructions: 10_000_000}}
	got, err := luatest.Evaluate(t, e, inv, body)
	if err != nil {
		t.Fatalf("%q in %.100q: %v", pattern, text, err)
	}
	var lines []string
	if err := json.Unmarshal([]byte(got), &lines); err != nil {
		t.Fatal(err)
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q in %.100q: captures\n%s\nwant\n%s", pattern, text, strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// reBombs would take a backtracking engine forever, or this one long.
var reBombs = map[string]string{
	"backtracking":     `re.test(("a"):rep(200000) .. "b", "^(a+)+$")`,
	"nested":           `re.test(("a"):rep(250000), "((((a*)*)*)*)*b")`,
	"counted":          `re.test(("a"):rep(250000), "(.{1,100}){1,2}c")`,
	"quadratic gsub":   `re.gsub(("a"):rep(250000), ".*b|a", "")`,
	"quadratic lazy":   `re.gsub(("a"):rep(250000), "a.*?b|a", "")`,
	"many groups":      `re.test(("a"):rep(250000), ("(a*)"):rep(32) .. "b")`,
	"sets":             `re.test(("ü"):rep(100000), ("\\pL*"):rep(10) .. "b")`,
	"empty matches":    `re.gsub(("a"):rep(250000), "", function() end)`,
	"growing":          `re.gsub(("a"):rep(200000), "a", "aaaaaaaaaaaaaaaaaaaaaaaaa")`,
	"growing by group": `re.gsub(("a"):rep(200000), ".*", ("%0"):rep(100))`,
	"new patterns":     `local i = 0 while true do i = i + 1 re.test("x", ("[a-z]"):rep(150) .. i) end`,
	"bad patterns":     `local i = 0 while true do i = i + 1 pcall(re.test, "x", ("("):rep(1000) .. i) end`,
	"folded ranges":    `local i = 0 while true do i = i + 1 re.test("x", "(?i)[B-\\x{1e942}][C-\\x{1e941}]" .. i) end`,
	"unicode sets":     `local i = 0 while true do i = i + 1 re.test("x", ("\\pL"):rep(10) .. i) end`,
	"escaping":         `local s = "." while true do s = re.escape(s) end`,
	"in itself":        `local function f() return re.gsub("a", "a", f) end f()`,
}

func TestReBombs(t *testing.T) {
	needs.NoRace(t)
	e := lua.New()
	for name, body := range reBombs {
		t.Run(name, func(t *testing.T) {
			for _, limits := range []script.Limits{
				{Timeout: luatest.Patient},
				{Timeout: 50 * time.Millisecond, Instructions: script.MaxLimits().Instructions},
			} {
				inv := &engine.Invocation{Tenant: "acme", Limits: limits}
				started := time.Now()
				_, err := luatest.Evaluate(t, e, inv, "while true do "+body+" end")
				if kind := script.KindOf(err); kind != script.Limit && kind != script.Timeout {
					t.Errorf("error = %v", err)
				}
				t.Logf("%v: %v", time.Since(started).Round(time.Millisecond), err)
			}
		})
	}
}

func FuzzRe(f *testing.F) {
	for _, pattern := range []string{
		"a", "(a|b)*c", `\pL+`, "(?i)x{1,3}", "[^a-z]", "(", `\bx`, "(?m)^a$", `\Qabc`, `\Q`, `a\Q(\E)`, "(?i:a", "(?U)a+",
		strings.Repeat("(?:", 200) + "a" + strings.Repeat(")*", 200), "(?P<name>a)", "[[:alpha:]]", `\C`, "a{,2}", "(?s).", "x**",
	} {
		f.Add(pattern, "abc ABC\nü")
	}
	e := lua.New()
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := json.Marshal(pattern)
		if err != nil {
			t.Fatal(err)
		}
		s, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{
			`return re.test(b, a)`,
			`return re.find(b, a, 2)`,
			`return re.gsub(b, a, "%0")`,
			`return re.match(b, a, 3)`,
		} {
			inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: luatest.Patient}}
			_, err = luatest.Evaluate(t, e, inv, body, string(p), string(s))
			luatest.WantPresentable(t, err)
			if kind := script.KindOf(err); err != nil && kind != script.Script && kind != script.Limit {
				t.Errorf("%s: %q on %q: %v", body, pattern, text, err)
			}
		}
	})
}
