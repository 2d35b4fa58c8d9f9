package expect

import (
	"encoding/json"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// difference is where a result is not what is expected.
type difference struct {
	path      string // of the first part that differs: "items[2].price"; "" is the whole
	want, got any    // as jsonvalue.Decode returns them
}

// match compares a result with what is expected of it: members of an object that are
// named must be there and be so, null standing for one that is not there; all else must be
// equal, numbers by their value. It returns nil if the result is as expected. Both are
// JSON values.
func match(want, got []byte) (*difference, error) {
	w, err := jsonvalue.Decode(want)
	if err != nil {
		return nil, fmt.Errorf("what is expected is no JSON: %w", err)
	}
	g, err := jsonvalue.Decode(got)
	if err != nil {
		return nil, fmt.Errorf("the result is no JSON: %w", err)
	}
	return compare("", w, g), nil
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
		same = ok && jsonvalue.SameNumber(w, g)
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
