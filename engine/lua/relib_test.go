package lua_test

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
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestRe(t *testing.T) {
	testAPI(t, nil, []apiCase{
		{body: `return re.test("/api/v1/users", "^/api/v[0-9]+/"), re.test("x", "y")`, want: "true\nfalse"},
		{body: `return re.match("/users/42", "^/users/(\\d+)$")`, want: `"42"`},
		{body: `return re.match("/users/42", "\\d+"), re.match("x", "\\d+")`, want: "\"42\"\nnull"},
		{body: `return re.match("k=v", "(\\w)=(\\w)")`, want: "\"k\"\n\"v\""},
		{body: `return re.match("b", "(a)|(b)")`, want: "false\n\"b\""},
		{body: `return re.match("aXbX", "(?i)x", 3), re.find("aXbX", "(?i)x", 3)`, want: "\"X\"\n4\n4"},
		{body: `return re.find("hello", "l+")`, want: "3\n4"},
		{body: `return re.find("hello", "(l)(l)")`, want: "3\n4\n\"l\"\n\"l\""},
		{body: `return re.find("hello", "x")`, want: "null"},
		{body: `return re.find("", ""), re.find("abc", "", 4), re.find("abc", "", 100), re.find("abc", "$", -1)`, want: "1\n4\n4\n4\n3"},
		{body: `return re.find("abab", "^ab", 3), re.find("abab", "b", -1), re.find("ab", "\\bb", 2)`, want: "null\n4\nnull"},
		{body: `return re.find("xabc", "\\Qabc", 2), re.find("xa.c)", "\\Qa.c)", 2)`, want: "2\n2\n5"},
		{body: `return re.gsub("a.b.c", "\\Q.", "-")`, want: "\"a-b-c\"\n2"},
		{body: `return re.match("xaBc", "(?i)(ab)\\QC", 2)`, want: `"aB"`},
		{body: `return re.find("a\nb", "(?m)^b", 2)`, want: "3\n3"},
		{body: `return re.gsub("hello world", "o", "0")`, want: "\"hell0 w0rld\"\n2"},
		{body: `return re.gsub("hello", "l", "L", 1), re.gsub("hello", "l", "L", 0)`, want: "\"heLlo\"\n\"hello\"\n0"},
		{body: `return re.gsub("abc", "(\\w)", "<%1%0%%>")`, want: "\"<aa%><bb%><cc%>\"\n3"},
		{body: `return re.gsub("abc", "\\w", "<%1>")`, want: "\"<a><b><c>\"\n3"},
		{body: `return re.gsub("abc", "", "-")`, want: "\"-a-b-c-\"\n4"},
		{body: `return re.gsub("abc", "x*", "-")`, want: "\"-a-b-c-\"\n4"},
		{body: `return re.gsub("baac", "a*", "-")`, want: "\"-b-c-\"\n3"},
		{body: `return re.gsub("üöä", "", "-")`, want: "\"-ü-ö-ä-\"\n4"},
		{body: `return re.gsub("b", "(a)|b", "[%1]")`, want: "\"[]\"\n1"},
		{body: `return re.gsub("$name is $age", "\\$(\\w+)", {name = "ann", age = 7})`, want: "\"ann is 7\"\n2"},
		{body: `return re.gsub("$name is $x", "\\$(\\w+)", {name = "ann"})`, want: "\"ann is $x\"\n2"},
		{body: `return re.gsub("abc", "\\w", function(c) if c ~= "b" then return c:upper() end end)`, want: "\"AbC\"\n3"},
		{body: `return re.gsub("k=v", "(\\w)=(\\w)", function(k, v) return v .. "=" .. k end)`, want: "\"v=k\"\n1"},
		{body: `return re.gsub("aa", "^a", "b")`, want: "\"ba\"\n1"},
		{body: `return re.gsub("a b", "\\b", "|")`, want: "\"|a| |b|\"\n4"},
		{body: `return re.gsub("abc", "b", 5)`, want: "\"a5c\"\n1"},
		{body: `return re.escape("a.b*c"), re.test("a.b", "^" .. re.escape("a.b") .. "$")`, want: "\"a\\\\.b\\\\*c\"\ntrue"},
		{body: `return re.gsub("abc", "b", "%2")`, fail: "invalid capture index %2: the pattern has 0"},
		{body: `return re.gsub("abc", "b", "%x")`, fail: "invalid use of '%' in replacement"},
		{body: `return re.gsub("abc", "b", "x%")`, fail: "malformed replacement (ends with '%')"},
		{body: `return re.gsub("abc", "b", nil)`, fail: "bad argument #3 to 're.gsub' (string, function or table expected, got nil)"},
		{body: `return re.gsub("abc", "b", function() return {} end)`, fail: "invalid replacement value (a table)"},
		{body: `return re.gsub("abc", "b", function() error("boom") end)`, fail: "boom"},
		{body: `return re.test("x", "(")`, fail: "bad argument #2 to 're.test' (malformed pattern: missing closing ): `(`)"},
		{body: `return re.test("x", "a)(b")`, fail: "malformed pattern: unexpected )"},
		{body: `return re.test("x", "(?=a)")`, fail: "malformed pattern: invalid or unsupported Perl syntax: `(?=`"},
		{body: `return re.test("x", "\255")`, fail: "malformed pattern: invalid UTF-8"},
		{body: `return re.test("x", ("a"):rep(1025))`, fail: "longer than 1024 bytes"},
		{body: `return re.test("x", "((a{100}){100}){100}")`, fail: "malformed pattern: invalid repeat count"},
		{body: `return re.test("x", "(a{20}){30}b{300}")`, fail: "too large once its repetitions are written out"},
		{body: `return re.test("x", ("(a)"):rep(33))`, fail: "more than 32 groups"},
		{body: `return re.test("x", "(?i)" .. ("[B-\\x{1e942}]"):rep(70))`, fail: "more than 2 ranges beyond ASCII"},
		{body: `return re.test("x", "(?si)" .. ("[B-ǵ]"):rep(70))`, fail: "more than 2 ranges beyond ASCII"},
		{body: `return re.test("x", ("\\pL"):rep(17))`, fail: "more than 16 of"},
		{body: `return re.test({}, "x")`, fail: "bad argument #1 to 're.test' (string expected, got table)"},
		{body: `return #re.gsub(("x"):rep(10000), "x", ("y"):rep(40))`, fail: "over the limit", kind: script.Limit},
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
	inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: patient, Instructions: 10_000_000}}
	got, err := evaluate(t, e, inv, body)
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
				{Timeout: patient},
				{Timeout: 50 * time.Millisecond, Instructions: script.MaxLimits().Instructions},
			} {
				inv := &engine.Invocation{Tenant: "acme", Limits: limits}
				started := time.Now()
				_, err := evaluate(t, e, inv, "while true do "+body+" end")
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
			inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: patient}}
			_, err = evaluate(t, e, inv, body, string(p), string(s))
			wantPresentable(t, err)
			if kind := script.KindOf(err); err != nil && kind != script.Script && kind != script.Limit {
				t.Errorf("%s: %q on %q: %v", body, pattern, text, err)
			}
		}
	})
}
