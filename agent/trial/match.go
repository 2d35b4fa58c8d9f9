package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// difference is where a result is not what is expected.
type difference struct {
	path      string // of the first part that differs: "items[2].price"; "" is the whole
	want, got any    // as decode returns them
}

// match compares a result with what is expected of it: members of an object that are
// named must be there and be so, null standing for one that is not there; all else must be
// equal, numbers by their value. It returns nil if the result is as expected. Both are
// JSON values.
func match(want, got []byte) (*difference, error) {
	w, err := decode(want)
	if err != nil {
		return nil, fmt.Errorf("what is expected is no JSON: %w", err)
	}
	g, err := decode(got)
	if err != nil {
		return nil, fmt.Errorf("the result is no JSON: %w", err)
	}
	return compare("", w, g), nil
}

// decode reads one JSON value, and keeps numbers as they are written.
func decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the value")
	}
	return v, nil
}

func compare(path string, want, got any) *difference {
	same := false
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return compareObjects(path, w, g)
		}
	case []any:
		if g, ok := got.([]any); ok && len(w) == len(g) {
			return compareArrays(path, w, g)
		}
	case json.Number:
		g, ok := got.(json.Number)
		same = ok && valueOf(w) == valueOf(g)
	default: // null, a boolean or text
		same = want == got
	}
	if same {
		return nil
	}
	return &difference{path: path, want: want, got: got}
}

func compareObjects(path string, want, got map[string]any) (first *difference) {
	for name, w := range want {
		at := name
		if path != "" {
			at = path + "." + name
		}
		// The first by its name, so that each run names the same difference.
		if d := compare(at, w, got[name]); d != nil && (first == nil || d.path < first.path) {
			first = d
		}
	}
	return first
}

func compareArrays(path string, want, got []any) *difference {
	for i := range want {
		if d := compare(fmt.Sprintf("%s[%d]", path, i), want[i], got[i]); d != nil {
			return d
		}
	}
	return nil
}

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
