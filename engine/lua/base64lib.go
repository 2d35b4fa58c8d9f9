package lua

import (
	"encoding/base64"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

func base64Functions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"decode":     base64Decode(base64.RawStdEncoding.Strict()),
		"decode_url": base64Decode(base64.RawURLEncoding.Strict()),
		"encode":     base64Encode(base64.StdEncoding),
		"encode_url": base64Encode(base64.RawURLEncoding),
	}
}

func base64Encode(encoding *base64.Encoding) glua.LGFunction {
	return func(l *glua.LState) int {
		s, m := argString(l, 1), meterOf(l)
		buf := m.room(l, encoding.EncodedLen(len(s)))
		for at := 0; at < len(s); {
			to := m.piece(l, at, len(s))
			encoding.Encode(buf[encoding.EncodedLen(at):], bytesOf(s[at:to]))
			at = to
		}
		l.Push(stringOf(buf))
		return 1
	}
}

// base64Decode decodes text with or without padding, and nothing else besides.
func base64Decode(encoding *base64.Encoding) glua.LGFunction {
	const message = "not valid base64"
	return func(l *glua.LState) int {
		s, m := argString(l, 1), meterOf(l)
		bare := strings.TrimSuffix(strings.TrimSuffix(s, "="), "=")
		if len(bare) < len(s) && len(s)%4 != 0 {
			return pushFailure(l, message)
		}
		buf := m.room(l, encoding.DecodedLen(len(bare)))
		for at := 0; at < len(bare); {
			to := m.piece(l, at, len(bare))
			if strings.ContainsAny(bare[at:to], "\r\n") { // which Go skips
				return pushFailure(l, message)
			}
			if _, err := encoding.Decode(buf[encoding.DecodedLen(at):], bytesOf(bare[at:to])); err != nil {
				return pushFailure(l, message)
			}
			at = to
		}
		l.Push(stringOf(buf))
		return 1
	}
}
