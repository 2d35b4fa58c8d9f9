package mask

import (
	"bytes"
	"net/url"

	"github.com/scriptorium-dev/scriptorium/proto/decision"
)

// text copies a string. If a path continues inside, the string is read as JSON or as a query string. If that fails, the
// whole string is masked.
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

// looksLikeJSON reports whether the text begins like JSON that can have names. No query string begins like that.
func looksLikeJSON(text []byte) bool {
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\uFEFF")))
	return len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"')
}

// inside copies a string with JSON, and masks values in it. It masks the whole string if it is not JSON.
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

// read copies a text that is JSON. It returns false if the text is not JSON.
func (m *Masker) read(p place, text []byte) (copied []byte, ok bool) {
	outer, out, pointerLen := m.scanner, m.out, len(m.pointer)
	m.texts++
	m.scanner, m.out = scanner{in: bytes.TrimPrefix(text, []byte("\uFEFF"))}, nil
	behind := m.masks.behind
	_, err := m.value(p)
	ok, copied = err == nil && m.end(), m.out
	m.texts--
	m.masks.behind, m.pointer, m.query = behind, m.pointer[:pointerLen], false
	m.scanner, m.out = outer, out
	return copied, ok
}

func (m *Masker) maskText(p place, text []byte) (kept bool) {
	m.addText(text)
	return m.hide(p)
}

// addText adds a masked text to the copies, and the strings of JSON in it: a script may have decoded them.
func (m *Masker) addText(text []byte) {
	m.addValue(text)
	if m.texts < maxTexts && bytes.IndexByte(text, '\\') >= 0 {
		was := m.hiding
		m.hiding = 2
		_, _ = m.read(place{kept: true}, text) // if it is not JSON, there is nothing to add
		m.hiding = was
	}
}

// queryString copies a query string, and masks the values of parameters at a path.
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
		pointerLen := len(m.pointer)
		m.scratch = appendText(m.scratch[:0], parameter(name))
		m.pushName(m.scratch)
		m.addPointer()
		m.pointer = m.pointer[:pointerLen]
		m.addText(value)
		m.out = append(append(appendText(m.out, name), "="+decision.Mask...), mark...)
	}
	m.out = append(m.out, '"')
	return p.kept || p.keep != 0
}

// addValue adds a value to the copies: unchanged, and with the escapes of query strings and forms decoded.
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
