package mask

import (
	"errors"
	"strconv"

	"github.com/scriptorium-dev/scriptorium/proto/decision"
)

// Bounds of what a Masker takes.
const (
	maxDepth    = 64 // of lists and objects in each other; engines take less
	maxTexts    = 3  // texts of JSON in each other
	maxPointers = 32 // that AppendMasked appends
	maxPointer  = 1 << 10
)

// hidden is what stands in place of a masked value.
const hidden = `"` + decision.Mask + `"`

var errNotJSON = errors.New("not JSON")

// Masker copies JSON values. Reset makes it ready for those of another record. It keeps its buffers, and
// is not safe for concurrent use.
type Masker struct {
	scanner
	out   []byte
	masks walk
	keeps walk

	hiding int    // 1: what is copied now is below a path; 2: and in a text there
	texts  int    // how many texts the value is in
	query  bool   // the value that comes next is of a query string
	scrub  bool   // copies of masked values are looked for
	points []byte // JSON pointer to the value, as JSON has it in quotes
	masked []byte // pointers, with commas between them
	listed int    // how many these are
	number int    // how many values were masked
	copies copies
	spare  []byte
}

// Reset makes m hide the values at the paths.
func (m *Masker) Reset(masks *Paths) {
	m.masks.paths, m.masks.hides = masks, true
	m.masked, m.listed, m.number = m.masked[:0], 0, 0
	m.copies.reset()
}

// Held returns how many bytes m keeps for its next values.
func (m *Masker) Held() int {
	return cap(m.points) + cap(m.masked) + cap(m.scratch) + cap(m.spare) + m.copies.held()
}

// place is where in a value the masker is.
type place struct {
	mask, keep set  // paths that are alive
	kept       bool // all of the value is kept
	depth      int
}

// Append appends the JSON value to dst without what is masked, and without what is at none of the paths of
// keep, if that is not nil. It reports whether anything is left; dst is what it was otherwise. Pointer is
// the value's JSON pointer in the record, which has no characters that JSON escapes. An error says that
// the value is no JSON.
func (m *Masker) Append(dst, value []byte, pointer string, keep *Paths) (to []byte, kept bool, err error) {
	if m.masks.paths == nil && keep == nil && !m.scrub && clean(value) {
		return append(dst, value...), true, nil
	}
	m.in, m.at, m.out = value, 0, dst
	m.query = false // an error may have left it
	m.points = append(m.points[:0], pointer...)
	m.keeps.paths = keep
	alive, ends := m.masks.root()
	p := place{mask: alive, kept: keep.Empty()}
	if !p.kept {
		p.keep, p.kept = m.keeps.root()
	}
	start := len(m.out)
	kept, err = m.maybe(p, ends)
	if err == nil && !m.end() {
		err = errNotJSON
	}
	if err != nil || !kept {
		m.out = m.out[:start]
	}
	to, m.in, m.out = m.out, nil, nil
	return to, kept && err == nil, err
}

// Scrub hides in the value that dst has from there on, which Append has appended, what shares a piece of
// text with a value that was masked.
func (m *Masker) Scrub(dst []byte, from int, pointer string) []byte {
	if !m.copies.any() {
		return dst
	}
	masks := m.masks.paths
	m.scrub, m.masks.paths = true, nil
	m.spare = append(m.spare[:0], dst[from:]...)
	to, _, err := m.Append(dst[:from], m.spare, pointer, nil)
	m.scrub, m.masks.paths = false, masks
	if err != nil { // Append has appended it
		return append(to, hidden...)
	}
	return to
}

// Leaks reports whether the text shares a piece with a masked value.
func (m *Masker) Leaks(text string) bool {
	if !m.copies.any() {
		return false
	}
	m.scratch = appendText(m.scratch[:0], []byte(text))
	return m.copies.in(m.scratch)
}

// AppendMasked appends the JSON pointers of what was masked since Reset, with commas between them, and
// reports whether those are all.
func (m *Masker) AppendMasked(dst []byte) (to []byte, all bool) {
	return append(dst, m.masked...), m.number == m.listed
}

// maybe copies the value, or what stands in its place if it is masked.
func (m *Masker) maybe(p place, masked bool) (kept bool, err error) {
	if !masked || m.hiding > 0 {
		return m.value(p)
	}
	m.hiding++
	start := len(m.out)
	_, err = m.value(p)
	m.hiding--
	m.out = m.out[:start]
	return m.hide(p), err
}

// hide puts in what stands for the value, unless it is not kept at all.
func (m *Masker) hide(p place) (kept bool) {
	if !p.kept && p.keep == 0 {
		return false
	}
	m.out = append(m.out, hidden...)
	m.note()
	return true
}

// note notes the pointer of what is masked.
func (m *Masker) note() {
	m.number++
	if m.listed == maxPointers || len(m.points) > maxPointer {
		return
	}
	if m.listed++; m.listed > 1 {
		m.masked = append(m.masked, ',')
	}
	m.masked = append(append(append(m.masked, '"'), m.points...), '"')
}

// value copies one value, and reports whether anything of it is kept.
func (m *Masker) value(p place) (kept bool, err error) {
	query := m.query
	m.query = false
	switch c := m.next(); {
	case p.depth > maxDepth:
		return false, errNotJSON
	case c == '{':
		return m.object(p)
	case c == '[':
		return m.list(p)
	case c == '"':
		return m.text(p, query)
	default:
		return m.scalar(p)
	}
}

// scalar copies a number, true, false or null.
func (m *Masker) scalar(p place) (kept bool, err error) {
	token, isNumber := m.scanScalar()
	if token == nil {
		return false, errNotJSON
	}
	if m.hiding == 1 && isNumber {
		m.copies.add(token)
	}
	if m.scrub && isNumber && m.copies.in(token) {
		return m.hide(p), nil
	}
	m.out = append(m.out, token...)
	return p.kept, nil
}

func (m *Masker) object(p place) (kept bool, err error) {
	return m.each('{', '}', p, func(int) (bool, error) { return m.member(p) })
}

// each copies what is between two brackets: element copies the next element, and reports whether anything of it is kept.
func (m *Masker) each(opening, closing byte, p place, element func(i int) (kept bool, err error)) (kept bool, err error) {
	m.out = append(m.out, opening)
	m.at++
	kept = p.kept
	if m.next() == closing {
		m.at++
		m.out = append(m.out, closing)
		return kept, nil
	}
	first := true
	for i := 0; ; i++ {
		start, pointed := len(m.out), len(m.points)
		if !first {
			m.out = append(m.out, ',')
		}
		here, err := element(i)
		if err != nil {
			return false, err
		}
		m.points = m.points[:pointed]
		if here {
			first, kept = false, true
		} else {
			m.out = m.out[:start]
		}
		switch m.next() {
		case ',':
			m.at++
		case closing:
			m.at++
			m.out = append(m.out, closing)
			return kept, nil
		default:
			return false, errNotJSON
		}
	}
}

// member copies a member of an object.
func (m *Masker) member(p place) (kept bool, err error) {
	if m.next() != '"' {
		return false, errNotJSON
	}
	key, plain, err := m.scanText()
	if err != nil {
		return false, err
	}
	if !plain {
		m.scratch = decode(m.scratch[:0], key)
		key = m.scratch
	}
	begin := len(m.out)
	m.out = append(m.out, '"')
	if plain {
		m.out = append(m.out, key...)
	} else {
		m.out = appendText(m.out, key)
	}
	m.out = append(m.out, '"', ':')
	written := m.out[begin+1 : len(m.out)-2]
	if m.hiding == 1 {
		m.copies.add(written)
	}
	if m.scrub && m.copies.in(written) {
		m.out = append(append(m.out[:begin], hidden...), ':')
		m.points = append(m.points, "/"+decision.Mask...)
		m.note()
	} else if m.scrub || p.mask != 0 {
		m.point(written)
	}
	inside := place{kept: p.kept, depth: p.depth + 1}
	masked := false
	if p.mask != 0 {
		inside.mask, masked = m.masks.member(p.mask, p.depth, key)
		m.query = inside.mask != 0 && sameName("query", key)
	}
	if !p.kept {
		inside.keep, inside.kept = m.keeps.member(p.keep, p.depth, key)
	}
	if m.next() != ':' {
		return false, errNotJSON
	}
	m.at++
	return m.maybe(inside, masked)
}

func (m *Masker) list(p place) (kept bool, err error) {
	inside := place{kept: p.kept, depth: p.depth + 1}
	through, passed, masked := m.masks.list(p.mask, p.depth)
	inside.mask = through
	defer m.masks.leave(passed)
	if !p.kept {
		inside.keep, passed, inside.kept = m.keeps.list(p.keep, p.depth)
		defer m.keeps.leave(passed)
	}
	return m.each('[', ']', p, func(i int) (bool, error) {
		m.points = strconv.AppendInt(append(m.points, '/'), int64(i), 10)
		return m.maybe(inside, masked)
	})
}

// point adds a name, as JSON has it in quotes, to the pointer.
func (m *Masker) point(name []byte) {
	m.points = append(m.points, '/')
	for _, c := range name {
		switch c {
		case '~':
			m.points = append(m.points, '~', '0')
		case '/':
			m.points = append(m.points, '~', '1')
		default:
			m.points = append(m.points, c)
		}
	}
}
