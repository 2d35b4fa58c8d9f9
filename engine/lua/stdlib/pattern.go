package stdlib

import (
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

const (
	// maxCaptures is as in Lua.
	maxCaptures = 32
	// maxMatchDepth bounds how deep the matcher recurs: about one level for
	// each repetition and capture of the pattern.
	maxMatchDepth = 200
	// stepsPerCheck is after how many steps the matcher charges the meter.
	stepsPerCheck = 64
)

// Lengths of captures that have none.
const (
	captureOpen     = -1
	capturePosition = -2
)

const noMatch = -1

// matcher matches one pattern of Lua 5.1 against one subject. It follows
// lstrlib.c, and charges an instruction for each step.
type matcher struct {
	l       *vm.LState
	src     string
	pattern string

	level    int
	captures [maxCaptures]struct{ start, length int }
	depth    int
	steps    int
}

// step accounts for one step of the matcher.
func (m *matcher) step() {
	if m.steps++; m.steps >= stepsPerCheck {
		m.settle()
	}
}

// Settle charges for the steps since the last time.
func (m *matcher) settle() {
	n := m.steps
	m.steps = 0
	m.l.Charge(n)
}

func (m *matcher) malformed(why string) { m.l.RaiseError("malformed pattern (%s)", why) }

// matchAt returns where the match that begins at s ends, or noMatch.
func (m *matcher) matchAt(s, p int) int {
	m.level = 0
	return m.match(s, p)
}

// match matches the pattern from p on at s, and returns where the match ends.
func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > maxMatchDepth {
		bind.RaiseLimit(m.l, "the pattern is too complex: more than %d repetitions and captures", maxMatchDepth)
	}
	end := m.items(s, p)
	m.depth--
	return end
}

// items matches item after item. What has alternatives recurs.
func (m *matcher) items(s, p int) int {
	for p < len(m.pattern) {
		m.step()
		switch c := m.pattern[p]; {
		case c == '(':
			if p+1 < len(m.pattern) && m.pattern[p+1] == ')' {
				return m.startCapture(s, p+2, capturePosition)
			}
			return m.startCapture(s, p+1, captureOpen)
		case c == ')':
			return m.endCapture(s, p+1)
		case c == '$' && p+1 == len(m.pattern):
			if s == len(m.src) {
				return s
			}
			return noMatch
		case c == '%' && p+1 < len(m.pattern) && strings.IndexByte("bf0123456789", m.pattern[p+1]) >= 0:
			s, p = m.special(s, p)
		default:
			var last bool
			if s, p, last = m.repeated(s, p); last {
				return s
			}
		}
		if s == noMatch {
			return noMatch
		}
	}
	return s
}

// repeated matches a class and what says how often. If it had to try what is
// behind it, last is true and s where the whole match ends.
func (m *matcher) repeated(s, p int) (next, rest int, last bool) {
	end := m.classEnd(p)
	suffix := byte(0)
	if end < len(m.pattern) {
		suffix = m.pattern[end]
	}
	switch suffix {
	case '?':
		if m.single(s, p, end) {
			if r := m.match(s+1, end+1); r != noMatch {
				return r, 0, true
			}
		}
		return s, end + 1, false
	case '*':
		return m.expandMost(s, p, end, 0), 0, true
	case '+':
		return m.expandMost(s, p, end, 1), 0, true
	case '-':
		return m.expandLeast(s, p, end), 0, true
	}
	if !m.single(s, p, end) {
		return noMatch, 0, true
	}
	return s + 1, end, false
}

// special matches "%b", "%f" and back references at s, and returns where to go
// on in subject and pattern.
func (m *matcher) special(s, p int) (int, int) {
	switch c := m.pattern[p+1]; c {
	case 'b':
		return m.balance(s, p+2), p + 4
	case 'f':
		p += 2
		if p >= len(m.pattern) || m.pattern[p] != '[' {
			m.l.RaiseError("%s", "missing '[' after '%f' in pattern")
		}
		end := m.classEnd(p)
		var previous, current byte
		if s > 0 {
			previous = m.src[s-1]
		}
		if s < len(m.src) {
			current = m.src[s]
		}
		if m.set(previous, p, end-1) || !m.set(current, p, end-1) {
			return noMatch, p
		}
		return s, end
	default:
		return m.reference(s, c), p + 2
	}
}

// classEnd returns where the single-character class at p ends.
func (m *matcher) classEnd(p int) int {
	c := m.pattern[p]
	p++
	switch c {
	case '%':
		if p >= len(m.pattern) {
			m.malformed("ends with '%'")
		}
		return p + 1
	case '[':
		if p < len(m.pattern) && m.pattern[p] == '^' {
			p++
		}
		for first := true; first || p >= len(m.pattern) || m.pattern[p] != ']'; first = false {
			m.step()
			if p >= len(m.pattern) {
				m.malformed("missing ']'")
			}
			escaped := m.pattern[p] == '%'
			p++
			if escaped {
				if p >= len(m.pattern) {
					m.malformed("missing ']'")
				}
				p++
			}
		}
		return p + 1
	}
	return p
}

// single reports whether the byte at s is of the class between p and end.
func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	c := m.src[s]
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pattern[p+1])
	case '[':
		return m.set(c, p, end-1)
	}
	return m.pattern[p] == c
}

// set reports whether c is in the set that begins at p and whose ']' is at end.
func (m *matcher) set(c byte, p, end int) bool {
	found := true
	if p++; m.pattern[p] == '^' {
		found = false
		p++
	}
	for ; p < end; p++ {
		m.step()
		switch {
		case m.pattern[p] == '%':
			p++
			if inClass(c, m.pattern[p]) {
				return found
			}
		case p+2 < end && m.pattern[p+1] == '-':
			if m.pattern[p] <= c && c <= m.pattern[p+2] {
				return found
			}
			p += 2
		case m.pattern[p] == c:
			return found
		}
	}
	return !found
}

// inClass reports whether c is of the class that a letter after '%' names; an
// upper-case letter names the complement, and what names no class itself.
func inClass(c, class byte) bool {
	member := classes[class|0x20]
	if member == nil || !isLetter(class) {
		return class == c
	}
	return member(c) == (class&0x20 != 0)
}

var classes = [256]func(byte) bool{
	'a': isLetter,
	'c': func(c byte) bool { return c < ' ' || c == 0x7f },
	'd': numeral.IsDigit,
	'l': func(c byte) bool { return 'a' <= c && c <= 'z' },
	'p': func(c byte) bool { return '!' <= c && c <= '~' && !isLetter(c) && !numeral.IsDigit(c) },
	's': func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	'u': func(c byte) bool { return 'A' <= c && c <= 'Z' },
	'w': func(c byte) bool { return isLetter(c) || numeral.IsDigit(c) },
	'x': func(c byte) bool { return numeral.IsDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
	'z': func(c byte) bool { return c == 0 },
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// balance matches "%bxy" at s, where p is at x.
func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pattern) {
		m.l.RaiseError("unbalanced pattern")
	}
	if s >= len(m.src) || m.src[s] != m.pattern[p] {
		return noMatch
	}
	opener, closer := m.pattern[p], m.pattern[p+1]
	open := 1
	for s++; s < len(m.src); s++ {
		m.step()
		switch m.src[s] {
		case closer:
			if open--; open == 0 {
				return s + 1
			}
		case opener:
			open++
		}
	}
	return noMatch
}

// expandMost matches as many of the class as possible, at least least.
func (m *matcher) expandMost(s, p, end, least int) int {
	n := 0
	for m.single(s+n, p, end) {
		m.step()
		n++
	}
	for ; n >= least; n-- {
		if r := m.match(s+n, end+1); r != noMatch {
			return r
		}
	}
	return noMatch
}

// expandLeast matches as few of the class as possible.
func (m *matcher) expandLeast(s, p, end int) int {
	for {
		if r := m.match(s, end+1); r != noMatch {
			return r
		}
		if !m.single(s, p, end) {
			return noMatch
		}
		m.step()
		s++
	}
}

func (m *matcher) startCapture(s, p, length int) int {
	if m.level >= maxCaptures {
		m.l.RaiseError("too many captures")
	}
	m.captures[m.level].start = s
	m.captures[m.level].length = length
	m.level++
	r := m.match(s, p)
	if r == noMatch {
		m.level--
	}
	return r
}

func (m *matcher) endCapture(s, p int) int {
	open := -1
	for i := m.level - 1; i >= 0; i-- {
		if m.captures[i].length == captureOpen {
			open = i
			break
		}
	}
	if open < 0 {
		m.l.RaiseError("invalid pattern capture")
	}
	m.captures[open].length = s - m.captures[open].start
	r := m.match(s, p)
	if r == noMatch {
		m.captures[open].length = captureOpen
	}
	return r
}

// reference matches what the capture that digit names matched.
func (m *matcher) reference(s int, digit byte) int {
	i := int(digit - '1')
	if i < 0 || i >= m.level || m.captures[i].length == captureOpen {
		m.l.RaiseError("invalid capture index")
	}
	c := m.captures[i]
	if c.length == capturePosition {
		return noMatch // it is no text
	}
	text := m.src[c.start : c.start+c.length]
	m.steps += len(text) / hostapi.BytesPerInstruction
	m.step()
	if !strings.HasPrefix(m.src[s:], text) {
		return noMatch
	}
	return s + len(text)
}

// capture returns the i-th capture of a match from s to end; the first of a
// pattern without captures is the whole match.
func (m *matcher) capture(i, s, end int) vm.LValue {
	if i >= m.level {
		if i > 0 {
			m.l.RaiseError("invalid capture index")
		}
		return vm.LString(m.src[s:end])
	}
	c := m.captures[i]
	switch c.length {
	case captureOpen:
		m.l.RaiseError("unfinished capture")
	case capturePosition:
		return vm.LNumber(c.start + 1)
	}
	return vm.LString(m.src[c.start : c.start+c.length])
}

// push pushes all captures, or the whole match if there are none, and returns
// how many.
func (m *matcher) push(s, end int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.l.Push(m.capture(i, s, end))
	}
	return n
}
