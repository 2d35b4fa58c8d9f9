// Package decision declares the record of one call in the decision log, as every sink has it. It is a
// superset of an event of OPA's decision log, so that collectors of those take it.
package decision

import (
	"encoding/json"
	"time"
)

// Record is one line of a decision log. Agents write it without this type; it is for those who read.
type Record struct {
	ID        string    `json:"decision_id"` // a UUID
	Timestamp time.Time `json:"timestamp"`   // when the call began
	// Labels has LabelAgent, and what the agent's flags add.
	Labels map[string]string `json:"labels"`
	// Path is TENANT/SCRIPT, as OPA's collectors index it; "" if the call named no script.
	Path    string `json:"path,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	Script  string `json:"script,omitempty"`
	Version uint64 `json:"version,omitempty"` // that ran; 0 if none was found
	Digest  string `json:"digest,omitempty"`  // of its source
	// Revision is a number as text, since OPA's is text.
	Revision string `json:"revision,omitempty"`
	// StalenessMS is how long the agent had not known that it was current, in milliseconds; -1 if it
	// never did since its start.
	StalenessMS int64  `json:"staleness_ms"`
	TraceID     string `json:"trace_id,omitempty"`
	SpanID      string `json:"span_id,omitempty"`
	Protocol    string `json:"protocol,omitempty"`
	// RequestedBy is the caller, such as "uid 1000".
	RequestedBy  string `json:"requested_by,omitempty"`
	DurationNS   int64  `json:"duration_ns"`
	Instructions uint64 `json:"instructions,omitempty"`
	// OnResponse: the call was of on_response and not of the entrypoint.
	OnResponse bool `json:"on_response,omitempty"`
	// Outcome is OutcomeOK, or the kind of the error.
	Outcome string `json:"outcome"`
	Error   *Error `json:"error,omitempty"`
	// Input is the argument if Arguments is nil, and an array of that many arguments if not.
	Input     json.RawMessage `json:"input,omitempty"`
	Arguments *int            `json:"arguments,omitempty"`
	// Result is the result if Results is nil, and an array of that many results if not.
	Result  json.RawMessage `json:"result,omitempty"`
	Results *int            `json:"results,omitempty"`
	// Masked are JSON pointers to the values that are Mask in the record, Erased to those that it lacks.
	Masked []string `json:"masked,omitempty"`
	Erased []string `json:"erased,omitempty"`
	// Partial names the members of which the record has chosen fields only: "input", "result".
	Partial []string `json:"partial,omitempty"`
	// Truncated names the members that were too large for the record, which lacks them: "input", "result";
	// or lacks some of: "masked".
	Truncated []string `json:"truncated,omitempty"`
}

// Error is what a call ended with.
type Error struct {
	Kind    string `json:"kind"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

const (
	// LabelAgent is the label with the agent's name.
	LabelAgent = "agent"
	// OutcomeOK is the outcome of a call without an error.
	OutcomeOK = "OK"
	// Mask is what stands in place of a masked value.
	Mask = "***"
)
