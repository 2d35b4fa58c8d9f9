package hostapi

import (
	"io"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
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

// Search returns the positions of the leftmost match of p that begins at byte from of s or later, and of its captures,
// in pairs; nil if there is none. What comes before from counts for what looks back: ^, \A, \b and \B.
//
// Short searches are paid for beforehand, at their worst. Others read the text bit by bit, pay as they go, and can be
// stopped.
func (c *Call) Search(p *Pattern, s string, from int) ([]int, *script.Error) {
	if !c.Make(matchBytes + groupBytes*p.groups) {
		return nil, stopped()
	}
	if steps := (len(s) + 1) * p.cost; from == 0 && steps <= maxBlindSteps {
		if !c.Pay(1 + steps/stepsPerInstruction) {
			return nil, stopped()
		}
		return p.first.FindStringSubmatchIndex(s), nil
	}
	if !c.Pay(searchCost) {
		return nil, stopped()
	}
	r := runes{text: s, meter: c.Meter, cost: int32(1 + p.cost/stepsPerInstruction)} //nolint:gosec // a pattern is bounded
	if from == 0 {
		return r.result(p.first.FindReaderSubmatchIndex(&r))
	}
	if !p.restPaid.Swap(true) && (!c.Pay(p.compileCost) || !c.Make(p.bytes)) {
		return nil, stopped()
	}
	rest, err := p.rest()
	if err != nil {
		return nil, fault("", "the pattern is too large to be searched for from here: %s", Clip(err.Error()))
	}
	_, size := utf8.DecodeLastRuneInString(s[:from])
	r.at, r.edge = from-size, from
	start := r.at
	at, stop := r.result(rest.FindReaderSubmatchIndex(&r))
	if at == nil {
		return nil, stop
	}
	at = at[2:] // the first pair is of the character before, too
	for i := range at {
		if at[i] >= 0 {
			at[i] += start
		}
	}
	return at, nil
}

// runes reads a text for a matcher and pays for what it reads. It ends early when the budget does.
type runes struct {
	text  string
	at    int
	edge  int // that no character spans
	meter Meter
	cost  int32 // of each character
	owed  int32 // instructions that were not paid for
}

var _ io.RuneReader = (*runes)(nil)

// owedAtOnce is how many instructions are paid for together.
const owedAtOnce = 256

// afford is for a character and reports whether the call may go on.
func (r *runes) afford() bool {
	if r.owed += r.cost; r.owed < owedAtOnce {
		return true
	}
	return r.settle()
}

func (r *runes) settle() bool {
	owed := r.owed
	r.owed = 0
	return r.meter.Pay(int(owed))
}

// result returns what a search has found, unless the call is to end.
func (r *runes) result(at []int) ([]int, *script.Error) {
	if !r.settle() {
		return nil, stopped()
	}
	return at, nil
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
