package lua

import (
	"io"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"
)

const (
	// stepsPerInstruction is how many steps of the matcher an instruction pays for. Each
	// character of the text may take a step for each instruction of the pattern's
	// program.
	stepsPerInstruction = 4
	// searchCost is what it takes to begin a search that can be interrupted.
	searchCost = 40
	// maxBlindSteps is how many steps there may be that nothing can interrupt.
	maxBlindSteps = 64 << 10

	matchBytes, groupBytes = 64, 16 // of the positions of a match
)

// search returns the positions of the leftmost match that begins at byte from of s or
// later, and of its captures, in pairs; nil if there is none. What comes before from
// counts for what looks back: ^, \A, \b and \B.
//
// Short searches are paid for beforehand, at their worst. Others read the text bit by
// bit, pay as they go, and can be stopped.
func (p *rePattern) search(l *glua.LState, s string, from int) []int {
	m := meterOf(l)
	m.make(l, matchBytes+groupBytes*p.groups)
	if steps := (len(s) + 1) * p.cost; from == 0 && steps <= maxBlindSteps {
		m.charge(l, 1+steps/stepsPerInstruction)
		return p.first.FindStringSubmatchIndex(s)
	}
	m.charge(l, searchCost)
	r := runes{text: s, meter: m, cost: 1 + p.cost/stepsPerInstruction}
	if from == 0 {
		at := p.first.FindReaderSubmatchIndex(&r)
		m.charge(l, 0) // fails here if the budget is why it stopped
		return at
	}
	if !p.restPaid.Swap(true) {
		m.charge(l, p.compileCost)
		m.make(l, p.bytes)
	}
	rest, err := p.rest()
	if err != nil {
		l.RaiseError("the pattern is too large to be searched for from here: %s", clip(err.Error()))
	}
	_, size := utf8.DecodeLastRuneInString(s[:from])
	r.at, r.edge = from-size, from
	start := r.at
	at := rest.FindReaderSubmatchIndex(&r)
	m.charge(l, 0)
	if at == nil {
		return nil
	}
	at = at[2:] // the first pair is of the character before, too
	for i := range at {
		if at[i] >= 0 {
			at[i] += start
		}
	}
	return at
}

// runes reads a text for a matcher and charges for what it reads. It ends early when the
// budget does.
type runes struct {
	text  string
	at    int
	edge  int // that no character spans
	meter *meter
	cost  int // of each character
}

var _ io.RuneReader = (*runes)(nil)

// afford charges for a character and reports whether the call may go on.
func (r *runes) afford() bool {
	m := r.meter
	m.left -= int64(r.cost)
	return m.left >= 0 && m.stop.Load() == uint32(running) || m.goesOn()
}

// ReadRune is io.RuneReader's.
func (r *runes) ReadRune() (rune, int, error) {
	if r.at >= len(r.text) || !r.afford() {
		return 0, 0, io.EOF
	}
	text := r.text[r.at:]
	if r.at < r.edge {
		text = r.text[r.at:r.edge]
	}
	c, size := utf8.DecodeRuneInString(text)
	r.at += size
	return c, size, nil
}
