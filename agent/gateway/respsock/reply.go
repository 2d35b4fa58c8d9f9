package respsock

import (
	"strconv"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
)

// The replies of RESP, each appended to a buffer. Where RESP2 and RESP3 differ,
// resp3 says which.

func appendSimple(dst []byte, s string) []byte {
	dst = append(dst, '+')
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

func appendHeader(dst []byte, kind byte, n int64) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '\r', '\n')
}

func appendInt(dst []byte, n int64) []byte { return appendHeader(dst, ':', n) }

func appendArray(dst []byte, n int) []byte { return appendHeader(dst, '*', int64(n)) }

func appendBulk[T string | []byte](dst []byte, s T) []byte {
	dst = appendHeader(dst, '$', int64(len(s)))
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

func appendNull(dst []byte, resp3 bool) []byte {
	if resp3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "$-1\r\n"...)
}

// appendMap begins a map of n pairs, which RESP2 knows as an array.
func appendMap(dst []byte, n int, resp3 bool) []byte {
	if resp3 {
		return appendHeader(dst, '%', int64(n))
	}
	return appendArray(dst, 2*n)
}

// maxErrorLen bounds an error's line: a script writes messages of any length.
const maxErrorLen = 2048

// appendError appends an error of one line, whatever the prefix and the message hold. A
// prefix is a word of a few capital letters: another one is the kind of no error.
func appendError(dst []byte, prefix, message string) []byte {
	if !isPrefix(prefix) {
		prefix = string(script.Internal)
	}
	dst = append(dst, '-')
	dst = append(dst, prefix...)
	dst = append(dst, ' ')
	cut := len(message) > maxErrorLen
	if cut {
		end := maxErrorLen
		for end > maxErrorLen-utf8.UTFMax && !utf8.RuneStart(message[end]) {
			end--
		}
		message = message[:end]
	}
	for i := range len(message) {
		c := message[i]
		if c < ' ' || c == 0x7f {
			c = ' '
		}
		dst = append(dst, c)
	}
	if cut {
		dst = append(dst, "…"...)
	}
	return append(dst, '\r', '\n')
}

// maxPrefixLen is more than the longest prefix has.
const maxPrefixLen = 32

func isPrefix(s string) bool {
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return s != "" && len(s) <= maxPrefixLen
}

// appendFailure appends err with its kind as the prefix.
func appendFailure(dst []byte, err error) []byte {
	e := script.AsError(err)
	return appendError(dst, string(e.Kind), e.Error())
}
