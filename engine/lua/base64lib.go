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
		s := argString(l, 1)
		meterOf(l).checkString(l, encoding.EncodedLen(len(s)))
		l.Push(glua.LString(encoding.EncodeToString([]byte(s))))
		return 1
	}
}

// base64Decode decodes text with or without padding, and nothing else besides.
func base64Decode(encoding *base64.Encoding) glua.LGFunction {
	const message = "not valid base64"
	return func(l *glua.LState) int {
		s := argString(l, 1)
		meterOf(l).chargeBytes(l, len(s))
		meterOf(l).make(l, stringBytes+2*len(s))
		bare := strings.TrimRight(s, "=")
		if padding := len(s) - len(bare); padding > 0 && (padding > 2 || len(s)%4 != 0) {
			return pushFailure(l, message)
		}
		if strings.ContainsAny(bare, "\r\n") { // which Go skips
			return pushFailure(l, message)
		}
		decoded, err := encoding.DecodeString(bare)
		if err != nil {
			return pushFailure(l, message)
		}
		l.Push(glua.LString(decoded))
		return 1
	}
}
