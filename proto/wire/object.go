package wire

import (
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ReleaseKey is the key of the script's release among all objects.
func ReleaseKey(name script.Name) string {
	return "releases/" + name.Tenant + "/" + name.Script
}

// FromReleaseObject returns the object that carries r.
func FromReleaseObject(r script.Release) *eventv1.Object {
	return &eventv1.Object{
		Key:      ReleaseKey(r.Name),
		Revision: int64(r.Revision),
		Kind:     &eventv1.Object_Release{Release: FromRelease(r)},
	}
}

// ToReleaseObject returns the release that o carries. ok is false for an object
// of another kind. Key and revision must agree with the release.
func ToReleaseObject(o *eventv1.Object) (r script.Release, ok bool, err error) {
	m := o.GetRelease()
	if m == nil {
		return script.Release{}, false, nil
	}
	r, err = ToRelease(m)
	if err != nil {
		return script.Release{}, true, err
	}
	if o.GetKey() != ReleaseKey(r.Name) || o.GetRevision() != int64(r.Revision) {
		return script.Release{}, true, script.Errorf(script.Invalid, "object",
			"%.200q at %d carries the release of %s at %d", o.GetKey(), o.GetRevision(), r.Name, r.Revision)
	}
	return r, true, nil
}
