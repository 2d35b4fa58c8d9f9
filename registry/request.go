package registry

import (
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// DefaultEntrypoint is the function that is called unless a publish names another.
const DefaultEntrypoint = "handle"

// Write is what every request that changes a script says.
type Write struct {
	Name   script.Name
	Author string // who asks for it; required, at most MaxAuthorBytes
	Note   string // at most MaxNoteBytes
	// ExpectedRevision, if not 0, is the revision that the release must still
	// have; the write is a Conflict otherwise. With script.Absent there must be no such script, or a deleted one.
	ExpectedRevision script.Revision

	// By is who asks. The write is Denied unless it has the roles that the change
	// takes.
	By access.Identity
	// Owner is who the write acts for; "" for nobody. A script that has an owner is
	// changed by writes for that owner alone, unless Force, which takes Admin.
	// A publish for an owner gives a script that has none, or is forced, that owner.
	Owner string
	Force bool
	// RequestID, if not empty, makes the write happen once, however often it is
	// asked for within RequestMemory. 16 to 64 bytes.
	RequestID string
}

// PublishRequest asks for a version, and for settings with it.
type PublishRequest struct {
	Write
	Source     []byte           // nil if Settings have an Artifact
	Engine     string           // the registry's default if empty
	Entrypoint string           // the function that is called; "": the chunk is the program
	Settings   *script.Settings // nil keeps them
	Enabled    *bool            // nil keeps it; a new script is enabled
	Pin        *uint64          // nil keeps it, 0 follows the latest, else the version to pin
	LiftHold   bool             // else a held script stays at its active version, and Pin is for when it is lifted
	DryRun     bool             // decide and check, store nothing
	Signature  string           // of the publisher, see package publisher; "" for none. It takes Settings
}

// PublishResult is what a publish came to.
type PublishResult struct {
	Release script.Release
	Version script.Version // that holds the source, new or not
	Changed bool
	// Libraries are what the source requires.
	Libraries []script.Library
}

// Result is what any other write came to.
type Result struct {
	Release script.Release
	Changed bool
}

// PinRequest asks for a version to be active and to stay so, whatever is published.
type PinRequest struct {
	Write
	Version uint64 // 0: the active one
}

// LiftHoldRequest asks to return to what publishers declare.
type LiftHoldRequest struct {
	Write
}

// RollbackRequest asks for an older version to be active and to stay so.
type RollbackRequest struct {
	Write
	// 0: the active one if there is a candidate, or if a rollback has taken the script back and it is
	// held there; else the last before it that was live.
	Version uint64
}

// SetEnabledRequest asks for a script to be enabled or disabled.
type SetEnabledRequest struct {
	Write
	Enabled bool
}

// DeleteRequest asks for a script to be removed.
type DeleteRequest struct {
	Write
}

// SetOwnerRequest asks for a script to get an owner, another one or none.
type SetOwnerRequest struct {
	Write
	NewOwner string // none if empty
}

// ListRequest asks for a page of the releases that By may read.
type ListRequest struct {
	By       access.Identity
	Tenant   string // all tenants if empty
	PageSize int    // 0: DefaultPageSize; more than MaxPageSize: MaxPageSize
	// PageToken is the ListResult.NextPageToken of the page before, or "".
	PageToken string
}

// ListResult is a page of releases, in the order of their names as text.
type ListResult struct {
	Releases      []script.Release
	Unreadable    []Unreadable // scripts whose records cannot be read, in the same order
	NextPageToken string       // "" on the last page
}

// AuditRequest asks for a page of the audit trail.
type AuditRequest struct {
	By access.Identity
	AuditFilter
	PageSize int // 0: DefaultAuditPageSize; more than MaxPageSize: MaxPageSize
	// PageToken is the AuditResult.NextPageToken of the page before, or "".
	PageToken string
}

// AuditResult is a page of the audit trail, newest first. It may have fewer entries
// than were asked for, even none, although more follow.
type AuditResult struct {
	Entries       []script.AuditEntry
	NextPageToken string // "" on the last page
}

// Sizes of pages.
const (
	DefaultPageSize      = 500
	DefaultAuditPageSize = 100
	MaxPageSize          = 1000
)
