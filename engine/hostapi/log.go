package hostapi

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// MaxLine is how long a line of the log may be: what is beyond is cut.
	MaxLine = 4 << 10
	// LogCost is what a line costs besides its bytes.
	LogCost = 20
	// logBytesPerInstruction is less than for other work: each is looked at, and written out later.
	logBytesPerInstruction = 16
)

// Log logs a message. What of it is not visible is escaped, and what is too long is cut. Where there is no agent, the
// line goes nowhere.
func (c *Call) Log(level engine.Level, message string) *script.Error {
	if !c.Pay(LogCost) {
		return stopped()
	}
	if len(message) > MaxLine || !isPlain(message) {
		var line Line
		line.Text(message)
		message = line.String()
	}
	return c.LogLine(level, message)
}

// LogLine is Log for what a Line has made, whose LogCost was paid.
func (c *Call) LogLine(level engine.Level, line string) *script.Error {
	if !c.Pay(len(line)/logBytesPerInstruction) || !c.Make(stringBytes+2*len(line)) {
		return stopped()
	}
	if c.Host != nil {
		c.Host.Log(c.Invocation, level, line)
	}
	return nil
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

// Line puts a line together as it is written: valid UTF-8, all of it visible, and no longer than it may be. What a
// program logs, others read in their terminals. The zero Line is empty.
type Line struct {
	buf  []byte
	full bool
}

// cut marks that something is missing.
const cut = "…"

// String returns the line.
func (b *Line) String() string { return string(b.buf) }

// Full reports whether the line has no room for more.
func (b *Line) Full() bool { return b.full }

// add appends a piece of which nothing needs escaping.
func (b *Line) add(piece string) {
	if b.full {
		return
	}
	if room := MaxLine - len(cut) - len(b.buf); len(piece) > room {
		if isPlain(piece) {
			b.buf = append(b.buf, piece[:room]...)
		}
		b.buf, b.full = append(b.buf, cut...), true
		return
	}
	b.buf = append(b.buf, piece...)
}

// Text appends text, escaped where it has to be.
func (b *Line) Text(s string) {
	for i := 0; i < len(s) && !b.full; {
		plain := i
		for plain < len(s) && ' ' <= s[plain] && s[plain] <= '~' && plain-i < MaxLine {
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

// Field begins a field: what is appended next is its value.
func (b *Line) Field(key string) {
	b.add(" ")
	b.Text(key)
	b.add("=")
}

// FieldText appends a text that is the value of a field, in quotes if it needs them.
func (b *Line) FieldText(s string) {
	if s = s[:min(len(s), MaxLine)]; s == "" || strings.ContainsAny(s, " =\"\n") {
		s = strconv.Quote(s)
	}
	b.Text(s)
}
