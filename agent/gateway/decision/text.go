package decision

import (
	"unicode/utf8"
)

// text is what a client sent.
type text interface{ ~string | ~[]byte }

const lowerHex = "0123456789abcdef"

// appendText appends a JSON string, and takes no more than sizeOfText for it. What is not UTF-8
// becomes U+FFFD.
func appendText[T text](dst []byte, s T) []byte {
	dst = append(dst, '"')
	written := 0 // so much of s
	for i := 0; i < len(s); {
		c := s[i]
		if sizes[c] == 1 {
			i++
			continue
		}
		n, bytes := sizeOfNext(s, i)
		if n == bytes {
			i += bytes
			continue
		}
		dst = append(append(dst, s[written:i]...), '\\')
		switch {
		case c >= utf8.RuneSelf:
			dst = append(dst, "ufffd"...)
		case n == 2:
			dst = append(dst, shortEscape(c))
		default:
			dst = append(dst, 'u', '0', '0', lowerHex[c>>4], lowerHex[c&0xf])
		}
		i += bytes
		written = i
	}
	return append(append(dst, s[written:]...), '"')
}

// sizeOfText returns how many bytes appendText appends.
func sizeOfText[T text](s T) int {
	n := 2
	for i := 0; i < len(s); {
		if size := sizes[s[i]]; size > 0 {
			n += int(size)
			i++
			continue
		}
		size, bytes := sizeOfNext(s, i)
		n += size
		i += bytes
	}
	return n
}

const escapeBytes = len(`\u0000`)

// sizes are how many bytes each byte of ASCII takes in a JSON string; 0 for those of longer characters.
var sizes = func() (sizes [256]uint8) {
	for c := range utf8.RuneSelf {
		switch {
		case shortEscape(byte(c)) != 0:
			sizes[c] = 2
		case c < ' ':
			sizes[c] = uint8(escapeBytes)
		default:
			sizes[c] = 1
		}
	}
	return sizes
}()

// sizeOfNext returns how many bytes the character of s at i takes in a JSON string, and how many
// it has.
func sizeOfNext[T text](s T, i int) (size, bytes int) {
	if n := sizes[s[i]]; n > 0 {
		return int(n), 1
	}
	if r, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)])); r != utf8.RuneError || n > 1 {
		return n, n
	}
	return escapeBytes, 1
}

// shortEscape returns what follows the backslash for c; 0 if there is no such short form.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}
