package stdlib

import (
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// stringFunctions is the string library. Letters are those of ASCII.
var stringFunctions = map[string]vm.LGFunction{
	"byte":    stringByte,
	"char":    stringChar,
	"find":    stringFind,
	"format":  stringFormat,
	"gmatch":  stringGmatch,
	"gsub":    stringGsub,
	"len":     stringLen,
	"lower":   stringLower,
	"match":   stringMatch,
	"rep":     stringRep,
	"reverse": stringReverse,
	"sub":     stringSub,
	"upper":   stringUpper,
}

// iteratorBytes is what the iterator of gmatch takes.
const iteratorBytes = 256

// span translates Lua's positions, from 1 and negative from the end, into
// offsets of Go.
func span(n, first, last int) (int, int) {
	if first < 0 {
		first = max(n+first+1, 1)
	} else {
		first = max(first, 1)
	}
	if last < 0 {
		last = n + last + 1
	}
	last = min(last, n)
	if first > last {
		return 0, 0
	}
	return first - 1, last
}

func stringByte(l *vm.LState) int {
	s := bind.ArgString(l, 1)
	first := bind.OptInt(l, 2, 1)
	start, end := span(len(s), first, bind.OptInt(l, 3, first))
	n := end - start
	if n > maxResults {
		l.RaiseError("string slice too long")
	}
	l.Charge(n)
	for i := start; i < end; i++ {
		l.Push(vm.LNumber(s[i]))
	}
	return n
}

func stringChar(l *vm.LState) int {
	n := l.GetTop()
	l.Charge(n)
	buf := make([]byte, n)
	for i := range n {
		c := bind.ArgInt(l, i+1)
		if c < 0 || c > 255 {
			bind.ArgError(l, i+1, "invalid value")
		}
		buf[i] = byte(c)
	}
	return l.Return(vm.LString(buf))
}

func stringLen(l *vm.LState) int { return l.Return(vm.LNumber(len(bind.ArgString(l, 1)))) }

// mapBytes pushes the string argument with each byte replaced.
func mapBytes(l *vm.LState, replace func(byte) byte) int {
	s := bind.ArgString(l, 1)
	buf := bind.Room(l, len(s))
	for at := 0; at < len(s); {
		to := bind.Piece(l, at, len(s))
		for ; at < to; at++ {
			buf[at] = replace(s[at])
		}
	}
	return l.Return(values.StringOf(buf))
}

func stringLower(l *vm.LState) int {
	return mapBytes(l, func(c byte) byte {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		return c
	})
}

func stringUpper(l *vm.LState) int {
	return mapBytes(l, func(c byte) byte {
		if 'a' <= c && c <= 'z' {
			c &^= 0x20
		}
		return c
	})
}

// stringRep repeats a string; a separator between is Lua 5.2's addition.
func stringRep(l *vm.LState) int {
	s, n, separator := bind.ArgString(l, 1), bind.ArgInt(l, 2), bind.OptString(l, 3, "")
	if n <= 0 || len(s)+len(separator) == 0 {
		return l.Return(vm.LString(""))
	}
	if most := bind.CallOf(l).Host.StringBytes; n > most+1 { // or the product might not fit
		bind.RaiseLimit(l, "a string repeated %d times is over the limit of %d bytes", n, most)
	}
	t := bind.NewText(l, n*len(s)+(n-1)*len(separator))
	t.Repeat(s, separator, n)
	return l.Return(t.Value())
}

func stringReverse(l *vm.LState) int {
	s := bind.ArgString(l, 1)
	buf := bind.Room(l, len(s))
	for at := 0; at < len(s); {
		to := bind.Piece(l, at, len(s))
		for ; at < to; at++ {
			buf[len(s)-1-at] = s[at]
		}
	}
	return l.Return(values.StringOf(buf))
}

// stringSub shares the memory of its argument.
func stringSub(l *vm.LState) int {
	s := bind.ArgString(l, 1)
	start, end := span(len(s), bind.ArgInt(l, 2), bind.OptInt(l, 3, -1))
	return l.Return(vm.LString(s[start:end]))
}

func stringFind(l *vm.LState) int  { return find(l, true) }
func stringMatch(l *vm.LState) int { return find(l, false) }

// find is string.find, which returns positions first, and string.match.
func find(l *vm.LState, positions bool) int {
	s, pattern := bind.ArgString(l, 1), bind.ArgString(l, 2)
	start := bind.OptInt(l, 3, 1)
	if start < 0 {
		start += len(s) + 1
	}
	start = min(max(start-1, 0), len(s))
	m := matcher{l: l, src: s, pattern: pattern}
	if positions && (vm.LVAsBool(l.Get(4)) || !bind.HasAny(l, pattern, "^$*+?.([%-")) {
		return findPlain(l, s, pattern, start)
	}
	p := 0
	anchored := strings.HasPrefix(pattern, "^")
	if anchored {
		p = 1
	}
	for ; start <= len(s); start++ {
		m.step()
		if end := m.matchAt(start, p); end != noMatch {
			m.settle()
			if !positions {
				return m.push(start, end, true)
			}
			l.Push(vm.LNumber(start + 1))
			l.Push(vm.LNumber(end))
			return 2 + m.push(start, end, false)
		}
		if anchored {
			break
		}
	}
	m.settle()
	return l.Return(vm.LNil)
}

func findPlain(l *vm.LState, s, text string, start int) int {
	at := bind.IndexOf(l, s[start:], text)
	if at < 0 {
		return l.Return(vm.LNil)
	}
	l.Push(vm.LNumber(start + at + 1))
	l.Push(vm.LNumber(start + at + len(text)))
	return 2
}

func stringGmatch(l *vm.LState) int {
	s, pattern := bind.ArgString(l, 1), bind.ArgString(l, 2)
	bind.Allocate(l, iteratorBytes)
	start := 0
	l.Push(values.Builtin(func(l *vm.LState) int {
		m := matcher{l: l, src: s, pattern: pattern}
		for ; start <= len(s); start++ {
			m.step()
			end := m.matchAt(start, 0)
			if end == noMatch {
				continue
			}
			m.settle()
			from := start
			start = end
			if end == from { // an empty match: go on behind it
				start++
			}
			return m.push(from, end, true)
		}
		m.settle()
		return 0
	}))
	return 1
}

func stringGsub(l *vm.LState) int {
	s, pattern := bind.ArgString(l, 1), bind.ArgString(l, 2)
	replacement := l.Get(3)
	most := bind.OptInt(l, 4, len(s)+1)
	switch replacement.Type() {
	case vm.LTString, vm.LTNumber, vm.LTTable, vm.LTFunction:
	default:
		bind.ArgError(l, 3, "string/function/table expected")
	}
	g := substitution{
		matcher:     matcher{l: l, src: s, pattern: pattern},
		Text:        bind.NewText(l, 0),
		replacement: replacement,
	}
	p := 0
	if strings.HasPrefix(pattern, "^") {
		p = 1
		most = min(most, 1)
	}
	count, at := 0, 0
	for count < most {
		g.step()
		end := g.matchAt(at, p)
		if end != noMatch {
			count++
			g.replace(at, end)
		}
		switch {
		case end != noMatch && end > at:
			at = end
		case at < len(s):
			g.AddByte(s[at])
			at++
		default:
			most = count
		}
		if p == 1 {
			break
		}
	}
	g.settle()
	g.Add(s[min(at, len(s)):])
	l.Push(g.Value())
	l.Push(vm.LNumber(count))
	return 2
}

// substitution is a gsub in progress.
type substitution struct {
	matcher
	bind.Text
	replacement vm.LValue
}

// replace appends what takes the place of the match from s to end.
func (g *substitution) replace(s, end int) {
	l := g.l
	var v vm.LValue
	switch r := g.replacement.(type) {
	case vm.LString:
		g.template(string(r), s, end)
		return
	case *vm.LFunction:
		l.Push(r)
		n := g.push(s, end, true)
		v = l.CallOne(n)
	case *vm.LTable:
		v = l.GetTable(r, g.capture(0, s, end))
	default:
		v = r
	}
	g.AddReplacement(v, g.src[s:end])
}

// template appends a replacement string, in which "%1" is a capture.
func (g *substitution) template(r string, s, end int) {
	for {
		plain, escape, found := strings.Cut(r, "%")
		g.Add(plain)
		if !found {
			return
		}
		if escape == "" {
			g.l.RaiseError("%s", "invalid use of '%' in replacement string")
		}
		switch c := escape[0]; {
		case c == '0':
			g.Add(g.src[s:end])
		case numeral.IsDigit(c):
			g.AddValue(g.capture(int(c-'1'), s, end))
		default:
			g.AddByte(c)
		}
		r = escape[1:]
	}
}
