package lua

import (
	"crypto/sha256"
	"encoding/hex"
	"math"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// maxHostName is how long the name of a counter may be, and that of a bucket before
	// its digest stands for it.
	maxHostName = 128
	// maxRate bounds the options of ratelimit.allow.
	maxRate = 1e9
)

func counterFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"add": counterAdd,
		"get": counterGet,
	}
}

func counterAdd(l *glua.LState) int {
	n := 1.0
	if l.Get(2) != glua.LNil {
		n = argNumber(l, 2)
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		argError(l, 2, "want a finite number")
	}
	return count(l, "counter.add", n)
}

func counterGet(l *glua.LState) int { return count(l, "counter.get", 0) }

func count(l *glua.LState, function string, n float64) int {
	name := argString(l, 1)
	if !isCounterName(name) {
		argError(l, 1, "want 1 to 128 of A-Z, a-z, 0-9, '.', '_', '-', ':' and '/'")
	}
	value, err := hostOf(l, function).Count(callOf(l).inv.Tenant, name, n)
	if err != nil {
		raise(l, script.Errorf(script.KindOf(err), "", "%s", clip(err.Error())))
	}
	l.Push(glua.LNumber(value))
	return 1
}

func isCounterName(name string) bool {
	if name == "" || len(name) > maxHostName {
		return false
	}
	for i := range len(name) {
		switch c := lowerByte(name[i]); {
		case 'a' <= c && c <= 'z', '-' <= c && c <= ':', c == '_': // "-./", digits and ":"
		default:
			return false
		}
	}
	return true
}

func ratelimitFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{"allow": ratelimitAllow}
}

// ratelimitAllow takes tokens from a bucket. It returns whether there were enough, and if
// not, after how many seconds there will be.
func ratelimitAllow(l *glua.LState) int {
	key := argString(l, 1)
	options := argOptions(l, 2, "burst", "cost", "rate")
	rate := numberOption(l, 2, options, "rate", 0)
	if rate <= 0 || rate > maxRate {
		argError(l, 2, "rate must be above 0 and at most 1e9")
	}
	burst := numberOption(l, 2, options, "burst", math.Max(rate, 1))
	if burst <= 0 || burst > maxRate {
		argError(l, 2, "burst must be above 0 and at most 1e9")
	}
	cost := numberOption(l, 2, options, "cost", 1)
	if cost < 0 || cost > burst {
		argError(l, 2, "cost must be between 0 and burst")
	}
	if len(key) > maxHostName { // it may be what a stranger sent
		h := sha256.New()
		digest(l, h, key)
		key = hex.EncodeToString(h.Sum(nil))
	}
	ok, wait := hostOf(l, "ratelimit.allow").Take(callOf(l).inv.Tenant, key, cost, rate, burst)
	l.Push(glua.LBool(ok))
	l.Push(glua.LNumber(wait.Seconds()))
	return 2
}
