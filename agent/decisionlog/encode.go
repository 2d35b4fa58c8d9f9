package decisionlog

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/mask"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The JSON pointers to the parts of a record that can be erased.
const (
	inputPointer   = "/input"
	resultPointer  = "/result"
	messagePointer = "/error/message"
)

// listPointers has the JSON pointers to the first items of lists, by the pointer to the list.
type listPointers map[string][]string

var pointers = func() listPointers {
	const few = 16
	all := listPointers{}
	for _, of := range []string{inputPointer, resultPointer} {
		for i := range few {
			all[of] = append(all[of], of+"/"+strconv.Itoa(i))
		}
	}
	return all
}()

// of returns the JSON pointer to an item of a part with that many items.
func (p listPointers) of(part string, many, item int) string {
	if many == 1 {
		return part
	}
	if few := p[part]; item < len(few) {
		return few[item]
	}
	return part + "/" + strconv.Itoa(item)
}

// appendList appends the value of a single item, or a list of several items.
func appendList(dst []byte, many int, item func(dst []byte, i int) []byte) []byte {
	if many == 1 {
		return item(dst, 0)
	}
	dst = append(dst, '[')
	for i := range many {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = item(dst, i)
	}
	return append(dst, ']')
}

// appendItem appends a text to a list of JSON strings. The text must need no escapes.
func appendItem(list []byte, text string) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	return append(append(append(list, '"'), text...), '"')
}

// Append appends the entry as a decision.Record in JSON, with a new id. Labels are JSON.
func (e *Entry) Append(dst []byte, labels string) []byte {
	dst = appendUUID(append(dst, `{"decision_id":"`...))
	dst = e.Start.UTC().AppendFormat(append(dst, `","timestamp":"`...), time.RFC3339Nano)
	dst = append(append(dst, `","labels":`...), labels...)
	if e.Script != "" {
		dst = append(append(append(append(dst, `,"path":"`...), e.Tenant...), '/'), e.Script...)
		dst = append(dst, '"')
	}
	dst = appendWord(dst, `,"tenant":"`, e.Tenant)
	dst = appendWord(dst, `,"script":"`, e.Script)
	if e.Version != 0 {
		dst = strconv.AppendUint(append(dst, `,"version":`...), e.Version, 10)
	}
	if !e.Digest.IsZero() {
		dst = append(hex.AppendEncode(append(dst, `,"digest":"sha256:`...), e.Digest[:]), '"')
	}
	if e.Revision != 0 {
		dst = append(strconv.AppendInt(append(dst, `,"revision":"`...), int64(e.Revision), 10), '"')
	}
	dst = e.appendCircumstances(dst)
	if e.OnResponse {
		dst = append(dst, `,"on_response":true`...)
	}
	dst = e.appendOutcome(dst)
	if e.fields&fieldInput != 0 {
		dst = appendPart(dst, `,"input":`, e.Input, `,"arguments":`, e.Arguments)
	}
	if e.fields&fieldResult != 0 && e.Failed.Kind == "" {
		dst = appendPart(dst, `,"result":`, e.Result, `,"results":`, e.Results)
	}
	for _, list := range []struct {
		name  string
		items []byte
	}{{`,"masked":[`, e.Masked}, {`,"erased":[`, e.Erased}, {`,"partial":[`, e.partial()}, {`,"truncated":[`, e.Truncated}} {
		if len(list.items) > 0 {
			dst = append(append(append(dst, list.name...), list.items...), ']')
		}
	}
	return append(dst, '}')
}

// The values of "partial": the members of which a record has only selected parts.
var (
	partialInput  = []byte(`"` + script.RecordInput + `"`)
	partialResult = []byte(`"` + script.RecordResult + `"`)
	partialBoth   = []byte(`"` + script.RecordInput + `","` + script.RecordResult + `"`)
)

// partial returns the value of "partial"; nil if there is none.
func (e *Entry) partial() []byte {
	input, result := e.fields&partOfInput != 0 && len(e.Input) > 0, e.fields&partOfResult != 0 && len(e.Result) > 0
	switch {
	case input && result:
		return partialBoth
	case input:
		return partialInput
	case result:
		return partialResult
	}
	return nil
}

// appendCircumstances appends the optional fields except input, result and error.
func (e *Entry) appendCircumstances(dst []byte) []byte {
	if e.fields&fieldStaleness != 0 {
		ms := e.Staleness.Milliseconds()
		if e.Staleness < 0 {
			ms = -1
		}
		dst = strconv.AppendInt(append(dst, `,"staleness_ms":`...), ms, 10)
	}
	if e.fields&fieldTrace != 0 {
		dst = appendWord(dst, `,"trace_id":"`, e.TraceID)
	}
	if e.fields&fieldSpan != 0 {
		dst = appendWord(dst, `,"span_id":"`, e.SpanID)
	}
	if e.fields&fieldProtocol != 0 && e.Protocol != "" {
		dst = mask.AppendText(append(dst, `,"protocol":`...), e.Protocol)
	}
	if e.fields&fieldCaller != 0 && e.Caller != "" {
		dst = mask.AppendText(append(dst, `,"requested_by":`...), cut(e.Caller, maxCaller))
	}
	if e.fields&fieldDuration != 0 {
		dst = strconv.AppendInt(append(dst, `,"duration_ns":`...), int64(e.Took), 10)
	}
	if e.fields&fieldInstructions != 0 && e.Instructions != 0 {
		dst = strconv.AppendUint(append(dst, `,"instructions":`...), e.Instructions, 10)
	}
	return dst
}

func (e *Entry) appendOutcome(dst []byte) []byte {
	if e.Failed.Kind == "" {
		return append(dst, `,"outcome":"`+decision.OutcomeOK+`"`...)
	}
	dst = appendWord(dst, `,"outcome":"`, string(e.Failed.Kind))
	if e.fields&fieldError == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"error":{"kind":"`...), e.Failed.Kind...), '"')
	if e.Failed.Field != "" {
		dst = mask.AppendText(append(dst, `,"field":`...), cut(e.Failed.Field, maxMessage))
	}
	if e.Failed.Message != "" {
		dst = mask.AppendText(append(dst, `,"message":`...), e.Failed.Message)
	}
	if e.Failed.Line > 0 {
		dst = strconv.AppendInt(append(dst, `,"line":`...), int64(e.Failed.Line), 10)
	}
	if e.Failed.Column > 0 {
		dst = strconv.AppendInt(append(dst, `,"column":`...), int64(e.Failed.Column), 10)
	}
	return append(dst, '}')
}

// appendPart appends arguments or results, and their number unless it is 1.
func appendPart(dst []byte, begin string, value []byte, counted string, many int) []byte {
	if len(value) > 0 {
		dst = append(append(dst, begin...), value...)
	}
	if many != 1 {
		dst = strconv.AppendInt(append(dst, counted...), int64(many), 10)
	}
	return dst
}

// appendWord appends a member unless its text is empty. The text must need no escapes.
func appendWord(dst []byte, begin, word string) []byte {
	if word == "" {
		return dst
	}
	return append(append(append(dst, begin...), word...), '"')
}

// appendUUID appends a random UUID. The generator is ChaCha8, which is not predictable.
func appendUUID(dst []byte) []byte {
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, id[[...]int{0, 4, 6, 8, 10}[i]:end])
	}
	return dst
}
