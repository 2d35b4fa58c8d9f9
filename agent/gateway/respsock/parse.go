package respsock

import (
	"bytes"
	"fmt"
	"strconv"
)

// Bounds of a request. A JSON value of 1 MiB fits into an argument, and its
// RESP framing beside it.
const (
	maxArgs     = 1024      // arguments of a call
	maxElements = 16 + 2048 // of one command: a call's arguments and what comes around them
	maxBulk     = 1<<20 + 1<<10
	maxInline   = 64 << 10
	maxRequest  = 4 << 20
)

// protocolError ends a connection: after it nobody knows where the next
// command begins.
type protocolError string

var errTooLarge = protocolError("a request may have " + strconv.Itoa(maxRequest) + " bytes")

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// parser takes commands from the front of a buffer.
type parser struct {
	// args are the command's elements. They point into the buffer, or into
	// inline.
	args [][]byte
	// need is how long the buffer must be before parsing it again can succeed.
	need int
	// Of a command that is not complete yet: where the next element begins, and how many are
	// to come. A client that sends byte by byte has none read twice.
	at, left int
	// inline holds the unquoted words of an inline command.
	inline []byte
}

// next parses the command at the front of buf into p.args and returns its
// length; 0 if it is not complete yet. An empty command has no args.
func (p *parser) next(buf []byte) (n int, err error) {
	p.args = p.args[:0]
	if len(buf) == 0 || len(buf) < p.need {
		return 0, nil
	}
	p.need = 0
	if buf[0] != '*' {
		return p.nextInline(buf)
	}
	resumed := p.at > 0
	if !resumed {
		count, pos, err := length(buf, 1, "multibulk")
		if err != nil || pos == 0 {
			return 0, err
		}
		if count > maxElements {
			return 0, protocolError("invalid multibulk length: more than " + strconv.Itoa(maxElements) + " elements")
		}
		p.at, p.left = pos, count
	}
	for ; p.left > 0; p.left-- {
		start, end, err := p.element(buf)
		if err != nil || end == 0 {
			return 0, err
		}
		p.args = append(p.args, buf[start:end:end])
		p.at = end + 2
	}
	n, p.at = p.at, 0
	if resumed { // it is complete: all elements, from the first on
		return p.next(buf)
	}
	return n, nil
}

// element returns where the next element is, and 0 if it is not complete yet.
func (p *parser) element(buf []byte) (start, end int, err error) {
	if p.at == len(buf) {
		return 0, 0, nil
	}
	if buf[p.at] != '$' {
		return 0, 0, protocolError(fmt.Sprintf("expected '$', got %q", buf[p.at]))
	}
	size, start, err := length(buf, p.at+1, "bulk")
	if err != nil || start == 0 {
		return 0, 0, err
	}
	if size < 0 {
		return 0, 0, protocolError("invalid bulk length")
	}
	if size > maxBulk {
		return 0, 0, protocolError("invalid bulk length: more than " + strconv.Itoa(maxBulk) + " bytes")
	}
	end = start + size
	if end+2 > maxRequest {
		return 0, 0, errTooLarge
	}
	if len(buf) < end+2 {
		p.need = end + 2
		return 0, 0, nil
	}
	if buf[end] != '\r' || buf[end+1] != '\n' {
		return 0, 0, protocolError("a bulk string does not end where its length says")
	}
	return start, end, nil
}

// length parses the decimal number and the CRLF after it at buf[pos:]. It
// returns the position behind, or 0 if the line is not complete yet.
func length(buf []byte, pos int, what string) (n, next int, err error) {
	const most = 9 // digits and sign: more than any length that could be right, and no overflow
	start, negative := pos, false
	if pos < len(buf) && buf[pos] == '-' {
		negative = true
		pos++
	}
	for ; pos < len(buf) && pos-start < most; pos++ {
		c := buf[pos]
		if c >= '0' && c <= '9' {
			n = n*10 + int(c-'0')
			continue
		}
		if c != '\r' || pos == start || negative && pos == start+1 {
			return 0, 0, protocolError("invalid " + what + " length")
		}
		if pos+1 == len(buf) {
			return 0, 0, nil
		}
		if buf[pos+1] != '\n' {
			return 0, 0, protocolError("invalid " + what + " length")
		}
		if negative {
			n = -n
		}
		return n, pos + 2, nil
	}
	if pos-start >= most {
		return 0, 0, protocolError("invalid " + what + " length")
	}
	return 0, 0, nil
}

// nextInline parses a line of words, as a person types them into telnet or nc.
func (p *parser) nextInline(buf []byte) (int, error) {
	end := bytes.IndexByte(buf[:min(len(buf), maxInline)], '\n')
	if end < 0 {
		if len(buf) >= maxInline {
			return 0, protocolError("too big inline request")
		}
		p.need = len(buf) + 1
		return 0, nil
	}
	line := bytes.TrimSuffix(buf[:end], []byte{'\r'})
	// The words are never longer than the line: inline is not moved while args
	// point into it.
	p.inline = append(p.inline[:0], line...)[:0]
	for {
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 {
			return end + 1, nil
		}
		if len(p.args) == maxElements {
			return 0, protocolError("too many words in an inline request")
		}
		start := len(p.inline)
		rest, ok := p.unquote(line)
		if !ok {
			return 0, protocolError("unbalanced quotes in request")
		}
		p.args = append(p.args, p.inline[start:len(p.inline):len(p.inline)])
		line = rest
	}
}

// unquote appends the word at the front of line to p.inline, and returns the
// rest of the line. Words may be quoted: "with \"escapes\" \x00" or 'without'.
func (p *parser) unquote(line []byte) (rest []byte, ok bool) {
	if line[0] != '"' && line[0] != '\'' {
		end := bytes.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		p.inline = append(p.inline, line[:end]...)
		return line[end:], true
	}
	quote := line[0]
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case c == quote:
			rest = line[i+1:]
			return rest, len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t'
		case c == '\\' && i+1 < len(line):
			b, used := unescape(line[i+1:], quote)
			p.inline = append(p.inline, b)
			i += used
		default:
			p.inline = append(p.inline, c)
		}
	}
	return nil, false
}

// unescape returns the byte that the escape after a backslash stands for, and
// how many bytes of the escape it used; 0 used means a plain backslash.
func unescape(s []byte, quote byte) (b byte, used int) {
	if quote == '\'' {
		if s[0] == '\'' {
			return '\'', 1
		}
		return '\\', 0
	}
	if s[0] == 'x' && len(s) >= 3 {
		if n, err := strconv.ParseUint(string(s[1:3]), 16, 8); err == nil {
			return byte(n), 3
		}
	}
	switch s[0] {
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'b':
		return '\b', 1
	case 'a':
		return '\a', 1
	}
	return s[0], 1
}
