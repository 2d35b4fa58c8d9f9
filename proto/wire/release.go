package wire

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromRelease returns the message for r.
func FromRelease(r script.Release) *scriptv1.Release {
	m := &scriptv1.Release{
		Tenant:    r.Name.Tenant,
		Name:      r.Name.Script,
		Revision:  int64(r.Revision),
		Latest:    r.Latest,
		Pinned:    r.Pinned,
		Enabled:   r.Enabled,
		Deleted:   r.Deleted,
		Settings:  FromSettings(r.Settings),
		ChangedAt: fromTime(r.ChangedAt),
		Owner:     r.Owner,
	}
	if r.Active.Number != 0 {
		m.Active = FromVersion(r.Active)
		m.Active.Signature, m.Active.Spec, m.Active.SpecSize = "", nil, 0 // the retained version has them
	}
	for _, v := range r.Retained {
		m.Retained = append(m.Retained, FromVersion(v))
	}
	m.Candidate = fromCandidate(&r)
	m.Hold = fromHold(r.Hold)
	return m
}

// ToRelease reads m. A live release names its active version among the retained.
func ToRelease(m *scriptv1.Release) (script.Release, error) {
	r := script.Release{
		Name:      script.Name{Tenant: m.GetTenant(), Script: m.GetName()},
		Revision:  script.Revision(m.GetRevision()),
		Latest:    m.GetLatest(),
		Pinned:    m.GetPinned(),
		Enabled:   m.GetEnabled(),
		Deleted:   m.GetDeleted(),
		ChangedAt: toTime(m.GetChangedAt()),
		Owner:     m.GetOwner(),
	}
	if err := r.Name.Validate(); err != nil {
		return script.Release{}, err
	}
	settings, err := ToSettings(m.GetSettings())
	if err != nil {
		return script.Release{}, err
	}
	r.Settings = settings
	if r.Deleted {
		return r, nil
	}
	if r.Active, err = ToVersion(m.GetActive()); err != nil {
		return script.Release{}, err
	}
	for _, mv := range m.GetRetained() {
		v, err := ToVersion(mv)
		if err != nil {
			return script.Release{}, err
		}
		r.Retained = append(r.Retained, v)
	}
	if r.Candidate, err = toCandidate(m.GetCandidate(), &r); err != nil {
		return script.Release{}, err
	}
	if r.Hold = toHold(m.GetHold()); r.Hold != nil && (!r.Pinned || r.Candidate != nil) {
		return script.Release{}, script.Errorf(script.Invalid, "hold", "%s is held, and yet not pinned, or has a candidate", r.Name)
	}
	v, ok := r.Retains(r.Active.Number)
	if !ok || !v.SameProgram(r.Active) {
		return script.Release{}, script.Errorf(script.Invalid, "release", "%s: the active version %d is not among the retained ones", r.Name, r.Active.Number)
	}
	r.Active.Signature, r.Active.Spec, r.Active.SpecSize = v.Signature, v.Spec, v.SpecSize
	return r, nil
}

func fromHold(h *script.Hold) *scriptv1.Hold {
	if h == nil {
		return nil
	}
	return &scriptv1.Hold{Author: h.Author, Note: h.Note, Since: fromTime(h.Since), Owner: h.Owner, Declared: h.Declared}
}

func toHold(m *scriptv1.Hold) *script.Hold {
	if m == nil {
		return nil
	}
	return &script.Hold{Author: m.GetAuthor(), Note: m.GetNote(), Since: toTime(m.GetSince()), Owner: m.GetOwner(), Declared: m.GetDeclared()}
}

// FromVersion returns the message for v.
func FromVersion(v script.Version) *scriptv1.Version {
	return &scriptv1.Version{
		Number:     v.Number,
		Digest:     FromDigest(v.Digest),
		Engine:     engineOf(v),
		Entrypoint: v.Entrypoint,
		Size:       int64(v.Size),
		Author:     v.Author,
		Note:       v.Note,
		CreatedAt:  fromTime(v.CreatedAt),
		Signature:  v.Signature,
		Spec:       FromDigest(v.Spec),
		SpecSize:   int64(v.SpecSize),
		Inputs:     FromDigest(v.Inputs),
	}
}

// ToVersion reads m.
func ToVersion(m *scriptv1.Version) (script.Version, error) {
	digest, err := ToDigest(m.GetDigest())
	if err != nil {
		return script.Version{}, err
	}
	if m.GetNumber() == 0 || digest.IsZero() {
		return script.Version{}, script.Errorf(script.Invalid, "version", "has no number or no digest")
	}
	spec, err := ToDigest(m.GetSpec())
	if err != nil {
		return script.Version{}, err
	}
	inputs, err := ToDigest(m.GetInputs())
	if err != nil {
		return script.Version{}, err
	}
	engine := m.GetEngine()
	if !inputs.IsZero() { // else an older registry has dropped them, and nothing may run it without
		engine = strings.TrimSuffix(engine, withInputs)
	}
	if m.GetSpecSize() < 0 || m.GetSpecSize() > script.MaxSourceBytes {
		return script.Version{}, script.Errorf(script.Invalid, "version", "has settings of the impossible size %d", m.GetSpecSize())
	}
	if m.GetSize() < 0 || m.GetSize() > script.MaxArtifactBytes {
		return script.Version{}, script.Errorf(script.Invalid, "version", "has the impossible size %d", m.GetSize())
	}
	return script.Version{
		Number:     m.GetNumber(),
		Digest:     digest,
		Engine:     engine,
		Entrypoint: m.GetEntrypoint(),
		Size:       int(m.GetSize()),
		Author:     m.GetAuthor(),
		Note:       m.GetNote(),
		CreatedAt:  toTime(m.GetCreatedAt()),
		Signature:  m.GetSignature(),
		Spec:       spec,
		SpecSize:   int(m.GetSpecSize()),
		Inputs:     inputs,
	}, nil
}

// withInputs is added to the engine of a version with inputs: software that does not know them has no such engine, so it
// keeps the version that it runs, and says why.
const withInputs = "+libraries"

// engineOf returns how the engine of v is called on the wire.
func engineOf(v script.Version) string {
	if v.Inputs.IsZero() {
		return v.Engine
	}
	return v.Engine + withInputs
}

// FromDigest returns the raw bytes of d, nil for none.
func FromDigest(d script.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// ToDigest reads 32 raw bytes; none are the zero Digest.
func ToDigest(raw []byte) (script.Digest, error) {
	var d script.Digest
	if len(raw) != 0 && len(raw) != len(d) {
		return d, script.Errorf(script.Invalid, "digest", "has %d bytes, want %d", len(raw), len(d))
	}
	copy(d[:], raw)
	return d, nil
}

// FromSettings returns the message for s.
func FromSettings(s script.Settings) *scriptv1.Settings {
	return &scriptv1.Settings{
		Limits:       FromLimits(s.Limits),
		Trigger:      FromTrigger(s.Trigger),
		Config:       s.Config,
		HistoryLimit: int32(s.HistoryLimit),
		Rollout:      fromPlan(s.Rollout),
		Tests:        fromTests(s.Tests),
		OnError:      fromOnError(s.OnError),
		Decisions:    fromDecisions(s.Decisions),
		Library:      s.Library,
		Libraries:    FromLibraries(s.Libraries),
		Personal:     fromPersonal(s.Personal),
		Wasm:         fromWasm(s.Runtime.Wasm),
		Rego:         fromRego(s.Runtime.Rego),
		Artifact:     s.Artifact,
	}
}

func fromPersonal(p *script.Personal) *scriptv1.Personal {
	if p == nil {
		return nil
	}
	return &scriptv1.Personal{Of: p.Of, Key: p.Key, From: string(p.From), Until: fromTime(p.Until)}
}

func toPersonal(m *scriptv1.Personal) *script.Personal {
	if m == nil {
		return nil
	}
	return &script.Personal{Of: m.GetOf(), Key: m.GetKey(), From: script.KeySource(m.GetFrom()), Until: toTime(m.GetUntil())}
}

// ToSettings reads m; nil is the zero Settings. It checks the form alone: the
// registry checks the bounds.
func ToSettings(m *scriptv1.Settings) (script.Settings, error) {
	limits, err := ToLimits(m.GetLimits())
	if err != nil {
		return script.Settings{}, err
	}
	plan, err := toPlan(m.GetRollout())
	if err != nil {
		return script.Settings{}, err
	}
	libraries, err := ToLibraries(m.GetLibraries())
	if err != nil {
		return script.Settings{}, err
	}
	return script.Settings{
		Spec: script.Spec{
			Limits:    limits,
			Trigger:   ToTrigger(m.GetTrigger()),
			OnError:   toOnError(m.GetOnError()),
			Decisions: toDecisions(m.GetDecisions()),
			Config:    m.GetConfig(),
			Tests:     toTests(m.GetTests()),
			Library:   m.GetLibrary(),
			Libraries: libraries,
			Personal:  toPersonal(m.GetPersonal()),
			Runtime:   toRuntime(m.GetWasm(), m.GetRego()),
			Artifact:  m.GetArtifact(),
		},
		HistoryLimit: int(m.GetHistoryLimit()),
		Rollout:      plan,
	}, nil
}

// fromOnError returns the message for e; nil for the default, which older software sends.
func fromOnError(e script.OnError) *scriptv1.OnError {
	if e.IsZero() {
		return nil
	}
	return &scriptv1.OnError{Policy: e.Policy, Status: int32(e.Status), Body: e.Body}
}

func toOnError(m *scriptv1.OnError) script.OnError {
	return script.OnError{Policy: script.PolicyOf(m.GetPolicy()), Status: int(m.GetStatus()), Body: m.GetBody()}
}

func fromDecisions(d *script.Decisions) *scriptv1.Decisions {
	if d == nil {
		return nil
	}
	return &scriptv1.Decisions{Sample: d.Sample, Errors: d.Errors, Mask: d.Mask, Fields: d.Fields}
}

func toDecisions(m *scriptv1.Decisions) *script.Decisions {
	if m == nil {
		return nil
	}
	return &script.Decisions{Sample: m.GetSample(), Errors: m.GetErrors(), Mask: m.GetMask(), Fields: m.GetFields()}
}

// FromLimits returns the message for l.
func FromLimits(l script.Limits) *scriptv1.Limits {
	m := &scriptv1.Limits{
		Instructions: l.Instructions,
		SourceBytes:  int64(l.SourceBytes),
		StringBytes:  int64(l.StringBytes),
		ResultBytes:  int64(l.ResultBytes),
		LogBytes:     int64(l.LogBytes),
		Concurrency:  int32(l.Concurrency),
		Coroutines:   l.Coroutines,
		WasmMemory:   int64(l.WasmMemory),
	}
	if l.Timeout != 0 {
		m.Timeout = durationpb.New(l.Timeout)
	}
	return m
}

// ToLimits reads m; nil is the zero Limits.
func ToLimits(m *scriptv1.Limits) (script.Limits, error) {
	if t := m.GetTimeout(); t != nil {
		if err := t.CheckValid(); err != nil {
			return script.Limits{}, script.Errorf(script.Invalid, "limits.timeout", "%v", err)
		}
	}
	return script.Limits{
		Instructions: m.GetInstructions(),
		Timeout:      m.GetTimeout().AsDuration(),
		SourceBytes:  int(m.GetSourceBytes()),
		StringBytes:  int(m.GetStringBytes()),
		ResultBytes:  int(m.GetResultBytes()),
		LogBytes:     int(m.GetLogBytes()),
		Concurrency:  int(m.GetConcurrency()),
		Coroutines:   m.GetCoroutines(),
		WasmMemory:   int(m.GetWasmMemory()),
	}, nil
}

// FromHistoryEntry returns the message for e.
func FromHistoryEntry(e script.HistoryEntry) *scriptv1.HistoryEntry {
	return &scriptv1.HistoryEntry{
		Revision: int64(e.Revision),
		Change:   string(e.Change),
		Version:  e.Version,
		Digest:   FromDigest(e.Digest),
		Pinned:   e.Pinned,
		Author:   e.Author,
		Note:     e.Note,
		Time:     fromTime(e.Time),

		Candidate: e.Candidate,
		Spec:      FromDigest(e.Spec),
		Held:      e.Held,
		ChangeSet: e.ChangeSet,
	}
}

// ToHistoryEntry reads m.
func ToHistoryEntry(m *scriptv1.HistoryEntry) (script.HistoryEntry, error) {
	digest, err := ToDigest(m.GetDigest())
	if err != nil {
		return script.HistoryEntry{}, err
	}
	spec, err := ToDigest(m.GetSpec())
	if err != nil {
		return script.HistoryEntry{}, err
	}
	return script.HistoryEntry{
		Revision: script.Revision(m.GetRevision()),
		Change:   script.Change(m.GetChange()),
		Version:  m.GetVersion(),
		Digest:   digest,
		Pinned:   m.GetPinned(),
		Author:   m.GetAuthor(),
		Note:     m.GetNote(),
		Time:     toTime(m.GetTime()),

		Candidate: m.GetCandidate(),
		Spec:      spec,
		Held:      m.GetHeld(),
		ChangeSet: m.GetChangeSet(),
	}, nil
}

func fromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func toTime(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}

// FromAuditEntry returns the message for e.
func FromAuditEntry(e script.AuditEntry) *scriptv1.AuditEntry {
	return &scriptv1.AuditEntry{
		Revision: int64(e.Revision),
		Time:     fromTime(e.Time),
		Tenant:   e.Name.Tenant,
		Name:     e.Name.Script,
		Change:   string(e.Change),
		Version:  e.Version,
		Digest:   FromDigest(e.Digest),
		Author:   e.Author,
		Identity: e.Identity,
		Peer:     e.Peer,
		Owner:    e.Owner,
		Forced:   e.Forced,
		Note:     e.Note,
		Key:      e.Key,

		Candidate:       e.Candidate,
		CandidateDigest: FromDigest(e.CandidateDigest),
		ChangeSet:       e.ChangeSet,
	}
}

// ToAuditEntry reads m.
func ToAuditEntry(m *scriptv1.AuditEntry) (script.AuditEntry, error) {
	digest, err := ToDigest(m.GetDigest())
	if err != nil {
		return script.AuditEntry{}, err
	}
	candidate, err := ToDigest(m.GetCandidateDigest())
	if err != nil {
		return script.AuditEntry{}, err
	}
	return script.AuditEntry{
		Revision: script.Revision(m.GetRevision()),
		Time:     toTime(m.GetTime()),
		Name:     script.Name{Tenant: m.GetTenant(), Script: m.GetName()},
		Change:   script.Change(m.GetChange()),
		Version:  m.GetVersion(),
		Digest:   digest,
		Author:   m.GetAuthor(),
		Identity: m.GetIdentity(),
		Peer:     m.GetPeer(),
		Owner:    m.GetOwner(),
		Forced:   m.GetForced(),
		Note:     m.GetNote(),
		Key:      m.GetKey(),

		Candidate:       m.GetCandidate(),
		CandidateDigest: candidate,
		ChangeSet:       m.GetChangeSet(),
	}, nil
}
