package execute

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/mask"
	"github.com/scriptorium-dev/scriptorium/agent/shadow"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// Bounds of one call whose results differ.
const (
	maxShadowPaths = 8
	maxSampleBytes = 4 << 10 // of each text
)

// compared compares two endings. Errors of one kind are equal: what a gateway gets does not depend on
// their messages.
func compared(active, candidate *ending) (o shadow.Outcome, paths []string) {
	switch {
	case active.err != nil && candidate.err != nil:
		if kindOf(active.err) == kindOf(candidate.err) {
			return shadow.Equal, nil
		}
		return shadow.Different, []string{""}
	case candidate.err != nil:
		return shadow.Failed, []string{""}
	case active.err != nil:
		return shadow.Different, []string{""}
	case slices.EqualFunc(active.values, candidate.values, bytes.Equal):
		return shadow.Equal, nil
	}
	was, errA := jsonvalue.Decode(list(active.values))
	is, errC := jsonvalue.Decode(list(candidate.values))
	if errA != nil || errC != nil {
		return shadow.Different, []string{""}
	}
	parts, _ := jsonvalue.Differences(was, is, maxShadowPaths)
	for _, part := range parts {
		paths = append(paths, pathOf(part.Pointer, len(active.values) == 1 && len(candidate.values) == 1))
	}
	if len(paths) == 0 {
		return shadow.Equal, nil
	}
	return shadow.Different, paths
}

// pathOf is the pointer into the list of the results; into the only one, if there is one.
func pathOf(pointer string, only bool) string {
	if only {
		return strings.TrimPrefix(pointer, "/0")
	}
	return pointer
}

// list returns the JSON list of the values.
func list(values [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

// alwaysMasked are credentials, which no sample shows.
var alwaysMasked = []string{"headers.authorization", "headers.proxy-authorization", "headers.cookie", "headers.x-api-key", "cookies"}

// sample returns what is kept of a call whose results differ, masked as the decision logs of both
// versions and of the tenant are.
func (s *shadows) sample(job *shadowed, active, candidate *ending, paths []string) script.ShadowSample {
	r := job.release
	lists := [][]string{alwaysMasked}
	settings := s.executor.tenants(r.Name.Tenant)
	for _, d := range []*script.Decisions{r.Decisions, r.Split.Decisions, settings.Decisions} {
		if d != nil {
			lists = append(lists, d.Mask)
		}
	}
	masks := slices.Concat(lists...)
	slices.Sort(masks)
	masks = slices.Compact(masks)
	var m mask.Masker
	m.Reset(mask.NewPaths(masks))
	texts := [...][]byte{masked(&m, job.args), active.text(&m), candidate.text(&m)}
	all := len(masks) > mask.MaxPaths // the masker ignores some of them
	for i := range texts {
		if all {
			texts[i] = []byte(`"` + decision.Mask + `"`)
		}
		texts[i] = m.Scrub(texts[i], 0, "") // a copy may stand before the masked value
	}
	hide := func(lines []string, most int) []string {
		shown := make([]string, len(lines))
		for i, line := range lines {
			if shown[i] = script.CutText(line, most); all && line != "" || m.Leaks(line) || m.Leaks(pointerNames.Replace(line)) {
				shown[i] = decision.Mask
			}
		}
		return shown
	}
	return script.ShadowSample{
		Time: job.start.Round(time.Millisecond), Active: r.Runs.Number, Candidate: r.Split.Runs.Number,
		Input: cut(texts[0]), Live: cut(texts[1]), Shadow: cut(texts[2]), Paths: hide(paths, script.MaxShadowPathBytes), Logs: hide(candidate.logs, maxShadowLogLine),
	}
}

// pointerNames undoes the escapes of JSON pointers.
var pointerNames = strings.NewReplacer("~1", "/", "~0", "~")

// masked returns the JSON list of the values, masked.
func masked(m *mask.Masker, values [][]byte) []byte {
	text := []byte{'['}
	for i, value := range values {
		if i > 0 {
			text = append(text, ',')
		}
		to, _, err := m.Append(text, value, "", nil)
		if text = to; err != nil {
			text = append(text, `"`+decision.Mask+`"`...)
		}
	}
	return append(text, ']')
}

// text is the list of the results, or an object with the error.
func (e *ending) text(m *mask.Masker) []byte {
	if e.err == nil {
		return masked(m, e.values)
	}
	text := mask.AppendText([]byte(`{"error":`), string(kindOf(e.err)))
	failed := script.AsError(e.err)
	text = mask.AppendText(append(text, `,"message":`...), failed.Message)
	if failed.Line > 0 {
		text = strconv.AppendInt(append(text, `,"line":`...), int64(failed.Line), 10)
	}
	return append(text, '}')
}

// cut returns the text with a mark at its end if it is too long.
func cut(text []byte) string {
	if len(text) <= maxSampleBytes {
		return string(text)
	}
	return script.CutText(string(text), maxSampleBytes) + " …"
}
