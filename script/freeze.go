package script

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Freeze keeps what runs in all tenants as it is, but for what goes back. The zero Freeze
// freezes nothing.
type Freeze struct {
	Revision Revision // of the record; 0 if there never was a freeze

	Author string
	Note   string
	Since  time.Time // when the registry was frozen
	Until  time.Time // when it ends by itself; zero for never
	// Except are globs of tenants, "acme" or "team-*", and of scripts, "acme/route", that are not
	// frozen.
	Except []string
	// ChangedAt is when somebody froze the registry, froze it in another way, or ended that.
	ChangedAt time.Time
	Lifted    bool
	// Unreadable says why the record cannot be read. Nobody can tell then what is not frozen, so
	// all is.
	Unreadable string
}

// Bounds of a freeze.
const (
	MaxFreezeExceptions = 64
	MaxFreeze           = 366 * 24 * time.Hour
)

// On reports whether the registry is frozen at that time.
func (f *Freeze) On(now time.Time) bool {
	switch {
	case f.Unreadable != "":
		return true
	case f.Revision == 0 || f.Lifted:
		return false
	}
	return f.Until.IsZero() || now.Before(f.Until)
}

// Covers reports whether the script is frozen at that time.
func (f *Freeze) Covers(name Name, now time.Time) bool {
	return f.covers(now, func(tenant, script string, one bool) bool {
		return matches(tenant, name.Tenant) && (!one || matches(script, name.Script))
	})
}

// CoversTenant reports whether the tenant's values and settings are frozen at that time. An
// exception of some of its scripts is none of them.
func (f *Freeze) CoversTenant(tenant string, now time.Time) bool {
	return f.covers(now, func(of, script string, _ bool) bool {
		return matches(of, tenant) && strings.Trim(script, "*") == ""
	})
}

// covers reports whether the registry is frozen and none of the exceptions is one of it.
func (f *Freeze) covers(now time.Time, excepts func(tenant, script string, one bool) bool) bool {
	return f.Unreadable != "" || f.On(now) && !slices.ContainsFunc(f.Except, func(glob string) bool { return excepts(strings.Cut(glob, "/")) })
}

// Changed returns when the freeze last began, changed or ended, as far as that is past.
func (f *Freeze) Changed(now time.Time) time.Time {
	if !f.Lifted && !f.Until.IsZero() && !now.Before(f.Until) {
		return f.Until
	}
	return f.ChangedAt
}

// String says who froze the registry, since when, and why: "by ann since … ("incident 12")".
func (f *Freeze) String() string {
	if f.Unreadable != "" {
		return fmt.Sprintf("because the record of the freeze cannot be read (%s)", f.Unreadable)
	}
	text := who(f.Author, f.Since, f.Note)
	if !f.Until.IsZero() {
		text += " until " + f.Until.UTC().Format(clockLayout)
	}
	return text
}

// Validate returns an Invalid error for exceptions that are none.
func (f *Freeze) Validate() error {
	if len(f.Except) > MaxFreezeExceptions {
		return Errorf(Invalid, "except", "%d exceptions are too many: at most %d are allowed", len(f.Except), MaxFreezeExceptions)
	}
	for _, glob := range f.Except {
		tenant, script, one := strings.Cut(glob, "/")
		if !validGlob(tenant) || one && !validGlob(script) {
			return Errorf(Invalid, "except", "%s is neither a tenant nor a script: want TENANT or TENANT/NAME, in which * stands for any characters", quote(glob))
		}
	}
	return nil
}

// WaitsForThaw begins what a rollout says that waits for the end of a freeze.
const WaitsForThaw = "the registry is frozen "

// Thaw is the command that ends a freeze.
const Thaw = "scriptctl thaw"

// Refusal is the error for who wants what the freeze does not allow.
func (f *Freeze) Refusal(what string) *Error {
	return Errorf(Denied, FieldFreeze, "%s: "+WaitsForThaw+"%s: wait, or ask an admin of all tenants to except it (scriptctl freeze --except) or to end the freeze (%s)", what, f, Thaw)
}

// FieldFreeze is the Field of the errors of a freeze.
const FieldFreeze = "freeze"

// IsFrozen reports whether err is a Refusal of a freeze.
func IsFrozen(err error) bool {
	return KindOf(err) == Denied && AsError(err).Field == FieldFreeze
}
