package tryout

import (
	"encoding/json"

	"github.com/scriptorium-dev/scriptorium/agent/execute"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/expect"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

type scriptError = scriptv1.Error

// Bounds of the differences of a test.
const (
	maxDifferences    = 20
	maxDifferenceText = 200 // bytes of a path, and of each value
)

// judge compares what came of the call with what the test expects, as agents do for candidates.
func judge(t *script.Test, call *execute.UnpublishedCall) *eventv1.TryTest {
	m := &eventv1.TryTest{Name: t.Name, Passed: true}
	why := expect.Check(*t, &call.Result, call.Err)
	if why == nil {
		return m
	}
	m.Passed, m.Why = false, errorOf(why)
	if call.Err != nil || t.Expect == nil || t.Error != "" {
		return m
	}
	want, err := jsonvalue.Decode(t.Expect)
	if err != nil {
		return m // which says so
	}
	got, err := jsonvalue.Decode(first(call))
	if err != nil {
		return m
	}
	parts, more := expect.Differences(want, got, maxDifferences)
	for _, d := range parts {
		m.Differences = append(m.Differences, &eventv1.TryDifference{
			Path: script.CutText(d.Pointer, maxDifferenceText), Want: shown(d.From), Got: shown(d.To),
		})
	}
	m.MoreDifferences = more
	return m
}

// shown returns the value as JSON: as a text with its beginning if it is long.
func shown(value json.RawMessage) string {
	if len(value) <= maxDifferenceText {
		return string(value)
	}
	text, err := json.Marshal(script.CutText(string(value), maxDifferenceText) + "…")
	if err != nil {
		return "" // it is text
	}
	return string(text)
}

// first returns the first result; a call without any has null.
func first(call *execute.UnpublishedCall) []byte {
	if call.Result.Len() == 0 {
		return []byte("null")
	}
	return call.Result.Value(0)
}
