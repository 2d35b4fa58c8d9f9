package mask

import (
	"errors"
	"strconv"

	"github.com/scriptorium-dev/scriptorium/proto/decision"
)

// Bounds of a Masker.
const (
	maxDepth    = 64 // of nested lists and objects; engines have a lower limit
	maxTexts    = 3  // of nested strings that contain JSON
	maxPointers = 32 // that AppendMasked appends
	maxPointer  = 1 << 10
)

// hidden replaces a masked value.
const hidden = `"` + decision.Mask + `"`

var errNotJSON = errors.New("not JSON")

// Masker copies JSON values, and masks parts of them. Call Reset before each record. It reuses its buffers, and is not
// safe for concurrent use.
type Masker struct {
	scanner
	out   []byte
	masks walk
	keeps walk

	hiding  int    // 1 inside a masked value; 2 inside JSON in a string of it
	texts   int    // number of strings around the value that contain JSON
	query   bool   // the next value is a query string
	scrub   bool   // mask copies of masked values
	pointer []byte // JSON pointer to the current value, escaped for JSON
	masked  []byte // pointers to masked values, separated by commas
	listed  int    // number of pointers in masked
	number  int    // number of masked values
	copies  copies
	spare   []byte
}

// Reset starts a new record, in which m masks the values at these paths.
func (m *Masker) Reset(masks *Paths) {
	m.masks.paths, m.masks.hides = masks, true
	m.masked, m.listed, m.number = m.masked[:0], 0, 0
	m.copies.reset()
}

// Held returns the size of the buffers of m, in bytes.
func (m *Masker) Held() int {
	return cap(m.pointer) + cap(m.masked) + cap(m.scratch) + cap(m.spare) + m.copies.held()
}

// place is the position of the masker in a value.
type place struct {
	mask, keep set  // paths that can match inside
	kept       bool // the whole value is kept
	depth      int
}

// Append appends the JSON value to dst with masked parts replaced. If keep is not nil, it leaves out what is at none of
// its paths. It reports whether anything is kept; otherwise dst does not change. pointer is the JSON pointer of the value
// in the record, and must need no escapes. An error means that the value is not JSON.
func (m *Masker) Append(dst, value []byte, pointer string, keep *Paths) (to []byte, kept bool, err error) {
	if m.masks.paths == nil && keep == nil && !m.scrub && clean(value) {
		return append(dst, value...), true, nil
	}
	m.in, m.at, m.out = value, 0, dst
	m.query = false // it can be set after an error
	m.pointer = append(m.pointer[:0], pointer...)
	m.keeps.paths = keep
	alive, ends := m.masks.root()
	p := place{mask: alive, kept: keep.Empty()}
	if !p.kept {
		p.keep, p.kept = m.keeps.root()
	}
	start := len(m.out)
	kept, err = m.valueOrMask(p, ends)
	if err == nil && !m.end() {
		err = errNotJSON
	}
	if err != nil || !kept {
		m.out = m.out[:start]
	}
	to, m.in, m.out = m.out, nil, nil
	return to, kept && err == nil, err
}

// Scrub masks copies of masked values in the value at dst[from:], which Append appended.
func (m *Masker) Scrub(dst []byte, from int, pointer string) []byte {
	if !m.copies.any() {
		return dst
	}
	masks := m.masks.paths
	m.scrub, m.masks.paths = true, nil
	m.spare = append(m.spare[:0], dst[from:]...)
	to, _, err := m.Append(dst[:from], m.spare, pointer, nil)
	m.scrub, m.masks.paths = false, masks
	if err != nil { // impossible: Append wrote the value
		return append(to, hidden...)
	}
	return to
}

// Leaks reports whether the text contains a copy of a masked value, or of a piece of one.
func (m *Masker) Leaks(text string) bool {
	if !m.copies.any() {
		return false
	}
	m.scratch = appendText(m.scratch[:0], []byte(text))
	return m.copies.in(m.scratch)
}

// AppendMasked appends the JSON pointers of the values masked since Reset, separated by commas. It reports whether the
// list is complete.
func (m *Masker) AppendMasked(dst []byte) (to []byte, all bool) {
	return append(dst, m.masked...), m.number == m.listed
}

// valueOrMask copies the value, or its mask if it is masked.
func (m *Masker) valueOrMask(p place, masked bool) (kept bool, err error) {
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

// hide appends the mask of a value, unless nothing of the value is kept.
func (m *Masker) hide(p place) (kept bool) {
	if !p.kept && p.keep == 0 {
		return false
	}
	m.out = append(m.out, hidden...)
	m.addPointer()
	return true
}

// addPointer adds the current pointer to the masked ones.
func (m *Masker) addPointer() {
	m.number++
	if m.listed == maxPointers || len(m.pointer) > maxPointer {
		return
	}
	if m.listed++; m.listed > 1 {
		m.masked = append(m.masked, ',')
	}
	m.masked = append(append(append(m.masked, '"'), m.pointer...), '"')
}

// value copies one value, and reports whether any part is kept.
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

// each copies a list or an object. element copies the next element, and reports whether any part is kept.
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
		start, pointerLen := len(m.out), len(m.pointer)
		if !first {
			m.out = append(m.out, ',')
		}
		here, err := element(i)
		if err != nil {
			return false, err
		}
		m.pointer = m.pointer[:pointerLen]
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
		m.pointer = append(m.pointer, "/"+decision.Mask...)
		m.addPointer()
	} else if m.scrub || p.mask != 0 {
		m.pushName(written)
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
	return m.valueOrMask(inside, masked)
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
		m.pointer = strconv.AppendInt(append(m.pointer, '/'), int64(i), 10)
		return m.valueOrMask(inside, masked)
	})
}

// pushName appends a name, escaped for JSON, to the pointer.
func (m *Masker) pushName(name []byte) {
	m.pointer = append(m.pointer, '/')
	for _, c := range name {
		switch c {
		case '~':
			m.pointer = append(m.pointer, '~', '0')
		case '/':
			m.pointer = append(m.pointer, '~', '1')
		default:
			m.pointer = append(m.pointer, c)
		}
	}
}
