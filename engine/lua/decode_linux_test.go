package lua_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hostileArguments are texts of about n bytes that take long to decode. Those of which
// the script reads nothing are within an object.
func hostileArguments(n int) map[string]string {
	of := func(begin, piece, end string) string { return begin + strings.Repeat(piece, n/len(piece)) + end }
	digits := "1" + strings.Repeat("7", 400)
	return map[string]string{
		"surrogates":              of(`"`, `\ud800`, `"`),
		"surrogates in an object": of(`{"a":"`, `\ud800`, `"}`),
		"escapes":                 of(`"`, `\n`, `"`),
		"UTF-8":                   of(`"`, "ä", `"`),
		"plain text":              of(`"`, "x", `"`),
		"digits":                  of("0.", "7", ""),
		"digits in an object":     of(`{"a":0.`, "7", "}"),
		"long numbers":            of("[", digits[:200]+"e-300,", "1]"),
		"longer numbers":          of("[0", ",0."+digits, "]"),
		"halves":                  of("[", "1."+strings.Repeat("0", 15)+"1110223024625156540423631668090820312499e-300,", "1]"),
		"numbers near the end":    of("[", digits[:300]+"e8,", "1]"),
		"space":                   of("", " ", "1"),
		"a name":                  of(`{"`, "x", `":1}`),
		"a name with escapes":     of(`{"`, `\u0041`, `":1}`),
		"unfinished text":         of(`["`, "x", ""),
		"unfinished escapes":      of(`["`, `\u0041`, ""),
		"deep objects":            strings.Repeat(`{"a":`, 30) + of(`"`, `\u0041`, `"`) + strings.Repeat("}", 30),
	}
}

const argumentBytes = 1 << 20

// TestArgumentsCostInstructions: what a caller sends is decoded within the call's budget,
// in the call's turn, and no longer than its caller waits.
func TestArgumentsCostInstructions(t *testing.T) {
	p, err := lua.New().Compile(engine.Source{Code: []byte(`function handle() end`), Entrypoint: "handle"})
	if err != nil {
		t.Fatal(err)
	}
	for name, arg := range hostileArguments(argumentBytes) {
		t.Run(name, func(t *testing.T) {
			call := func(ctx context.Context, limits script.Limits, turn engine.Turn) error {
				limits.Timeout = luatest.Patient
				var res engine.Result
				return p.Run(ctx, &engine.Invocation{Tenant: "acme", Args: [][]byte{[]byte(arg)}, Limits: limits, Turn: turn}, &res)
			}
			if err := call(t.Context(), script.Limits{Instructions: 10_000}, nil); script.KindOf(err) != script.Limit {
				t.Errorf("with 10,000 instructions: %v", err)
			}
			asked := &turn{}
			asked.yield = func() { asked.ask() }
			err := call(t.Context(), script.MaxLimits(), asked)
			if kind := script.KindOf(err); kind != "" && kind != script.Invalid && kind != script.Limit {
				t.Errorf("with most instructions: %v", err)
			}
			if least := argumentBytes / (64 << 10); asked.yields < least {
				t.Errorf("yielded %d times, want %d", asked.yields, least)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			gone := &turn{}
			gone.yield = func() { cancel(); gone.ask() }
			if err := call(ctx, script.MaxLimits(), gone); script.KindOf(err) != script.Timeout || gone.yields > 2 {
				t.Errorf("a caller that is gone: %v after %d looks", err, gone.yields)
			}
		})
	}
}

// TestArgumentsAreLinear: what takes longest to decode takes a few times as long as plain
// objects of the same size.
func TestArgumentsAreLinear(t *testing.T) {
	needs.NoRace(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := lua.New().Compile(engine.Source{Code: []byte(`function handle(v) if type(v) == "table" then local a = v.a end end`), Entrypoint: "handle"})
	if err != nil {
		t.Fatal(err)
	}
	took := func(arg string) time.Duration {
		quickest := time.Hour
		for range 5 {
			limits := script.MaxLimits()
			limits.Timeout = luatest.Patient
			var res engine.Result
			before := processorTime()
			err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Args: [][]byte{[]byte(arg)}, Limits: limits}, &res)
			quickest = min(quickest, processorTime()-before)
			if kind := script.KindOf(err); kind != "" && kind != script.Invalid && kind != script.Limit {
				t.Fatal(err)
			}
		}
		return quickest
	}
	const piece = `{"id":12345,"name":"a name","tags":["x","y"],"more":"a text that is as long as some texts are, and no longer"},`
	plain := took("[" + strings.Repeat(piece, 1500) + "1]")
	plain = plain * argumentBytes / time.Duration(1500*len(piece))
	for name, arg := range hostileArguments(argumentBytes) {
		const most = 10
		ratio := float64(took(arg)) / float64(plain)
		if ratio > most {
			t.Errorf("%s: %.1f times as long as plain JSON", name, ratio)
		}
		t.Logf("%s: %.1f times as long as plain JSON, which takes %v", name, ratio, plain)
	}
}
