package mirror

import (
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// kind is a script.ObjectKind, as an index.
type kind uint8

const (
	kindReleases kind = iota
	kindValues
	kindTenants
	kinds // how many there are
)

var kindNames = [kinds]string{wire.KindRelease, wire.KindValue, wire.KindTenant}

func kindOf(o script.Object) kind {
	switch o.Kind() {
	case script.Releases:
		return kindReleases
	case script.Values:
		return kindValues
	}
	return kindTenants
}

// Sums are checksums over live objects, one for each kind.
type Sums [kinds]wire.Sum

// Of returns the checksum over the objects of the kind.
func (s Sums) Of(k script.ObjectKind) wire.Sum {
	for i, name := range kindNames {
		if name == string(k) {
			return s[i]
		}
	}
	return wire.Sum{}
}

// Checksums returns the sums as they travel: of each kind, always in the same order.
func (s Sums) Checksums() []*eventv1.Checksum {
	m := make([]*eventv1.Checksum, kinds)
	for i := range s {
		m[i] = &eventv1.Checksum{Kind: kindNames[i], Sum: s[i].Bytes()}
	}
	return m
}

// add adds the sums, kind by kind.
func (s *Sums) add(other Sums) {
	for i := range s {
		s[i].Add(other[i])
	}
}
