package hostlib

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// reFunctions are regular expressions as RE2 has them: linear in the text, which Lua's
// own patterns are not, and with alternatives.
var reFunctions = map[string]vm.LGFunction{
	"escape": reEscape,
	"find":   reFind,
	"gsub":   reGsub,
	"match":  reMatch,
	"test":   reTest,
}

// argPattern returns the second argument, compiled.
func argPattern(l *vm.LState) *hostapi.Pattern {
	c := bind.CallOf(l)
	p, err := c.Host.Pattern(c.Patterns, bind.ArgString(l, 2))
	check(l, err, "s", "pattern")
	return p
}

// search returns the positions of the first match from byte from of s on; nil if there is none.
func search(l *vm.LState, p *hostapi.Pattern, s string, from int) []int {
	at, err := bind.HostOf(l).Search(p, s, from)
	check(l, err)
	return at
}

func reEscape(l *vm.LState) int {
	s := bind.ArgString(l, 1)
	t := bind.NewText(l, len(s))
	for at := 0; at < len(s); {
		to := bind.Piece(l, at, len(s))
		t.Add(regexp.QuoteMeta(s[at:to]))
		at = to
	}
	return l.Return(t.Value())
}

func reTest(l *vm.LState) int {
	s, p := bind.ArgString(l, 1), argPattern(l)
	return l.Return(vm.LBool(search(l, p, s, 0) != nil))
}

// reFind returns where the first match begins and ends, and its captures.
func reFind(l *vm.LState) int { return find(l, true) }

// reMatch returns the captures of the first match, or all of it if there are none.
func reMatch(l *vm.LState) int { return find(l, false) }

func find(l *vm.LState, positions bool) int {
	s, p := bind.ArgString(l, 1), argPattern(l)
	at := search(l, p, s, searchFrom(l, s))
	switch {
	case at == nil:
		return l.Return(vm.LNil)
	case !positions:
		return pushGroups(l, p, s, at)
	}
	l.Push(vm.LNumber(at[0] + 1))
	l.Push(vm.LNumber(at[1]))
	if p.Groups() == 0 {
		return 2
	}
	return 2 + pushGroups(l, p, s, at)
}

// searchFrom returns where the third argument says that a search begins.
func searchFrom(l *vm.LState, s string) int {
	from := bind.OptInt(l, 3, 1)
	if from < 0 {
		from += len(s) + 1
	}
	return max(0, min(from-1, len(s)))
}

// pushGroups pushes the captures of a match, or all of it if there are none, and
// returns how many.
func pushGroups(l *vm.LState, p *hostapi.Pattern, s string, at []int) int {
	if p.Groups() == 0 {
		return l.Return(groupOf(s, at, 0))
	}
	for i := 1; i <= p.Groups(); i++ {
		l.Push(groupOf(s, at, i))
	}
	return p.Groups()
}

// groupOf returns the i-th capture; false if it took no part in the match.
func groupOf(s string, at []int, i int) vm.LValue {
	if at[2*i] < 0 {
		return vm.LFalse
	}
	return vm.LString(s[at[2*i]:at[2*i+1]])
}

// matchCost is what each match of gsub costs besides the search.
const matchCost = 10

// reGsub replaces matches as string.gsub does: by a text with %0 to %9, by what a table
// has, or by what a function returns.
func reGsub(l *vm.LState) int {
	s, p := bind.ArgString(l, 1), argPattern(l)
	r := replacement{Text: bind.NewText(l, 0), pattern: p, with: l.Get(3)}
	switch v := r.with.(type) {
	case vm.LNumber:
		r.with = vm.LString(numeral.Format(float64(v)))
	case vm.LString, *vm.LTable, *vm.LFunction:
	default:
		bind.TypeError(l, 3, "string, function or table")
	}
	most := bind.OptInt(l, 4, numeral.MaxExact)
	copied, count, last := 0, 0, -1
	for from := 0; from <= len(s) && count < most; {
		at := search(l, p, s, from)
		if at == nil {
			break
		}
		accept := true
		if at[1] > from {
			from = at[1]
		} else { // nothing was matched, right here
			accept = at[0] != last
			_, size := utf8.DecodeRuneInString(s[from:])
			from += max(size, 1)
		}
		last = at[1]
		if !accept {
			continue
		}
		count++
		r.Add(s[copied:at[0]])
		r.replace(s, at)
		copied = at[1]
		l.Charge(matchCost)
	}
	r.Add(s[copied:])
	l.Push(r.Value())
	l.Push(vm.LNumber(count))
	return 2
}

// replacement builds the text that gsub returns.
type replacement struct {
	bind.Text
	pattern *hostapi.Pattern
	with    vm.LValue
}

// replace adds what stands for a match.
func (r *replacement) replace(s string, at []int) {
	var value vm.LValue
	switch with := r.with.(type) {
	case vm.LString:
		r.expand(string(with), s, at)
		return
	case *vm.LFunction:
		r.L.Push(with)
		value = r.L.CallOne(pushGroups(r.L, r.pattern, s, at))
	default:
		value = r.L.GetTable(with, groupOf(s, at, min(1, r.pattern.Groups())))
	}
	r.AddReplacement(value, s[at[0]:at[1]])
}

// expand adds a text in which %N is a capture.
func (r *replacement) expand(with, s string, at []int) {
	for {
		text, rest, found := strings.Cut(with, "%")
		r.Add(text)
		if !found {
			return
		}
		if rest == "" {
			r.L.RaiseError("%s", "malformed replacement (ends with '%')")
		}
		with = rest[1:]
		group := int(rest[0]) - '0'
		switch {
		case rest[0] == '%':
			r.AddByte('%')
			continue
		case group < 0 || group > 9:
			r.L.RaiseError("%s", "invalid use of '%' in replacement: %0 to %9 are captures, and %% is %")
		case group == 1 && r.pattern.Groups() == 0:
			group = 0
		case group > r.pattern.Groups():
			r.L.RaiseError("invalid capture index %%%d: the pattern has %d", group, r.pattern.Groups())
		}
		if at[2*group] >= 0 {
			r.Add(s[at[2*group]:at[2*group+1]])
		}
	}
}
