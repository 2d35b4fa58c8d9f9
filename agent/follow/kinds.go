package follow

import (
	"slices"
	"strings"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// kinds of objects that are followed. The revisions of others are passed over.
var kinds = []script.ObjectKind{script.Releases, script.Values, script.Tenants}

// kindOf returns the kind of the object with the key; ok is false if it is not
// followed.
func kindOf(key string) (kind script.ObjectKind, ok bool) {
	prefix, _, _ := strings.Cut(key, "/")
	kind = script.ObjectKind(prefix)
	return kind, slices.Contains(kinds, kind)
}

// tenantOf returns the tenant in the key of an object.
func tenantOf(key string) string {
	_, name, _ := strings.Cut(key, "/")
	tenant, _, _ := strings.Cut(name, "/")
	return tenant
}

// keys is a set of keys of objects.
type keys map[string]struct{}

func keySet(list []string) keys {
	set := make(keys, len(list))
	for _, key := range list {
		set[key] = struct{}{}
	}
	return set
}

func (k keys) has(key string) bool {
	_, there := k[key]
	return there
}

// unread returns an object of which nothing but the revision is known. It is of no
// tenant.
func unread(kind script.ObjectKind, r script.Revision) script.Object {
	switch kind {
	case script.Values:
		return script.Object{Value: &script.Value{Revision: r}}
	case script.Tenants:
		return script.Object{Tenant: &script.Tenant{Revision: r}}
	}
	return script.Object{Release: &script.Release{Revision: r}}
}

func isUnread(o script.Object) bool { return o.TenantName() == "" }

// heeded returns an error if the object asks for something that this software does not
// know and must not pass over: a tenant that asks for a kind of isolation of newer software
// must not run without isolation.
func heeded(o script.Object) error {
	if o.Tenant == nil || o.Deleted() {
		return nil
	}
	switch i := o.Tenant.Settings.Isolation; i {
	case "", script.IsolationShared, script.IsolationProcess:
		return nil
	default:
		return script.Errorf(script.Invalid, "isolation", "%.80q is not known to this agent's software: upgrade it", string(i))
	}
}

// sums are the checksums of the kinds that the registry knows, and that are followed.
// A registry of another age may know fewer.
type sums map[script.ObjectKind]wire.Sum

// sumsOf reads checksums.
func sumsOf(checksums []*eventv1.Checksum) (sums, error) {
	read := make(sums, len(kinds))
	for _, c := range checksums {
		kind := script.ObjectKind(c.GetKind())
		if _, twice := read[kind]; twice || !slices.Contains(kinds, kind) {
			continue
		}
		sum, err := wire.ToSum(c.GetSum())
		if err != nil {
			return nil, &refusal{reason: refusedMalformed, err: err}
		}
		read[kind] = sum
	}
	return read, nil
}

// knows reports whether the registry knows objects of the kind. Releases are what
// every registry has.
func (s sums) knows(kind script.ObjectKind) bool {
	_, ok := s[kind]
	return ok || kind == script.Releases
}
