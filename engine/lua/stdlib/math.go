package stdlib

import (
	"math"
	"math/rand/v2"

	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

var mathConstants = map[string]vm.LValue{
	"huge": vm.LNumber(math.Inf(1)),
	"pi":   vm.LNumber(math.Pi),
}

var mathFunctions = map[string]vm.LGFunction{
	"abs":        unary(math.Abs),
	"acos":       unary(math.Acos),
	"asin":       unary(math.Asin),
	"atan":       unary(math.Atan),
	"atan2":      binary(math.Atan2),
	"ceil":       unary(math.Ceil),
	"cos":        unary(math.Cos),
	"cosh":       unary(math.Cosh),
	"deg":        unary(func(x float64) float64 { return x * 180 / math.Pi }),
	"exp":        unary(math.Exp),
	"floor":      unary(math.Floor),
	"fmod":       binary(math.Mod),
	"frexp":      mathFrexp,
	"ldexp":      mathLdexp,
	"log":        unary(logarithm(math.Log)),
	"log10":      unary(logarithm(math.Log10)),
	"max":        extreme(func(a, b float64) bool { return a > b }),
	"min":        extreme(func(a, b float64) bool { return a < b }),
	"mod":        binary(math.Mod),
	"modf":       mathModf,
	"pow":        binary(math.Pow),
	"rad":        unary(func(x float64) float64 { return x * math.Pi / 180 }),
	"random":     mathRandom,
	"randomseed": mathRandomseed,
	"sin":        unary(math.Sin),
	"sinh":       unary(math.Sinh),
	"sqrt":       unary(math.Sqrt),
	"tan":        unary(math.Tan),
	"tanh":       unary(math.Tanh),
}

// logarithm returns f, a logarithm, without what is wrong with it for the smallest
// numbers on some machines.
func logarithm(f func(float64) float64) func(float64) float64 {
	const least, bits = 0x1p-1022, 54
	return func(x float64) float64 {
		if x > 0 && x < least {
			return f(math.Ldexp(x, bits)) - bits*f(2)
		}
		return f(x)
	}
}

func unary(f func(float64) float64) vm.LGFunction {
	return func(l *vm.LState) int {
		return l.Return(vm.LNumber(f(bind.ArgNumber(l, 1))))
	}
}

func binary(f func(a, b float64) float64) vm.LGFunction {
	return func(l *vm.LState) int {
		b := bind.ArgNumber(l, 2) // first, as the reference implementation does
		return l.Return(vm.LNumber(f(bind.ArgNumber(l, 1), b)))
	}
}

// extreme returns the argument that is better than all others.
func extreme(better func(a, b float64) bool) vm.LGFunction {
	return func(l *vm.LState) int {
		n := l.GetTop()
		l.Charge(n)
		best := bind.ArgNumber(l, 1)
		for i := 2; i <= n; i++ {
			if v := bind.ArgNumber(l, i); better(v, best) {
				best = v
			}
		}
		return l.Return(vm.LNumber(best))
	}
}

func mathFrexp(l *vm.LState) int {
	fraction, exponent := math.Frexp(bind.ArgNumber(l, 1))
	l.Push(vm.LNumber(fraction))
	l.Push(vm.LNumber(exponent))
	return 2
}

func mathLdexp(l *vm.LState) int {
	exponent := bind.ArgInt(l, 2)
	return l.Return(vm.LNumber(math.Ldexp(bind.ArgNumber(l, 1), max(-5000, min(exponent, 5000)))))
}

func mathModf(l *vm.LState) int {
	f := bind.ArgNumber(l, 1)
	whole, fraction := math.Modf(f)
	if math.IsInf(f, 0) {
		fraction = 0
	}
	fraction = math.Copysign(fraction, f)
	l.Push(vm.LNumber(whole))
	l.Push(vm.LNumber(fraction))
	return 2
}

// mathRandom draws from the process's generator, which nobody can seed, or from
// the call's own after math.randomseed.
func mathRandom(l *vm.LState) int {
	f := randomFloat(l)
	low, high := 1.0, 0.0
	switch l.GetTop() {
	case 0:
		return l.Return(vm.LNumber(f))
	case 1:
		high = math.Floor(bind.ArgNumber(l, 1))
	case 2:
		low, high = math.Floor(bind.ArgNumber(l, 1)), math.Floor(bind.ArgNumber(l, 2))
	default:
		l.RaiseError("wrong number of arguments")
	}
	if !(low <= high) {
		bind.ArgError(l, l.GetTop(), "interval is empty")
	}
	return l.Return(vm.LNumber(low + math.Floor(f*(high-low+1))))
}

func randomFloat(l *vm.LState) float64 {
	switch own, given := bind.CallOf(l).Random, bind.HostOf(l).Random; {
	case own != nil:
		return own.Float64()
	case given != nil:
		return rand.New(given).Float64() // which keeps nothing
	}
	return rand.Float64()
}

// mathRandomseed makes random numbers repeatable within this call.
func mathRandomseed(l *vm.LState) int {
	bind.CallOf(l).Random = rand.New(rand.NewPCG(math.Float64bits(bind.ArgNumber(l, 1)), 0))
	return 0
}
