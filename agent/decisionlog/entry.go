package decisionlog

import (
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/mask"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of one record.
const (
	// MaxPart bounds the arguments and the results of a call, in bytes. A record leaves out larger ones.
	MaxPart = 64 << 10
	// maxMessage bounds the message of an error, in bytes.
	maxMessage = 1 << 10
	// maxCaller bounds the name of the caller, in bytes.
	maxCaller = 256
)

// Entry is the record of one call, with masked values removed. Its texts and bytes are valid until Release.
type Entry struct {
	Start time.Time
	Took  time.Duration

	Tenant, Script string // Script is "" if the call named none
	Version        uint64
	Digest         script.Digest
	Revision       script.Revision
	Staleness      time.Duration
	TraceID        string
	SpanID         string
	Protocol       string
	Caller         string
	Instructions   uint64
	OnResponse     bool

	// Failed is the error of the call. Its kind is "" if the call did not fail.
	Failed script.Error
	// Input and Result are JSON; nil if the record has none.
	Input, Result []byte
	// Arguments and Results are the numbers of values.
	Arguments, Results int
	// Masked, Erased and Truncated are JSON strings, separated by commas.
	Masked, Erased, Truncated []byte
	// Strict is set if the call must fail when the record is not stored.
	Strict bool

	fields fields
	masker mask.Masker
}

var entries = sync.Pool{New: func() any { return new(Entry) }}

// newEntry returns an empty entry.
func newEntry() *Entry {
	e := entries.Get().(*Entry)
	e.fields = allFields
	return e
}

// keptBytes bounds the buffers of an entry in the pool.
const keptBytes = 16 << 10

// Release returns the entry to the pool.
func (e *Entry) Release() {
	if cap(e.Input)+cap(e.Result)+cap(e.Masked)+e.masker.Held() > keptBytes {
		return
	}
	e.masker.Reset(nil)
	*e = Entry{
		Input: e.Input[:0], Result: e.Result[:0], Masked: e.Masked[:0], Erased: e.Erased[:0], Truncated: e.Truncated[:0], masker: e.masker,
	}
	entries.Put(e)
}

// Chooser selects the calls to record, and makes their entries. It is safe for concurrent use.
type Chooser struct {
	tenants  func(tenant string) script.TenantSettings
	policies policies
}

// NewChooser returns a Chooser that uses these settings of tenants.
func NewChooser(tenants func(tenant string) script.TenantSettings) *Chooser {
	return &Chooser{tenants: tenants}
}

// Entry returns the entry of a call; nil if it is not recorded. The caller must Release it.
func (c *Chooser) Entry(e *execute.Ended) *Entry {
	settings := e.Settings
	if settings != nil && e.Decisions == nil && settings.Decisions == nil && settings.Audit == "" {
		return nil
	}
	return c.entry(e, settings)
}

func (c *Chooser) entry(e *execute.Ended, settings *script.TenantSettings) *Entry {
	tenant, name := nameOf(e)
	if settings == nil { // the call failed before its settings were read
		s := c.tenants(tenant)
		if settings = &s; e.Decisions == nil && s.Decisions == nil && s.Audit == "" {
			return nil
		}
	}
	p := c.policies.get(policyKey{of: e.Decisions, tenant: settings.Decisions, strict: settings.Audit == script.AuditStrict})
	trace, span := tracecontext.IDs(e.Call.Traceparent)
	if !p.records(e.Kind, trace) {
		return nil
	}
	entry := newEntry()
	entry.Tenant, entry.Script, entry.TraceID, entry.SpanID = tenant, name, trace, span
	entry.Strict, entry.fields = p.strict, p.fields
	entry.take(e, p)
	return entry
}

// nameOf returns the names of the tenant and the script, as far as the call has valid ones.
func nameOf(e *execute.Ended) (tenant, name string) {
	if e.Release != nil {
		return e.Release.Name.Tenant, e.Release.Name.Script
	}
	ref, err := script.ParseRef(e.Call.Script)
	if err != nil {
		tenant, _, _ = strings.Cut(e.Call.Script, "/")
		if script.ValidateLabel("tenant", tenant) != nil {
			return "", ""
		}
		return tenant, ""
	}
	return ref.Name.Tenant, ref.Name.Script
}

// take fills the entry from the call.
func (e *Entry) take(of *execute.Ended, p *policy) {
	call, reply := of.Call, of.Reply
	e.Start, e.Took, e.Instructions = of.Start, of.Took, of.Used.Instructions
	e.Version, e.Digest = reply.Version, reply.Digest
	e.Revision, e.Staleness = reply.Position.Revision, reply.Position.Staleness
	e.Protocol, e.Caller, e.OnResponse = call.Origin.Protocol, call.Origin.Caller, call.OnResponse
	e.masker.Reset(p.masks)
	unseen := e.takeInput(of, p)
	if of.Err == nil {
		e.takeResult(of, p, unseen)
	} else {
		e.takeError(script.AsError(of.Err), of.Kind, p, unseen)
	}
	var all bool
	if e.Masked, all = e.masker.AppendMasked(e.Masked); !all {
		e.Truncated = appendItem(e.Truncated, "masked")
	}
}

// takeInput sets the arguments. unseen is set if they were not read, and may have values at masked paths.
func (e *Entry) takeInput(of *execute.Ended, p *policy) (unseen bool) {
	args := of.Call.Args
	e.Arguments = len(args)
	switch {
	case len(args) == 0 || p.fields&fieldInput == 0 && p.masks.Empty():
		return false
	case of.Unknown: // the version did not run, but may have masks that are not known
		e.Erased = appendItem(e.Erased, inputPointer)
		return false
	}
	size := 0
	for _, arg := range args {
		size += len(arg)
	}
	if size > MaxPart {
		e.Truncated = appendItem(e.Truncated, script.RecordInput)
		return !p.masks.Empty()
	}
	e.Input = appendList(e.Input, len(args), func(dst []byte, i int) []byte {
		to, kept, err := e.masker.Append(dst, args[i], pointers.of(inputPointer, len(args), i), p.input)
		if err != nil {
			unseen = true
		} else if !kept && len(args) > 1 {
			to = append(to, "null"...)
		}
		return to
	})
	if unseen {
		e.Input, e.Erased = e.Input[:0], appendItem(e.Erased, inputPointer)
	}
	if p.fields&fieldInput == 0 { // the arguments were read only for their masked values
		e.Input = e.Input[:0]
	}
	return unseen && !p.masks.Empty()
}

func (e *Entry) takeResult(of *execute.Ended, p *policy, unseen bool) {
	reply := of.Reply
	if e.Results = reply.Len(); e.Results == 0 || p.fields&fieldResult == 0 {
		return
	}
	switch {
	case reply.Bytes() > MaxPart:
		e.Truncated = appendItem(e.Truncated, script.RecordResult)
		return
	case unseen: // the results may have copies of masked values
		e.Erased = appendItem(e.Erased, resultPointer)
		return
	}
	plain := p.masks.Empty() && p.result.Empty()
	failed := false
	e.Result = appendList(e.Result, e.Results, func(dst []byte, i int) []byte {
		if plain { // an engine's JSON is compact already
			return append(dst, reply.Value(i)...)
		}
		to, kept, err := e.masker.Append(dst, reply.Value(i), pointers.of(resultPointer, e.Results, i), p.result)
		switch {
		case err != nil:
			failed = true
		case !kept && e.Results > 1:
			to = append(to, "null"...)
		}
		return to
	})
	switch {
	case failed:
		e.Result, e.Erased = e.Result[:0], appendItem(e.Erased, resultPointer)
	case len(e.Result) > 0: // a result may have a copy of a value that is masked in another
		e.Result = e.masker.Scrub(e.Result, 0, resultPointer)
	}
}

// takeError sets the error of the call. A script may have put masked values into its message.
func (e *Entry) takeError(err *script.Error, kind script.Kind, p *policy, unseen bool) {
	e.Failed = script.Error{Kind: kind, Line: err.Line, Column: err.Column}
	if p.fields&fieldError == 0 {
		return
	}
	if unseen || e.masker.Leaks(err.Message) || e.masker.Leaks(err.Field) {
		e.Erased = appendItem(e.Erased, messagePointer)
		return
	}
	e.Failed.Field, e.Failed.Message = err.Field, cut(err.Message, maxMessage)
}

// cut returns at most most bytes of s, as valid UTF-8.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
