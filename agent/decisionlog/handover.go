package decisionlog

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/mask"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Message returns the entry as a message from the process of a tenant to its agent. It does not share the entry's
// buffers.
func (e *Entry) Message() *workerv1.Record {
	m := &workerv1.Record{
		StartUnixNanos: e.Start.UnixNano(), TookNanos: int64(e.Took), Script: e.Script, Version: e.Version, Digest: wire.FromDigest(e.Digest),
		Revision: int64(e.Revision), StalenessNanos: int64(e.Staleness), TraceId: strings.Clone(e.TraceID), SpanId: strings.Clone(e.SpanID),
		Protocol: e.Protocol, Caller: e.Caller, Instructions: e.Instructions, OnResponse: e.OnResponse,
		Input: bytes.Clone(e.Input), Result: bytes.Clone(e.Result),
		Arguments: int32(e.Arguments), Results: int32(e.Results), //nolint:gosec // of one call
		Masked: bytes.Clone(e.Masked), Erased: bytes.Clone(e.Erased), Truncated: bytes.Clone(e.Truncated), Fields: uint32(e.fields),
	}
	if e.Failed.Kind != "" {
		m.Error = wire.FromError(&e.Failed)
	}
	return m
}

// Bounds of records from processes.
const (
	maxListBytes  = 64 << 10    // of a list of pointers
	maxHandedPart = 4 * MaxPart // of masked JSON
	maxMoment     = time.Minute // between the end of the call and Handed
)

// protocols are the known values of Protocol.
var protocols = []string{"resp", "http", "grpc", "ext_authz", "ext_proc", "spop", "embedded"}

// Handed returns the entry of a record from the process of the tenant. A compromised process can forge records of its own
// tenant, but Handed ensures that they are well-formed and name no other tenant. The caller must Release the entry.
func Handed(m *workerv1.Record, tenant string, strict bool, now time.Time) *Entry {
	e := newEntry()
	e.Tenant, e.Strict, e.fields = tenant, strict, fields(m.GetFields())
	e.Took = max(time.Duration(m.GetTookNanos()), 0)
	e.Start = time.Unix(0, m.GetStartUnixNanos())
	if ended := e.Start.Add(e.Took); ended.After(now) || ended.Before(now.Add(-maxMoment)) {
		e.Start = now
	}
	if script.ValidateLabel("script", m.GetScript()) == nil {
		e.Script = m.GetScript()
	}
	e.Version = m.GetVersion()
	if d, err := wire.ToDigest(m.GetDigest()); err == nil {
		e.Digest = d
	}
	e.Revision, e.Staleness = script.Revision(m.GetRevision()), time.Duration(m.GetStalenessNanos())
	e.TraceID, e.SpanID = tracecontext.IDs("00-" + m.GetTraceId() + "-" + m.GetSpanId() + "-00")
	if slices.Contains(protocols, m.GetProtocol()) {
		e.Protocol = m.GetProtocol()
	}
	e.Caller, e.Instructions, e.OnResponse = m.GetCaller(), m.GetInstructions(), m.GetOnResponse()
	if failed := wire.ToError(m.GetError()); failed != nil {
		if e.Failed = *failed; !failed.Kind.Known() {
			e.Failed.Kind = script.Internal
		}
		e.Failed.Message = cut(failed.Message, maxMessage)
	}
	e.Arguments, e.Results = max(int(m.GetArguments()), 0), max(int(m.GetResults()), 0)
	e.Masked, e.Erased, e.Truncated = appendTexts(e.Masked, m.GetMasked()), appendTexts(e.Erased, m.GetErased()), appendTexts(e.Truncated, m.GetTruncated())
	e.masker.Reset(nil)
	e.Input = e.appendHanded(e.Input, m.GetInput(), inputPointer)
	e.Result = e.appendHanded(e.Result, m.GetResult(), resultPointer)
	return e
}

// appendHanded appends a part if it is JSON, and otherwise adds the pointer to Erased.
func (e *Entry) appendHanded(dst, part []byte, pointer string) []byte {
	if len(part) == 0 {
		return dst
	}
	if len(part) <= maxHandedPart {
		if to, kept, err := e.masker.Append(dst, part, pointer, nil); err == nil && kept {
			return to
		}
	}
	e.Erased = appendItem(e.Erased, pointer)
	return dst
}

// appendTexts appends a comma-separated list of JSON strings. It ignores texts if it is anything else.
func appendTexts(list, texts []byte) []byte {
	if len(texts) > maxListBytes || !mask.IsTexts(texts) {
		return list
	}
	if len(list) > 0 && len(texts) > 0 {
		list = append(list, ',')
	}
	return append(list, texts...)
}
