package scripttest

import (
	"bytes"
	"encoding/json"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// golden makes the first result what the case expects. It returns the new content of the golden file; nil if it stays.
func (p *pending) golden(returned *engine.Result) []byte {
	result := []byte("null")
	if returned.Len() > 0 {
		result = returned.Value(0)
	}
	if before, err := jsonvalue.Decode(p.test.Exactly); err == nil && p.test.Exactly != nil {
		now, err := jsonvalue.Decode(result)
		if differences, _ := jsonvalue.Differences(before, now, 1); err == nil && len(differences) == 0 {
			return nil
		}
	}
	var text bytes.Buffer
	if json.Indent(&text, result, "", "  ") != nil { // impossible: results are JSON
		return nil
	}
	text.WriteByte('\n')
	p.test.Exactly = bytes.Clone(result)
	return text.Bytes()
}
