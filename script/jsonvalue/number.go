package jsonvalue

import (
	"encoding/json"
	"strconv"
	"strings"
)

// SameNumber reports whether both numbers have the same value, however they are written.
func SameNumber(a, b json.Number) bool { return valueOf(a) == valueOf(b) }

// value of a number, exactly: ±0.DIGITS times ten to the power of exponent. The digits
// begin and end with none that is 0; zero has no digits.
type value struct {
	negative bool
	digits   string
	exponent int64
	odd      string // what is written with an exponent that is beyond all bounds, as it is
}

func valueOf(n json.Number) value {
	text := string(n)
	mantissa, power := text, int64(0)
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		var err error
		mantissa = text[:at]
		if power, err = strconv.ParseInt(text[at+1:], 10, 32); err != nil {
			return value{odd: text}
		}
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent := power + int64(len(whole)) - int64(len(whole)+len(fraction)-len(digits))
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return value{} // also -0
	}
	return value{negative: negative, digits: digits, exponent: exponent}
}
