package registry

import (
	"fmt"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Unreadable is an object whose record the store has and cannot decode: somebody wrote to
// the store past the registry, or with other software. Nobody can tell what the object is
// now, so what it was before stays live. It is an error, too.
type Unreadable struct {
	Key      string          // as script.Object.Key has it
	Revision script.Revision // of the record
	Reason   string
	// Last is the object as it was before the record, if the store still knows; else nil.
	Last *script.Object
}

func (u *Unreadable) Error() string {
	return fmt.Sprintf("the record of %s cannot be read (revision %d): %s", u.Key, u.Revision, u.Reason)
}

// Kind returns the kind of the object.
func (u *Unreadable) Kind() script.ObjectKind {
	kind, _, _ := strings.Cut(u.Key, "/")
	return script.ObjectKind(kind)
}

// TenantName returns the tenant that the object belongs to.
func (u *Unreadable) TenantName() string {
	_, name, _ := strings.Cut(u.Key, "/")
	tenant, _, _ := strings.Cut(name, "/")
	return tenant
}

// Script returns the name of the script; ok is false if the object is none, or if its key
// is no name that a script can have.
func (u *Unreadable) Script() (name script.Name, ok bool) {
	text, ok := strings.CutPrefix(u.Key, string(script.Releases)+"/")
	if !ok {
		return script.Name{}, false
	}
	name, err := script.ParseName(text)
	return name, err == nil
}
