package mask

import (
	"bytes"
	"net/url"

	"github.com/scriptorium-dev/scriptorium/proto/decision"
)

// text copies a text. A path that goes on into it goes into the JSON that it has, or into the query
// string. What cannot be read is masked as a whole.
func (m *Masker) text(p place, query bool) (kept bool, err error) {
	raw, plain, err := m.scanText()
	if err != nil {
		return false, err
	}
	into := p.mask != 0 && m.hiding == 0
	if plain && !into && !m.scrub && m.hiding == 0 {
		m.out = append(append(append(m.out, '"'), raw...), '"')
		return p.kept, nil
	}
	text := raw
	if !plain {
		text = decode(nil, raw)
	}
	if into && query {
		return m.queryString(p, text), nil
	}
	if into && (p.depth > 0 || bytes.IndexByte(text, '{') >= 0) {
		return m.inside(p, text), nil
	}
	begin := len(m.out) + 1
	m.out = append(appendText(append(m.out, '"'), text), '"')
	written := m.out[begin : len(m.out)-1]
	if m.hiding == 1 || m.hiding == 2 && !plain && len(text) >= piece {
		m.addText(text)
	}
	if m.scrub && m.copies.in(written) {
		m.out = m.out[:begin-1]
		return m.hide(p), nil
	}
	return p.kept, nil
}

// looksLikeJSON reports whether the text begins as JSON does that has names, and as no query string does.
func looksLikeJSON(text []byte) bool {
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\uFEFF")))
	return len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"')
}

// inside copies a text that may be JSON with masked values, or masks it.
func (m *Masker) inside(p place, text []byte) (kept bool) {
	if m.texts == maxTexts {
		return m.maskText(p, text)
	}
	number, listed, masked := m.number, m.listed, len(m.masked)
	copied, read := m.read(place{mask: p.mask, kept: true, depth: p.depth}, text)
	if !read {
		m.number, m.listed, m.masked = number, listed, m.masked[:masked]
		return m.maskText(p, text)
	}
	m.out = append(appendText(append(m.out, '"'), copied), '"')
	return p.kept
}

// read copies the JSON that the text is, and reports whether it is such.
func (m *Masker) read(p place, text []byte) (copied []byte, ok bool) {
	outer, out, pointed := m.scanner, m.out, len(m.points)
	m.texts++
	m.scanner, m.out = scanner{in: bytes.TrimPrefix(text, []byte("\uFEFF"))}, nil
	behind := m.masks.behind
	_, err := m.value(p)
	ok, copied = err == nil && m.end(), m.out
	m.texts--
	m.masks.behind, m.points, m.query = behind, m.points[:pointed], false
	m.scanner, m.out = outer, out
	return copied, ok
}

func (m *Masker) maskText(p place, text []byte) (kept bool) {
	m.addText(text)
	return m.hide(p)
}

// addText notes a text that is masked, and those with escapes in it that a script may have read.
func (m *Masker) addText(text []byte) {
	m.addValue(text)
	if m.texts < maxTexts && bytes.IndexByte(text, '\\') >= 0 {
		was := m.hiding
		m.hiding = 2
		_, _ = m.read(place{kept: true}, text) // what is no JSON has none
		m.hiding = was
	}
}

// queryString copies a query string without the values of parameters that a path goes to.
func (m *Masker) queryString(p place, text []byte) (kept bool) {
	if looksLikeJSON(text) {
		return m.inside(p, text)
	}
	m.out = append(m.out, '"')
	for len(text) > 0 {
		end := bytes.IndexAny(text, "&;")
		part, mark := text, []byte(nil)
		if end >= 0 {
			part, mark = text[:end], text[end:end+1]
		}
		text = text[len(part)+len(mark):]
		name, value, _ := bytes.Cut(part, []byte("="))
		through, ends := m.masks.member(p.mask, p.depth, parameter(name))
		if !ends && through == 0 {
			m.out = append(appendText(m.out, part), mark...)
			continue
		}
		pointed := len(m.points)
		m.scratch = appendText(m.scratch[:0], parameter(name))
		m.point(m.scratch)
		m.note()
		m.points = m.points[:pointed]
		m.addText(value)
		m.out = append(append(appendText(m.out, name), "="+decision.Mask...), mark...)
	}
	m.out = append(m.out, '"')
	return p.kept || p.keep != 0
}

// addValue notes a value as it came, and without the escapes of parameters and forms.
func (m *Masker) addValue(value []byte) {
	m.scratch = appendText(m.scratch[:0], value)
	m.copies.add(m.scratch)
	if read, err := url.QueryUnescape(string(value)); err == nil && read != string(value) {
		m.scratch = appendText(m.scratch[:0], []byte(read))
		m.copies.add(m.scratch)
	}
}

// parameter returns the name of a parameter of a query string: "a" for "a", "?a", "%61" and "a[]".
func parameter(name []byte) []byte {
	name = bytes.TrimPrefix(name, []byte("?"))
	if read, err := url.QueryUnescape(string(name)); err == nil {
		name = []byte(read)
	}
	if i := bytes.IndexByte(name, '['); i > 0 {
		name = name[:i]
	}
	return name
}
