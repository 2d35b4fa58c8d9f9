package script

import "time"

// Object is what the registry keeps and agents follow: a release, a value or a
// tenant's settings. Exactly one field is set. Whoever gets an Object does not
// change what it points to.
type Object struct {
	Release *Release
	Value   *Value
	Tenant  *Tenant
}

// ObjectKind is the first part of an object's key.
type ObjectKind string

// The kinds of objects.
const (
	Releases ObjectKind = "releases"
	Values   ObjectKind = "values"
	Tenants  ObjectKind = "tenants"
)

// Kind returns which field is set.
func (o Object) Kind() ObjectKind {
	switch {
	case o.Release != nil:
		return Releases
	case o.Value != nil:
		return Values
	}
	return Tenants
}

// Key names the object among all: "releases/<tenant>/<name>",
// "values/<tenant>/<key>" or "tenants/<tenant>".
func (o Object) Key() string {
	switch {
	case o.Release != nil:
		return string(Releases) + "/" + o.Release.Name.String()
	case o.Value != nil:
		return string(Values) + "/" + o.Value.Key.String()
	}
	return string(Tenants) + "/" + o.Tenant.Name
}

// TenantName returns the tenant that the object belongs to.
func (o Object) TenantName() string {
	switch {
	case o.Release != nil:
		return o.Release.Name.Tenant
	case o.Value != nil:
		return o.Value.Key.Tenant
	}
	return o.Tenant.Name
}

// Revision of the change that made the object what it is.
func (o Object) Revision() Revision {
	switch {
	case o.Release != nil:
		return o.Release.Revision
	case o.Value != nil:
		return o.Value.Revision
	}
	return o.Tenant.Revision
}

// ChangedAt is when the change that made the object what it is was committed, by the
// registry's clock.
func (o Object) ChangedAt() time.Time {
	switch {
	case o.Release != nil:
		return o.Release.ChangedAt
	case o.Value != nil:
		return o.Value.ChangedAt
	}
	return o.Tenant.ChangedAt
}

// Deleted reports whether the object is a tombstone.
func (o Object) Deleted() bool {
	switch {
	case o.Release != nil:
		return o.Release.Deleted
	case o.Value != nil:
		return o.Value.Deleted
	}
	return o.Tenant.Deleted
}

// Content returns the digest and the size of what an agent needs to make the object
// live: the source of a release's active version, or a value's content. ok is
// false if it needs nothing.
func (o Object) Content() (d Digest, size int, ok bool) {
	switch {
	case o.Deleted():
	case o.Release != nil:
		return o.Release.Active.Digest, o.Release.Active.Size, true
	case o.Value != nil:
		return o.Value.Digest, o.Value.Size, true
	}
	return Digest{}, 0, false
}

// Retained yields the digests of all that must be kept for the object: the sources of
// each retained version, or a value's content.
func (o Object) Retained(yield func(Digest) bool) {
	switch {
	case o.Deleted():
	case o.Release != nil:
		for _, v := range o.Release.Retained {
			if !yield(v.Digest) {
				return
			}
		}
	case o.Value != nil:
		yield(o.Value.Digest)
	}
}
