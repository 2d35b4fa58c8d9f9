package lua_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// turn is asked for by the test, as soon as it is bound, and yielded as it says.
type turn struct {
	ask     func()
	yields  int
	breaths int
	yield   func()
}

func (t *turn) Bind(ask func()) {
	t.ask = ask
	ask()
}

func (t *turn) Yield() {
	t.yields++
	t.yield()
}

func (t *turn) Breathe() { t.breaths++ }

func compiled(t *testing.T, source string) engine.Program {
	t.Helper()
	p, err := lua.New().Compile(engine.Source{Code: []byte(source)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A call whose turn is asked for yields at its next instruction, wherever it is, and
// goes on as if nothing had been.
func TestYield(t *testing.T) {
	for name, source := range map[string]string{
		"loop":      `local s = 0 for i = 1, 1000 do s = s + i end return s`,
		"builtin":   `local s = 0 for i = 1, 1000 do s = s + i end return (("x"):rep(10000):gsub("x", "y") and s)`,
		"pcall":     `local s = 0 pcall(function() for i = 1, 1000 do s = s + i end end) return s`,
		"coroutine": `local s = 0 coroutine.wrap(function() for i = 1, 1000 do s = s + i end end)() return s`,
	} {
		t.Run(name, func(t *testing.T) {
			p := compiled(t, source)
			turn := &turn{}
			turn.yield = func() {
				if turn.yields < 100 {
					turn.ask()
				}
			}
			inv := &engine.Invocation{Tenant: "acme", Turn: turn, Limits: script.MaxLimits()}
			var res engine.Result
			if err := p.Run(t.Context(), inv, &res); err != nil {
				t.Fatal(err)
			}
			if string(res.Value(0)) != "500500" || turn.yields != 100 {
				t.Errorf("%q after %d yields", res.Value(0), turn.yields)
			}
			turn.ask() // late
			res.Reset()
			inv.Turn = nil
			if err := p.Run(t.Context(), inv, &res); err != nil {
				t.Fatal(err)
			}
			if string(res.Value(0)) != "500500" || turn.yields != 100 {
				t.Errorf("the call after: %q, %d yields", res.Value(0), turn.yields)
			}
		})
	}
}

// A call that takes long breathes, whatever it does, and a short one does not.
func TestBreathe(t *testing.T) {
	for source, breathes := range map[string]bool{
		`return 1`:                 false,
		`for i = 1, 100000 do end`: true,
		`for i = 1, 100 do local s = ("x"):rep(100000):reverse() end`: true,
		`pcall(function() for i = 1, 100000 do end end)`:              true,
		`coroutine.wrap(function() for i = 1, 100000 do end end)()`:   true,
	} {
		turn := &turn{yield: func() {}}
		inv := &engine.Invocation{Tenant: "acme", Turn: turn, Limits: script.MaxLimits()}
		var res engine.Result
		if err := compiled(t, source).Run(t.Context(), inv, &res); err != nil {
			t.Fatal(err)
		}
		if turn.breaths > 0 != breathes || breathes && turn.breaths < 10 {
			t.Errorf("%s: %d breaths", source, turn.breaths)
		}
	}
}

// A call whose time ends while it has no turn goes no further.
func TestYieldTooLong(t *testing.T) {
	p := compiled(t, `for i = 1, 1000 do end return "it went on"`)
	ctx, cancel := context.WithCancel(t.Context())
	for _, test := range []struct {
		limits script.Limits
		yield  func()
		says   string
	}{
		{script.Limits{Timeout: time.Millisecond}, func() { takes(2 * time.Millisecond) }, "the call ran longer than 1ms"},
		{script.Limits{}, cancel, "the caller gave up before the call ended"},
	} {
		var res engine.Result
		err := p.Run(ctx, &engine.Invocation{Tenant: "acme", Limits: test.limits, Turn: &turn{yield: test.yield}}, &res)
		if script.KindOf(err) != script.Timeout || script.AsError(err).Message != test.says {
			t.Errorf("%v, want %s", err, test.says)
		}
	}
}

// takes gives the processor to others until d has passed: what a turn does
// that comes late.
func takes(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.Gosched()
	}
}
