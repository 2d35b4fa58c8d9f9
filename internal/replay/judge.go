package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// Reason is why a record cannot be compared.
type Reason string

// The reasons; besides these there is one for each outcome that is not the script's.
const (
	MaskedInput     Reason = "masked input"
	TruncatedInput  Reason = "truncated input"
	PartialInput    Reason = "chosen fields of the input only"
	NoInput         Reason = "no input"
	MaskedResult    Reason = "masked result"
	TruncatedResult Reason = "truncated result"
	PartialResult   Reason = "chosen fields of the result only"
	NoResult        Reason = "no result"
)

// known are the outcomes that there are.
var known = map[string]bool{
	decision.OutcomeOK: true, string(script.Script): true, string(script.Timeout): true, string(script.Limit): true,
	string(script.Unavailable): true, string(script.Invalid): true, string(script.NotFound): true, string(script.Conflict): true,
	string(script.Denied): true, string(script.Disabled): true, string(script.Overloaded): true, string(script.Internal): true,
}

// verdict is what has come of a line.
type verdict struct {
	bad       string // why it is no record
	other     bool   // it is of another script
	why       Reason // it cannot be compared
	partly    bool
	masked    bool
	different *Different
}

// runner judges lines, one at a time.
type runner struct {
	cfg    *Config
	result engine.Result
}

func newRunner(cfg *Config) *runner { return &runner{cfg: cfg} }

// judge replays the record of a line.
func (r *runner) judge(ctx context.Context, j *job) verdict {
	if j.bad != "" {
		return verdict{bad: j.bad}
	}
	var record decision.Record
	if err := json.Unmarshal(j.data, &record); err != nil {
		return verdict{bad: "is no decision record: " + err.Error()}
	}
	if record.ID == "" || record.Outcome == "" || record.Timestamp.IsZero() {
		return verdict{bad: "is no decision record: want decision_id, timestamp and outcome"}
	}
	if !known[record.Outcome] {
		return verdict{bad: fmt.Sprintf("is no decision record: %.80q is no outcome", record.Outcome)}
	}
	if record.Tenant != r.cfg.Script.Tenant || record.Script != r.cfg.Script.Script {
		return verdict{other: true}
	}
	maskedInput, maskedResult := masks(&record)
	if why := r.obstacle(&record, maskedInput); why != "" {
		return verdict{why: why}
	}
	args, err := argumentsOf(&record)
	if err != nil {
		return verdict{bad: err.Error()}
	}
	v := verdict{masked: maskedInput, partly: maskedResult && r.cfg.From == nil}
	read := map[offline.State]bool{}
	to := r.run(ctx, r.cfg.To, &record, args, read)
	var from ending
	if r.cfg.From != nil {
		from = r.run(ctx, r.cfg.From, &record, args, read)
	} else if from, err = endingOf(&record); err != nil {
		return verdict{bad: err.Error()}
	} else {
		to.mask(&record)
	}
	parts, more := from.differences(&to)
	if len(parts) == 0 {
		return v
	}
	v.different = &Different{
		File: j.file, Line: j.line, ID: record.ID, Time: record.Timestamp, Version: record.Version,
		From: from.Decision, To: to.Decision, Parts: parts, More: more, Read: slices.Sorted(maps.Keys(read)),
	}
	return v
}

// obstacle returns why the record cannot be compared; "" if it can.
func (r *runner) obstacle(record *decision.Record, masked bool) Reason {
	switch {
	case slices.Contains(record.Truncated, "input"):
		return TruncatedInput
	case hidden(record, "/input"):
		return MaskedInput
	case slices.Contains(record.Partial, "input"):
		return PartialInput
	case record.Input == nil && !none(record.Arguments):
		return NoInput
	case masked && !r.cfg.Masked:
		return MaskedInput
	case r.cfg.From != nil: // what the record says came of it does not matter
		return ""
	}
	switch script.Kind(record.Outcome) {
	case decision.OutcomeOK:
	case script.Script, script.Limit, script.Invalid:
		return ""
	default: // the node made it, or its load
		return Reason("outcome " + record.Outcome)
	}
	switch {
	case slices.Contains(record.Truncated, "result"):
		return TruncatedResult
	case hidden(record, "/result"), slices.Contains(record.Truncated, maskedPointers):
		return MaskedResult
	case slices.Contains(record.Partial, "result"):
		return PartialResult
	case record.Result == nil && !none(record.Results):
		return NoResult
	}
	return ""
}

// none reports whether the record says that there are none.
func none(count *int) bool { return count != nil && *count == 0 }

// maskedPointers in what is truncated says that Masked does not have all.
const maskedPointers = "masked"

// masks reports whether the record lacks parts of its input, and of its result.
func masks(record *decision.Record) (input, result bool) {
	input = slices.Contains(record.Truncated, maskedPointers)
	for _, pointer := range slices.Concat(record.Masked, record.Erased) {
		input = input || under(pointer, "/input")
		result = result || under(pointer, "/result")
	}
	return input, result
}

// hidden reports whether the record has nothing of what the pointer leads to, or has names masked in it,
// so that nobody knows where the masked values are.
func hidden(record *decision.Record, pointer string) bool {
	return slices.Contains(record.Erased, pointer) || slices.ContainsFunc(record.Masked, func(masked string) bool {
		return masked == pointer || under(masked, pointer) && strings.Contains(masked, "/"+decision.Mask)
	})
}

func under(pointer, root string) bool { return pointer == root || strings.HasPrefix(pointer, root+"/") }

// argumentsOf returns the arguments of the call.
func argumentsOf(record *decision.Record) ([][]byte, error) {
	list, err := listOf(record.Input, record.Arguments, "input", "arguments")
	args := make([][]byte, len(list))
	for i, arg := range list {
		args[i] = arg
	}
	return args, err
}

// listOf returns the values that a member of a record stands for: see decision.Record.
func listOf(raw json.RawMessage, count *int, member, counter string) ([]json.RawMessage, error) {
	if count == nil {
		return []json.RawMessage{raw}, nil
	}
	if none(count) && raw == nil {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != *count {
		return nil, fmt.Errorf("is no decision record: %s is no array of %d, as %s says", member, *count, counter)
	}
	return list, nil
}

// ending is what a call has ended with.
type ending struct {
	Decision
	results []any // as jsonvalue.Decode returns them
}

// endingOf returns what the record says.
func endingOf(record *decision.Record) (ending, error) {
	e := ending{Decision: Decision{Outcome: record.Outcome}}
	if record.Error != nil {
		e.Error = record.Error.Message
	}
	if record.Outcome != decision.OutcomeOK {
		return e, nil
	}
	list, err := listOf(record.Result, record.Results, "result", "results")
	if err != nil {
		return e, err
	}
	for _, raw := range list {
		v, err := jsonvalue.Decode(raw)
		if err != nil {
			return e, err
		}
		e.results = append(e.results, v)
	}
	return e, nil
}

// run runs the call of the record with the version.
func (r *runner) run(ctx context.Context, version *Version, record *decision.Record, args [][]byte, read map[offline.State]bool) ending {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(record.ID)) // it never fails
	err := version.program.Run(ctx, &offline.Call{
		Name: r.cfg.Script, OnResponse: record.OnResponse, Args: args, Values: r.cfg.Values, Now: record.Timestamp, Seed: seed.Sum64(), Read: read,
	}, &r.result)
	if err != nil {
		return ending{Decision: Decision{Outcome: string(script.KindOf(err)), Error: script.AsError(err).Error()}}
	}
	e := ending{Decision: Decision{Outcome: decision.OutcomeOK}}
	for i := range r.result.Len() {
		v, err := jsonvalue.Decode(r.result.Value(i))
		if err != nil { // the engine writes JSON
			return ending{Decision: Decision{Outcome: string(script.Internal), Error: err.Error()}}
		}
		e.results = append(e.results, v)
	}
	return e
}

// mask hides in the results what the record does not show of its own.
func (e *ending) mask(record *decision.Record) {
	if record.Results != nil && *record.Results != len(e.results) || record.Results == nil && len(e.results) != 1 {
		return // they differ in any case
	}
	whole := any(e.results)
	if record.Results == nil {
		whole = e.results[0]
	}
	for _, pointer := range record.Masked {
		if under(pointer, "/result") {
			whole, _ = jsonvalue.Set(whole, strings.TrimPrefix(pointer, "/result"), decision.Mask)
		}
	}
	for _, pointer := range record.Erased {
		if under(pointer, "/result") {
			whole = jsonvalue.Delete(whole, strings.TrimPrefix(pointer, "/result"))
		}
	}
	if record.Results == nil {
		e.results[0] = whole
	} else if list, ok := whole.([]any); ok {
		e.results = list
	}
}

// maxParts is how many differences of one decision are shown.
const maxParts = 20

// differences compares what was decided. Errors of one kind are the same: what a gateway gets does
// not depend on their messages.
func (e *ending) differences(to *ending) ([]jsonvalue.Difference, bool) {
	return jsonvalue.Differences(e.tree(len(to.results)), to.tree(len(e.results)), maxParts)
}

// tree returns the decision as one value; other is how many results the other one has.
func (e *ending) tree(other int) any {
	tree := map[string]any{"outcome": e.Outcome}
	switch {
	case e.Outcome != decision.OutcomeOK:
	case len(e.results) > 1 || other > 1:
		tree["result"] = e.results
	case len(e.results) == 1:
		tree["result"] = e.results[0]
	}
	return tree
}
