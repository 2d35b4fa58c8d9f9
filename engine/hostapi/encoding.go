package hostapi

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Hex writes bytes as hexadecimal digits. Its result and those of the other functions of encodings are the caller's.
func (c *Call) Hex(s string) ([]byte, *script.Error) {
	buf, err := c.room(hex.EncodedLen(len(s)))
	if err != nil {
		return nil, err
	}
	_, err = c.pieces(len(s), func(from, to int) bool {
		hex.Encode(buf[2*from:], bytesOf(s[from:to]))
		return true
	})
	return buf, err
}

// Unhex is the inverse of Hex. Unhex and Unbase64 report problems as ParseTime does.
func (c *Call) Unhex(s string) (raw []byte, problem string, err *script.Error) {
	buf, err := c.room(hex.DecodedLen(len(s)))
	if err != nil {
		return nil, "", err
	}
	whole, err := c.pieces(len(s), func(from, to int) bool {
		_, err := hex.Decode(buf[from/2:], bytesOf(s[from:to]))
		return err == nil
	})
	return decoded(buf, "not valid hexadecimal", whole, err)
}

func decoded(buf []byte, otherwise string, whole bool, err *script.Error) ([]byte, string, *script.Error) {
	if err == nil && !whole {
		return nil, otherwise, nil
	}
	return buf, "", err
}

// Base64 writes bytes as base64, or, for URLs, as base64url without padding.
func (c *Call) Base64(s string, forURL bool) ([]byte, *script.Error) {
	encoding := base64.StdEncoding
	if forURL {
		encoding = base64.RawURLEncoding
	}
	buf, err := c.room(encoding.EncodedLen(len(s)))
	if err != nil {
		return nil, err
	}
	_, err = c.pieces(len(s), func(from, to int) bool {
		encoding.Encode(buf[encoding.EncodedLen(from):], bytesOf(s[from:to]))
		return true
	})
	return buf, err
}

var strictStd, strictURL = base64.RawStdEncoding.Strict(), base64.RawURLEncoding.Strict()

// Unbase64 decodes text with or without padding, and nothing else besides.
func (c *Call) Unbase64(s string, forURL bool) (raw []byte, problem string, err *script.Error) {
	const invalid = "not valid base64"
	encoding := strictStd
	if forURL {
		encoding = strictURL
	}
	bare := strings.TrimSuffix(strings.TrimSuffix(s, "="), "=")
	if len(bare) < len(s) && len(s)%4 != 0 {
		return nil, invalid, nil
	}
	buf, err := c.room(encoding.DecodedLen(len(bare)))
	if err != nil {
		return nil, "", err
	}
	whole, err := c.pieces(len(bare), func(from, to int) bool {
		if strings.ContainsAny(bare[from:to], "\r\n") { // which Go skips
			return false
		}
		_, err := encoding.Decode(buf[encoding.DecodedLen(from):], bytesOf(bare[from:to]))
		return err == nil
	})
	return decoded(buf, invalid, whole, err)
}
