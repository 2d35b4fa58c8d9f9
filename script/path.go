package script

import (
	"path"
	"strings"
)

// CleanPath returns the path of a request in the form that scripts and triggers compare with:
// RFC 3986, section 6.2.2, and without empty segments. Servers serve "/%61dmin", "/x/../admin" and
// "//admin" as "/admin". Escapes of other characters stay.
func CleanPath(raw string) string {
	text := unescapeUnreserved(raw)
	if !strings.HasPrefix(text, "/") {
		return text // "*", or what the gateway makes of it
	}
	clean := path.Clean(text)
	if clean != "/" && (strings.HasSuffix(text, "/") || strings.HasSuffix(text, "/.") || strings.HasSuffix(text, "/..")) {
		clean += "/"
	}
	return clean
}

const upperHex = "0123456789ABCDEF"

// unescapeUnreserved decodes the escapes of letters, digits and - . _ ~, and writes the others in upper case.
func unescapeUnreserved(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+2 >= len(s) {
			b = append(b, s[i])
			continue
		}
		high, low := unhex(s[i+1]), unhex(s[i+2])
		if high < 0 || low < 0 {
			b = append(b, s[i])
			continue
		}
		if c := byte(high<<4 | low); isUnreserved(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[high], upperHex[low])
		}
		i += 2
	}
	return string(b)
}

func unhex(c byte) int {
	if c >= 'a' && c <= 'f' {
		c -= 'a' - 'A'
	}
	return strings.IndexByte(upperHex, c)
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
