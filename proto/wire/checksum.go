package wire

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Sum is an order-independent checksum over objects of one kind: the sum of their
// fingerprints, as four numbers modulo 2^64 each. It is there to find accidents;
// against malice there are signatures. The zero Sum is of no objects.
type Sum [4]uint64

// The kinds of a Checksum.
const (
	KindRelease = string(script.Releases)
	KindValue   = string(script.Values)
	KindTenant  = string(script.Tenants)
)

// Add adds a release's fingerprint.
func (s *Sum) Add(fingerprint Sum) {
	for i := range s {
		s[i] += fingerprint[i]
	}
}

// Remove takes a release's fingerprint out again.
func (s *Sum) Remove(fingerprint Sum) {
	for i := range s {
		s[i] -= fingerprint[i]
	}
}

// Bytes returns the 32 bytes that travel, each number big endian.
func (s Sum) Bytes() []byte {
	b := make([]byte, 0, 32)
	for _, n := range s {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// ToSum reads what Bytes returns.
func ToSum(b []byte) (Sum, error) {
	if len(b) != 32 {
		return Sum{}, script.Errorf(script.Invalid, "checksum", "has %d bytes, want 32", len(b))
	}
	return sumOf(b), nil
}

func sumOf(b []byte) (s Sum) {
	for i := range s {
		s[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	return s
}

// Fingerprint returns the SHA-256 of what decides what a call of a live release
// does, but for what is named below, field by field: texts and bytes with their lengths before them,
// numbers as 8 bytes, big endian. A tombstone has none: its fingerprint is zero.
//
// It is made from the release and not from a message, so that softwares of
// different ages agree: fields that are added to a release are not added here. An
// older agent drops what it does not know of a message; were that in the registry's
// sum, it would find a drift at each beacon and fetch everything, again and again. Of
// the limits, LogBytes, Concurrency, Coroutines and WasmMemory are left out for that reason, and so are
// the candidate and the tests: a change of them shows all the same, by the revision that it gives the release, and
// only a fault in memory of just these does not.
func Fingerprint(r script.Release) Sum {
	if r.Deleted {
		return Sum{}
	}
	f := fields{buf: make([]byte, 0, 1024)}
	f.text(r.Name.Tenant)
	f.text(r.Name.Script)
	f.number(uint64(r.Revision))
	f.version(r.Active)
	f.flag(r.Pinned)
	f.flag(r.Enabled)
	f.number(uint64(len(r.Retained)))
	for _, v := range r.Retained {
		f.version(v)
	}
	f.limits(r.Settings.Limits)
	f.text(r.Settings.Trigger.Event)
	f.text(string(r.Settings.Config))
	return f.sum()
}

// FingerprintObject is Fingerprint for an object of any kind. Of a value the key, the
// revision, the digest and the size count; of a tenant the name, the revision and the
// settings, but for Limits.Coroutines, which bounds nothing there, and Limits.WasmMemory, which older agents do not know.
func FingerprintObject(o script.Object) Sum {
	switch {
	case o.Deleted():
		return Sum{}
	case o.Release != nil:
		return Fingerprint(*o.Release)
	case o.Value != nil:
		return fingerprintValue(*o.Value)
	}
	return fingerprintTenant(*o.Tenant)
}

func fingerprintValue(v script.Value) Sum {
	f := fields{buf: make([]byte, 0, 512)}
	f.text(v.Key.Tenant)
	f.text(v.Key.Key)
	f.number(uint64(v.Revision))
	f.text(string(v.Digest[:]))
	f.number(uint64(v.Size))
	return f.sum()
}

// fingerprintTenant leaves out the settings that agents do not need: agents of before have
// the same sums.
func fingerprintTenant(t script.Tenant) Sum {
	f := fields{buf: make([]byte, 0, 512)}
	f.text(t.Name)
	f.number(uint64(t.Revision))
	f.text(string(t.Settings.Isolation))
	f.limits(t.Settings.Limits)
	for _, n := range []uint64{
		uint64(t.Settings.Limits.LogBytes), uint64(t.Settings.Limits.Concurrency),
		uint64(t.Settings.Concurrency), uint64(t.Settings.CPU), uint64(t.Settings.LogBytes),
		uint64(t.Settings.MemoryBytes), uint64(t.Settings.ValueBytes),
	} {
		f.number(n)
	}
	return f.sum()
}

// fields collects what is hashed.
type fields struct{ buf []byte }

func (f *fields) sum() Sum {
	sum := sha256.Sum256(f.buf)
	return sumOf(sum[:])
}

func (f *fields) number(n uint64) { f.buf = binary.BigEndian.AppendUint64(f.buf, n) }

func (f *fields) text(s string) {
	f.number(uint64(len(s)))
	f.buf = append(f.buf, s...)
}

func (f *fields) flag(on bool) {
	if on {
		f.number(1)
		return
	}
	f.number(0)
}

// limits adds those that there were when releases got fingerprints.
func (f *fields) limits(l script.Limits) {
	for _, n := range []uint64{
		l.Instructions, uint64(l.Timeout), uint64(l.SourceBytes), uint64(l.StringBytes), uint64(l.ResultBytes),
	} {
		f.number(n)
	}
}

func (f *fields) version(v script.Version) {
	f.number(v.Number)
	f.buf = append(f.buf, v.Digest[:]...)
	f.text(engineOf(v))
	f.text(v.Entrypoint)
	f.number(uint64(v.Size))
}
