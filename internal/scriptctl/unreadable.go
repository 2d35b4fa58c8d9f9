package scriptctl

import (
	"errors"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// unreadableView is an object whose record the registry cannot read.
type unreadableView struct {
	Record   string          `json:"record"` // "releases/tenant/name", "values/tenant/key" or "tenants/tenant"
	Revision script.Revision `json:"revision"`
	Reason   string          `json:"reason"`
}

func viewOfUnreadable(u *registryclient.Unreadable) *unreadableView {
	if u == nil {
		return nil
	}
	return &unreadableView{Record: u.Key, Revision: u.Revision, Reason: u.Reason}
}

// name returns what comes after the kind in the key of an object.
func nameIn(key string) string {
	_, name, _ := strings.Cut(key, "/")
	return name
}

// unread gathers what a list leaves out.
type unread struct{ list []*registryclient.Unreadable }

// take returns the error if it ends the sequence that it came from. It reports whether the
// error stands for one object, which it remembers.
func (u *unread) take(err error) (one *registryclient.Unreadable, fatal error) {
	if one, ok := errors.AsType[*registryclient.Unreadable](err); ok {
		u.list = append(u.list, one)
		return one, nil
	}
	return nil, err
}

// err returns the error of a command that left something out; nil if it did not.
func (u *unread) err() error {
	if len(u.list) == 0 {
		return nil
	}
	all := make([]error, len(u.list))
	for i, one := range u.list {
		all[i] = one
	}
	return &exitError{code: exitUnreadable, err: errors.Join(all...)}
}
