package script

import (
	"cmp"
	"unicode/utf8"
)

// OnError is what a gateway gets about a request if the script makes no decision: it fails, is
// disabled, has no time or no turn, or its result is no decision. The zero OnError denies the
// request with the status 503.
type OnError struct {
	Policy string // PolicyOpen to let the request go on; "" to deny it
	Status int    // of the answer to a request that is denied; 0 means 503
	Body   string // of the denial; "" leaves it to the gateway
}

// The policies of an OnError, as manifests name them. In an OnError, PolicyClosed is "".
const (
	PolicyClosed = "closed"
	PolicyOpen   = "open"
)

// Bounds of an OnError. A gateway that asks first takes a status below 300 for consent.
const (
	MinOnErrorStatus    = 300
	MaxOnErrorStatus    = 599
	MaxOnErrorBodyBytes = 4 << 10
)

// statusNotModified is of an answer that has no body.
const statusNotModified = 304

// IsZero reports whether e is the default.
func (e OnError) IsZero() bool { return e == OnError{} }

// Opens reports whether the request goes on. A policy of a later edition denies it.
func (e OnError) Opens() bool { return e.Policy == PolicyOpen }

// Named returns the policy as manifests name it.
func (e OnError) Named() string { return cmp.Or(e.Policy, PolicyClosed) }

// PolicyOf returns the policy with that name in a manifest, which may be unknown.
func PolicyOf(name string) string {
	if name == PolicyClosed {
		return ""
	}
	return name
}

// Validate returns an Invalid error that names the first field that is wrong; field is the path of
// e, such as "spec.onError".
func (e OnError) Validate(field string) error {
	policy, status, body := field+".policy", field+".status", field+".body"
	const denies = "only goes with the policy " + PolicyClosed + ": remove it, since an open policy answers nothing"
	switch {
	case e.Policy != "" && !e.Opens():
		return Errorf(Invalid, policy, "is %s, want %s or %s", quote(e.Policy), PolicyClosed, PolicyOpen)
	case e.Opens() && e.Status != 0:
		return Errorf(Invalid, status, denies)
	case e.Opens() && e.Body != "":
		return Errorf(Invalid, body, denies)
	case e.Status != 0 && (e.Status < MinOnErrorStatus || e.Status > MaxOnErrorStatus):
		return Errorf(Invalid, status, "%d is not between %d and %d; leave it out for the default, 503", e.Status, MinOnErrorStatus, MaxOnErrorStatus)
	case e.Status == statusNotModified && e.Body != "":
		return Errorf(Invalid, body, "goes with no status %d, whose answers have none", e.Status)
	case len(e.Body) > MaxOnErrorBodyBytes:
		return Errorf(Invalid, body, "has %d bytes, at most %d (4 KiB) are allowed", len(e.Body), MaxOnErrorBodyBytes)
	case !utf8.ValidString(e.Body):
		return Errorf(Invalid, body, "is not valid UTF-8")
	}
	return nil
}
