package lua

import (
	"strconv"
	"strings"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
)

const (
	// maxLogLine is how long a line may be: what is beyond is cut.
	maxLogLine = 4 << 10
	// logCost is what a line costs besides its bytes.
	logCost = 20
	// logBytesPerInstruction is less than for other work: each is looked at, and
	// written out later.
	logBytesPerInstruction = 16
)

func logFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"error": logAt(engine.Error),
		"info":  logAt(engine.Info),
		"warn":  logAt(engine.Warn),
	}
}

// logAt logs its first argument, and the members of its second as fields. Where there is
// no agent, the line goes nowhere.
func logAt(level engine.Level) glua.LGFunction {
	return func(l *glua.LState) int {
		m, c := meterOf(l), callOf(l)
		m.charge(l, logCost)
		message := argAny(l, 1)
		var fields *glua.LTable
		if l.Get(2) != glua.LNil {
			t, ok := l.Get(2).(*glua.LTable)
			if !ok {
				typeError(l, 2, "table")
			}
			settle(c, t)
			fields = t
		}
		text, plain := message.(glua.LString)
		if !plain || fields != nil || len(text) > maxLogLine || !isPlain(string(text)) {
			line := logLine{l: l, buf: make([]byte, 0, 128)}
			line.value(message)
			line.fields(fields)
			text = glua.LString(line.buf)
		}
		m.charge(l, len(text)/logBytesPerInstruction)
		m.make(l, stringBytes+2*len(text))
		if c.inv.Host != nil {
			c.inv.Host.Log(c.inv, level, string(text))
		}
		return 0
	}
}

// isPlain reports whether s can stand in a log as it is.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// logLine is a line as it is written: valid UTF-8, all of it visible, and no longer than
// it may be. What a script logs, others read in their terminals.
type logLine struct {
	l    *glua.LState
	buf  []byte
	full bool
}

// cut marks that something is missing.
const cut = "…"

// add appends a piece of which nothing needs escaping.
func (b *logLine) add(piece string) {
	if b.full {
		return
	}
	if room := maxLogLine - len(cut) - len(b.buf); len(piece) > room {
		if isPlain(piece) {
			b.buf = append(b.buf, piece[:room]...)
		}
		b.buf, b.full = append(b.buf, cut...), true
		return
	}
	b.buf = append(b.buf, piece...)
}

func (b *logLine) text(s string) {
	for i := 0; i < len(s) && !b.full; {
		plain := i
		for plain < len(s) && ' ' <= s[plain] && s[plain] <= '~' && plain-i < maxLogLine {
			plain++
		}
		if plain > i {
			b.add(s[i:plain])
			i = plain
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.add("\uFFFD")
		case strconv.IsPrint(r):
			b.add(s[i : i+size])
		default: // '\n' with its quotes
			quoted := strconv.QuoteRune(r)
			b.add(quoted[1 : len(quoted)-1])
		}
		i += size
	}
}

// value writes v as tostring has it, and a table as JSON.
func (b *logLine) value(v glua.LValue) {
	if t, ok := v.(*glua.LTable); ok && b.l.GetMetaField(v, "__tostring") == glua.LNil {
		b.json(t)
		return
	}
	b.text(toString(b.l, v))
}

func (b *logLine) json(t *glua.LTable) {
	m := meterOf(b.l)
	e := encoder{meter: m, nodes: maxNodes, limit: maxLogLine, over: "the values"}
	text, err := e.value(nil, t, 0)
	m.charge(b.l, 0) // fails here if the budget is why encoding did
	if err != nil {
		b.text(typeName(t) + " (" + e.fail(err, "which").Message + ")")
		return
	}
	b.text(string(text))
}

// fields writes the members of t as key=value, in their order.
func (b *logLine) fields(t *glua.LTable) {
	if t == nil {
		return
	}
	m := meterOf(b.l)
	for k, v := m.next(t, glua.LNil); k != glua.LNil && !b.full; k, v = m.next(t, k) {
		m.charge(b.l, 1)
		b.add(" ")
		b.text(keyText(k))
		b.add("=")
		s, ok := v.(glua.LString)
		switch {
		case !ok:
			b.value(v)
		case s == "" || strings.ContainsAny(string(s[:min(len(s), maxLogLine)]), " =\"\n"):
			b.text(strconv.Quote(string(s[:min(len(s), maxLogLine)])))
		default:
			b.text(string(s))
		}
	}
}
