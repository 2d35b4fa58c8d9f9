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

// Content is what an object needs beside itself: the source of a version, or what a
// value holds.
type Content struct {
	Digest Digest
	Size   int // in bytes
}

// Contents are what the object needs to go live: of a release the sources of the active
// version and of the candidate, in this order and each once, and then the values that are staged
// for the candidate. They are none of a tenant's settings and of what is deleted.
func (o Object) Contents(yield func(Content) bool) {
	switch {
	case o.Deleted():
	case o.Release != nil:
		active := o.Release.Active
		if !yield(Content{active.Digest, active.Size}) {
			return
		}
		c := o.Release.Candidate
		if c == nil || c.Version.Digest != active.Digest && !yield(Content{c.Version.Digest, c.Version.Size}) || c.Set == nil {
			return
		}
		for _, v := range c.Set.Values {
			if !yield(Content{v.Digest, v.Size}) {
				return
			}
		}
	case o.Value != nil:
		yield(Content{o.Value.Digest, o.Value.Size})
	}
}

// Retained yields the digests of all that must be kept for the object: the source and the
// document of the Spec of each retained version, or a value's content.
func (o Object) Retained(yield func(Digest) bool) {
	switch {
	case o.Deleted():
	case o.Release != nil:
		for _, v := range o.Release.Retained {
			if !yield(v.Digest) || !v.Spec.IsZero() && !yield(v.Spec) {
				return
			}
		}
		if c := o.Release.Candidate; c != nil && c.Set != nil {
			for _, v := range c.Set.Values {
				if !yield(v.Digest) {
					return
				}
			}
		}
	case o.Value != nil:
		yield(o.Value.Digest)
	}
}
