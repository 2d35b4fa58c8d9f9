// Package publisher signs versions for those who publish them, and verifies such
// signatures. A registry signs what it has: package seal. A publisher signs what the
// registry is to have, with a key that no registry, etcd or NATS holds.
//
// A signature is a DSSE envelope (https://github.com/secure-systems-lab/dsse) of a
// Statement as JSON.
package publisher

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/scriptorium-dev/scriptorium/script"
)

// PayloadType of the envelopes.
const PayloadType = "application/vnd.scriptorium.version.v1+json"

// field is what errors of this package name.
const field = "signature"

// Statement is what a publisher signs: all of a version that decides what a call does.
// It does not say which version is live, nor who gets it when: that is for the registry to
// choose among what is signed.
type Statement struct {
	Program
	Settings
}

// Program is what runs, under which name.
type Program struct {
	Tenant     string        `json:"tenant"`
	Script     string        `json:"script"`
	Engine     string        `json:"engine"`
	Entrypoint string        `json:"entrypoint"`
	Source     script.Digest `json:"source"`
}

// Settings are what it runs with. The digests are of JSON without space around its parts.
type Settings struct {
	Trigger string        `json:"trigger,omitempty"`
	Limits  limits        `json:"limits,omitzero"`
	Config  script.Digest `json:"config,omitzero"`
	Tests   script.Digest `json:"tests,omitzero"`
	OnError script.Digest `json:"onError,omitzero"`
	// Order is of the trigger's priority and match.
	Order script.Digest `json:"triggerOrder,omitzero"`
	// Decisions is of what is recorded of calls.
	Decisions script.Digest `json:"decisions,omitzero"`
	Library   bool          `json:"library,omitempty"`
	// Libraries is script.DigestOfLibraries.
	Libraries script.Digest `json:"libraries,omitzero"`
	// Runtime is of the options of the engine.
	Runtime script.Digest `json:"runtime,omitzero"`
	// Personal is of whose personal version it is.
	Personal script.Digest `json:"personal,omitzero"`
}

// limits are script.Limits as JSON.
type limits struct {
	Instructions uint64        `json:"instructions,omitempty"`
	Timeout      time.Duration `json:"timeoutNanoseconds,omitempty"`
	SourceBytes  int           `json:"sourceBytes,omitempty"`
	StringBytes  int           `json:"stringBytes,omitempty"`
	ResultBytes  int           `json:"resultBytes,omitempty"`
	LogBytes     int           `json:"logBytes,omitempty"`
	Concurrency  int           `json:"concurrency,omitempty"`
	Coroutines   bool          `json:"coroutines,omitempty"`
	WasmMemory   int           `json:"wasmMemory,omitempty"`
}

// StatementOf returns the statement about the version of the script, which runs with s.
func StatementOf(name script.Name, v script.Version, s script.Spec) Statement {
	return Statement{programOf(name, v), SettingsOf(s)}
}

func programOf(name script.Name, v script.Version) Program {
	return Program{Tenant: name.Tenant, Script: name.Script, Engine: v.Engine, Entrypoint: v.Entrypoint, Source: v.Digest}
}

// SettingsOf returns what a version runs with, as it is signed.
func SettingsOf(s script.Spec) Settings {
	return Settings{
		Trigger:   s.Trigger.Event,
		Limits:    limits(s.Limits),
		Config:    digestOf(compact(s.Config)),
		Tests:     digestOfTests(s.Tests),
		OnError:   digestOfOnError(s.OnError),
		Order:     digestOfOrder(s.Trigger),
		Decisions: digestOfDecisions(s.Decisions),
		Library:   s.Library,
		Libraries: script.DigestOfLibraries(s.Libraries),
		Runtime:   script.Inputs{Runtime: s.Runtime}.Digest(),
		Personal:  digestOfPersonal(s.Personal),
	}
}

// compact returns the JSON value without space around its parts; nil for an empty object,
// which is what none means.
func compact(value json.RawMessage) []byte {
	var short bytes.Buffer
	if len(value) == 0 || json.Compact(&short, value) != nil {
		return value
	}
	if short.String() == "{}" {
		return nil
	}
	return short.Bytes()
}

// digestOf returns the digest of text; none for no text.
func digestOf(text []byte) script.Digest {
	if len(text) == 0 {
		return script.Digest{}
	}
	return script.DigestOf(text)
}

// digestOfTests returns the SHA-256 of the tests' texts, each with its length before it, as 8
// bytes, big endian; none for no tests.
func digestOfTests(tests []script.Test) (d script.Digest) {
	if len(tests) == 0 {
		return d
	}
	sum := sha256.New()
	for _, t := range tests {
		addTexts(sum, []byte(t.Name), compact(t.Request), compactResult(t.Expect), []byte(t.Error))
	}
	return script.Digest(sum.Sum(nil))
}

// digestOfOnError returns the SHA-256 of the policy, the status in decimal and the body, in the form of
// digestOfTests; none for the default. The body may be as large as a whole signature.
func digestOfOnError(e script.OnError) (d script.Digest) {
	if e.IsZero() {
		return d
	}
	sum := sha256.New()
	addTexts(sum, []byte(e.Named()), strconv.AppendInt(nil, int64(e.Status), 10), []byte(e.Body))
	return script.Digest(sum.Sum(nil))
}

// digestOfOrder returns the SHA-256 of the priority in decimal, and of the parts of the match, in the
// form of digestOfTests; none for the default. Before the texts of each part comes how many they are.
func digestOfOrder(t script.Trigger) (d script.Digest) {
	if t.Priority == 0 && t.Match.IsZero() {
		return d
	}
	sum := sha256.New()
	number := func(n int) { addTexts(sum, strconv.AppendInt(nil, int64(n), 10)) }
	number(t.Priority)
	for _, list := range [][]string{t.Match.Hosts, t.Match.PathPrefixes, t.Match.Methods} {
		number(len(list))
		for _, text := range list {
			addTexts(sum, []byte(text))
		}
	}
	number(len(t.Match.Headers))
	for _, name := range slices.Sorted(maps.Keys(t.Match.Headers)) {
		addTexts(sum, []byte(name), []byte(t.Match.Headers[name]))
	}
	return script.Digest(sum.Sum(nil))
}

// digestOfDecisions returns the SHA-256 of the sample and errors as JSON has them, and of the lists, in
// the form of digestOfOrder; none for nil.
func digestOfDecisions(d *script.Decisions) (digest script.Digest) {
	if d == nil {
		return digest
	}
	sum := sha256.New()
	addTexts(sum, strconv.AppendFloat(nil, d.Sample, 'g', -1, 64), strconv.AppendBool(nil, d.Errors))
	for _, list := range [][]string{d.Mask, d.Fields} {
		addTexts(sum, strconv.AppendInt(nil, int64(len(list)), 10))
		for _, text := range list {
			addTexts(sum, []byte(text))
		}
	}
	return script.Digest(sum.Sum(nil))
}

// digestOfPersonal returns the SHA-256 of its parts, in the form of digestOfTests, with the time in RFC 3339; none for
// nil.
func digestOfPersonal(p *script.Personal) (d script.Digest) {
	if p == nil {
		return d
	}
	sum := sha256.New()
	addTexts(sum, []byte(p.Of), []byte(p.Key), []byte(p.From), []byte(p.Until.UTC().Format(time.RFC3339Nano)))
	return script.Digest(sum.Sum(nil))
}

// addTexts adds each text with its length before it.
func addTexts(sum hash.Hash, texts ...[]byte) {
	for _, text := range texts {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(text))) // to a hash
		sum.Write(text)
	}
}

// compactResult is compact, for a value of which {} says something.
func compactResult(value json.RawMessage) []byte {
	if short := compact(value); short != nil || len(value) == 0 {
		return short
	}
	return []byte("{}")
}

// differs names the first field in which the statements differ; "" if they do not.
func (s Statement) differs(want Statement) string {
	for _, f := range []struct {
		name string
		same bool
	}{
		{"tenant", s.Tenant == want.Tenant},
		{"script", s.Script == want.Script},
		{"engine", s.Engine == want.Engine},
		{"entrypoint", s.Entrypoint == want.Entrypoint},
		{"source", s.Source == want.Source},
		{"trigger", s.Trigger == want.Trigger && s.Order == want.Order},
		{"limits", s.Limits == want.Limits},
		{"config", s.Config == want.Config},
		{"tests", s.Tests == want.Tests},
		{"onError", s.OnError == want.OnError},
		{"log.decisions", s.Decisions == want.Decisions},
		{"library", s.Library == want.Library},
		{"set of libraries", s.Libraries == want.Libraries},
		{"set of options of the engine", s.Runtime == want.Runtime},
		{"personal", s.Personal == want.Personal},
	} {
		if !f.same {
			return f.name
		}
	}
	return ""
}

// Sign returns the signature of the statement: the same one each time.
func Sign(ctx context.Context, s Statement, by *Signer) (string, error) {
	payload, err := json.Marshal(s)
	if err != nil {
		return "", script.Errorf(script.Internal, field, "cannot be made: %w", err)
	}
	signer, err := dsse.NewEnvelopeSigner(by)
	if err != nil {
		return "", script.Errorf(script.Internal, field, "cannot be made: %w", err)
	}
	envelope, err := signer.SignPayload(ctx, PayloadType, payload)
	if err != nil {
		return "", script.Errorf(script.Internal, field, "cannot be made: %w", err)
	}
	text, err := json.Marshal(envelope)
	if err != nil {
		return "", script.Errorf(script.Internal, field, "cannot be made: %w", err)
	}
	return string(text), nil
}

// opened is an envelope whose signatures nobody has looked at.
type opened struct {
	envelope  dsse.Envelope
	payload   []byte
	statement Statement
}

// open reads a signature. Errors are Invalid.
func open(signature string) (*opened, error) {
	if len(signature) > script.MaxSignatureBytes {
		return nil, script.Errorf(script.Invalid, field, "has %d bytes, at most %d are allowed", len(signature), script.MaxSignatureBytes)
	}
	var o opened
	if err := json.Unmarshal([]byte(signature), &o.envelope); err != nil {
		return nil, script.Errorf(script.Invalid, field, "is not a DSSE envelope as JSON: %w: make it with scriptctl sign", err)
	}
	if o.envelope.PayloadType != PayloadType {
		return nil, script.Errorf(script.Invalid, field, "has the payload type %.80q, want %s: make it with scriptctl sign", o.envelope.PayloadType, PayloadType)
	}
	var err error
	if o.payload, err = o.envelope.DecodeB64Payload(); err != nil {
		return nil, script.Errorf(script.Invalid, field, "has a payload that is not base64: %w", err)
	}
	if err := json.Unmarshal(o.payload, &o.statement); err != nil {
		return nil, script.Errorf(script.Invalid, field, "has a payload that cannot be read: %w", err)
	}
	return &o, nil
}

// Covers returns an Invalid error if the signature is not of the statement. It does not
// look at keys.
func Covers(signature string, want Statement) error {
	o, err := open(signature)
	if err != nil {
		return err
	}
	if len(o.envelope.Signatures) == 0 {
		return script.Errorf(script.Invalid, field, "nobody has signed the envelope: make it with scriptctl sign")
	}
	if name := o.statement.differs(want); name != "" {
		return script.Errorf(script.Invalid, field, "is of another %s: sign again what changed since (scriptctl sign)", name)
	}
	return nil
}

// CoversButLibraries is Covers for those who do not know the libraries of the version: the registry does.
func CoversButLibraries(signature string, want Statement) error {
	o, err := open(signature)
	if err != nil {
		return err
	}
	want.Libraries = o.statement.Libraries
	return Covers(signature, want)
}

// SignedBy returns the ids of the keys that the signature names. They prove nothing.
func SignedBy(signature string) []string {
	var envelope dsse.Envelope
	if signature == "" || json.Unmarshal([]byte(signature), &envelope) != nil {
		return nil
	}
	ids := make([]string, 0, len(envelope.Signatures))
	for _, s := range envelope.Signatures {
		ids = append(ids, s.KeyID)
	}
	return ids
}
