package script

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// Test is a call that a new version must answer rightly before it goes live.
type Test struct {
	Name string // unique among the script's
	// Request is the argument of the call, a JSON value; nil means {}.
	Request json.RawMessage
	// Expect, if not nil, is what the first result must be, a JSON value: an object's
	// members that are named must be there and be so, null stands for one that is not
	// there, all else must be equal.
	Expect json.RawMessage
	// Error is the kind of error that the call must end with; "" means none.
	Error Kind
}

// Bounds of a script's tests.
const (
	MaxTests         = 32
	MaxTestNameBytes = 128
	MaxTestsBytes    = 64 << 10 // of all requests and expectations together
)

// ValidateTests returns an Invalid error that names the first field that is wrong;
// field is the path of the tests, such as "spec.tests".
func ValidateTests(field string, tests []Test) error {
	if len(tests) > MaxTests {
		return Errorf(Invalid, field, "%d are too many: at most %d are allowed", len(tests), MaxTests)
	}
	names := map[string]bool{}
	size := 0
	for i, t := range tests {
		if err := t.validate(elementOf(field, i)); err != nil {
			return err
		}
		if names[t.Name] {
			return Errorf(Invalid, elementOf(field, i)+".name", "there is another test %s", quote(t.Name))
		}
		names[t.Name] = true
		size += len(t.Request) + len(t.Expect)
	}
	if size > MaxTestsBytes {
		return Errorf(Invalid, field, "have %d bytes of requests and expectations together, at most %d (64 KiB) are allowed", size, MaxTestsBytes)
	}
	return nil
}

func (t Test) validate(field string) error {
	switch {
	case t.Name == "" || len(t.Name) > MaxTestNameBytes || !utf8.ValidString(t.Name):
		return Errorf(Invalid, field+".name", "must be text of 1 to %d bytes", MaxTestNameBytes)
	case t.Request != nil && !json.Valid(t.Request):
		return Errorf(Invalid, field+".request", "is not JSON")
	case t.Expect != nil && !json.Valid(t.Expect):
		return Errorf(Invalid, field+".expect", "is not JSON")
	case t.Expect != nil && t.Error != "":
		return Errorf(Invalid, field+".error", "a call that fails has no result: leave out one of expect and error")
	}
	switch t.Error {
	case "", Script, Limit, Timeout:
		return nil
	}
	return Errorf(Invalid, field+".error", "%s is no kind of error that a script can end with: want %s, %s or %s", quote(string(t.Error)), Script, Limit, Timeout)
}

// SameTests reports whether the tests are the same, as text.
func SameTests(a, b []Test) bool {
	return slices.EqualFunc(a, b, func(a, b Test) bool {
		return a.Name == b.Name && a.Error == b.Error && bytes.Equal(a.Request, b.Request) && bytes.Equal(a.Expect, b.Expect)
	})
}
