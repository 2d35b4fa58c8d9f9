package wire

import (
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ReleaseKey is the key of the script's release among all objects.
func ReleaseKey(name script.Name) string {
	return string(script.Releases) + "/" + name.Tenant + "/" + name.Script
}

// FromObject returns the message that carries o to agents.
func FromObject(o script.Object) *eventv1.Object {
	m := &eventv1.Object{Key: o.Key(), Revision: int64(o.Revision())}
	switch {
	case o.Release != nil:
		m.Kind = &eventv1.Object_Release{Release: FromRelease(*o.Release)}
	case o.Value != nil:
		value := FromValue(*o.Value)
		value.Version = 0 // agents run the content, whatever its number
		m.Kind = &eventv1.Object_Value{Value: value}
	case o.Tenant != nil:
		m.Kind = &eventv1.Object_Tenant{Tenant: FromTenant(*o.Tenant)}
	}
	return m
}

// ToObject returns the object that m carries. ok is false for one of a kind that is
// not known. Key and revision must agree with what is carried.
func ToObject(m *eventv1.Object) (o script.Object, ok bool, err error) {
	switch kind := m.GetKind().(type) {
	case *eventv1.Object_Release:
		r, err := ToRelease(kind.Release)
		if err != nil {
			return script.Object{}, true, err
		}
		o.Release = &r
	case *eventv1.Object_Value:
		v, err := ToValue(kind.Value)
		if err != nil {
			return script.Object{}, true, err
		}
		o.Value = &v
	case *eventv1.Object_Tenant:
		t, err := ToTenant(kind.Tenant)
		if err != nil {
			return script.Object{}, true, err
		}
		o.Tenant = &t
	default:
		return script.Object{}, false, nil
	}
	if m.GetKey() != o.Key() || m.GetRevision() != int64(o.Revision()) {
		return script.Object{}, true, script.Errorf(script.Invalid, "object",
			"%.200q at %d carries %s at %d", m.GetKey(), m.GetRevision(), o.Key(), o.Revision())
	}
	return o, true, nil
}

// FromReleaseObject returns the object that carries r.
func FromReleaseObject(r script.Release) *eventv1.Object {
	return FromObject(script.Object{Release: &r})
}

// ToReleaseObject is ToObject for releases alone: ok is false for an object of
// another kind.
func ToReleaseObject(m *eventv1.Object) (r script.Release, ok bool, err error) {
	if m.GetRelease() == nil {
		return script.Release{}, false, nil
	}
	o, _, err := ToObject(m)
	if err != nil {
		return script.Release{}, true, err
	}
	return *o.Release, true, nil
}
