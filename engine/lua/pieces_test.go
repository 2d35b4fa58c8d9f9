package lua

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// inPieces are what builtins that work in pieces return for a text, and what Go does.
var inPieces = map[string]func(s string) string{
	`s:upper():lower()`:                       func(s string) string { return s },
	`s:reverse():reverse()`:                   func(s string) string { return s },
	`s .. s .. 1`:                             func(s string) string { return s + s + "1" },
	`s:rep(3, ",")`:                           func(s string) string { return s + "," + s + "," + s },
	`("ab"):rep(#s, ";")`:                     func(s string) string { return strings.TrimSuffix(strings.Repeat("ab;", len(s)), ";") },
	`("%s|%q"):format(s, s)`:                  func(s string) string { return s + `|"` + s + `"` },
	`table.concat({s, 7, s}, "+")`:            func(s string) string { return s + "+7+" + s },
	`s:gsub("a", "%0%0")`:                     func(s string) string { return strings.ReplaceAll(s, "a", "aa") },
	`re.gsub(s, "a", "%0b")`:                  func(s string) string { return strings.ReplaceAll(s, "a", "ab") },
	`re.escape(s .. ".")`:                     func(s string) string { return regexp.QuoteMeta(s + ".") },
	`base64.encode(s)`:                        func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	`base64.decode(base64.encode(s))`:         func(s string) string { return s },
	`base64.decode_url(base64.encode_url(s))`: func(s string) string { return s },
	`crypto.hex(s)`:                           func(s string) string { return hex.EncodeToString([]byte(s)) },
	`crypto.unhex(crypto.hex(s))`:             func(s string) string { return s },
	`crypto.sha512(s)`:                        func(s string) string { d := sha512.Sum512([]byte(s)); return hex.EncodeToString(d[:]) },
	`crypto.hmac("sha512", s, s)`: func(s string) string {
		mac := hmac.New(sha512.New, []byte(s))
		mac.Write([]byte(s))
		return hex.EncodeToString(mac.Sum(nil))
	},
	`tostring(crypto.equal(s, s .. "")) .. tostring(crypto.equal(s .. "a", s .. "b"))`: func(string) string { return "truefalse" },
	`json.decode(json.encode(s))`:                       func(s string) string { return s },
	`json.decode(json.encode({[s] = "\n" .. s}))[s]`:    func(s string) string { return "\n" + s },
	`(s .. "=y" .. s):find("y" .. s, 1, true) .. ""`:    func(s string) string { return strconv.Itoa(len(s) + 2) },
	`tostring((s .. "a"):find(s .. "b", 1, true))`:      func(string) string { return "nil" },
	`tostring(s .. "a" < s .. "b") .. tostring(s < s)`:  func(string) string { return "truefalse" },
	`tostring(s .. "a" <= s) .. tostring(s <= s .. "")`: func(string) string { return "falsetrue" },
	`tonumber("0." .. ("0"):rep(#s) .. "1") .. ""`: func(s string) string {
		f, _ := strconv.ParseFloat("0."+strings.Repeat("0", len(s))+"1", 64)
		return numeral.Format(f)
	},
}

// TestPieces: a text is worked on in pieces, and none of their borders shows.
func TestPieces(t *testing.T) {
	var code strings.Builder
	var wants []func(string) string
	code.WriteString("function handle(s)\n")
	var names []string
	for name := range inPieces {
		names = append(names, name)
		wants = append(wants, inPieces[name])
	}
	fmt.Fprintf(&code, "return (%s)\nend", strings.Join(names, "),\n("))
	e := New()
	p, err := e.Compile(engine.Source{Code: []byte(code.String()), Entrypoint: "handle"})
	if err != nil {
		t.Fatal(err)
	}
	limits := script.MaxLimits()
	limits.ResultBytes, limits.Timeout = 64<<20, time.Minute
	for _, length := range []int{1, 2, 3, 63, 511, 512, 513, bind.PaidAtOnce - 1, bind.PaidAtOnce, bind.PaidAtOnce + 1, hostapi.PieceBytes - 2, hostapi.PieceBytes - 1, hostapi.PieceBytes, hostapi.PieceBytes + 1, hostapi.PieceBytes + 2, 2*hostapi.PieceBytes + 5} {
		// Characters of two bytes end before and behind the borders.
		s := (strings.Repeat("b", length%3) + strings.Repeat("aä", length))[:length]
		s = strings.ToValidUTF8(s, "x")
		arg, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var res engine.Result
		if err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Args: [][]byte{arg}, Limits: limits}, &res); err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			var got string
			if err := json.Unmarshal(res.Value(i), &got); err != nil {
				t.Fatal(err)
			}
			if want := wants[i](s); got != want {
				t.Errorf("%s of %d bytes: %d bytes that differ from %d", name, length, len(got), len(want))
			}
		}
	}
}

// TestNumerals compares numerals of any length with their exact values, which
// strconv.ParseFloat does not read from more than 800 digits and an exponent.
func TestNumerals(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	digits := func(most int, of string) string {
		text := make([]byte, r.IntN(most+1))
		zeros := r.IntN(3) == 0
		for i := range text {
			if text[i] = of[r.IntN(len(of))]; zeros {
				text[i] = '0'
			}
		}
		return string(text)
	}
	m := &meter{Meter: vm.Meter{Left: math.MaxInt64}}
	for range 2_000 {
		most := []int{3, 20, 400, 3000}[r.IntN(4)]
		s := digits(most, "0123456789") + "1" + digits(most, "0123456789")
		if r.IntN(2) == 0 {
			s += "." + digits(most, "0123456789")
		}
		if r.IntN(2) == 0 {
			s = "0." + s[:strings.IndexByte(s+".", '.')]
		}
		if r.IntN(2) == 0 {
			s += fmt.Sprintf("e%d", r.IntN(4*most)-2*most)
		}
		exact, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("%s is no number", s)
		}
		want, _ := exact.Float64()
		if got, ok := numeral.Parse(&m.Meter, " -"+s+"\n"); !ok || got != -want {
			t.Fatalf("%s: %v, %v, want %v", s, got, ok, -want)
		}
		s = "0x" + digits(most, "0123456789abcdefABCDEF") + "8" + digits(20, "08")
		want, _ = strconv.ParseFloat(s+"p0", 64)
		if got, ok := numeral.Parse(&m.Meter, s); !ok || got != want {
			t.Fatalf("%s: %v, %v, want %v", s, got, ok, want)
		}
	}
}
