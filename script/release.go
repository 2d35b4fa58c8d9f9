package script

import (
	"encoding/json"
	"time"
)

// Revision is the registry-wide, strictly increasing number of a change to any
// release: etcd's mod revision. 0 is before the first change.
type Revision int64

// Absent is the expected revision of a write that only creates: there must be no such object.
const Absent Revision = -1

// Version is an immutable, numbered edition of a script. Numbers start at 1 and
// are never used again, not even after the script was deleted.
type Version struct {
	Number     uint64
	Digest     Digest
	Engine     string // "lua"
	Entrypoint string // the function that is called; "" means that the chunk itself is the program
	Size       int    // bytes of source
	Author     string
	Note       string
	CreatedAt  time.Time
	// Signature is the publisher's, which agents may require: a DSSE envelope as JSON; ""
	// if there is none. Package proto/publisher makes and verifies it.
	Signature string
	// Spec is the digest of what the version runs with: Spec.Digest. It is zero for versions
	// from before registries recorded it.
	Spec     Digest
	SpecSize int // bytes of its document
	// Inputs is the digest of the Spec's Inputs: what is compiled beside the source; zero for nothing.
	Inputs Digest
}

// With returns v as the version that runs with s.
func (v Version) With(s Spec) Version {
	document := s.Document()
	v.Spec, v.SpecSize, v.Inputs = DigestOf(document), len(document), s.Inputs().Digest()
	return v
}

// MaxSignatureBytes is the size of the largest Version.Signature.
const MaxSignatureBytes = 4 << 10

// SameProgram reports whether v and w run the same code: equal source, engine,
// entrypoint, libraries and options of the engine.
func (v Version) SameProgram(w Version) bool {
	return v.Digest == w.Digest && v.Engine == w.Engine && v.Entrypoint == w.Entrypoint && v.Inputs == w.Inputs
}

// SameVersion reports whether v and w are of the same content: the same program with the
// same Spec.
func (v Version) SameVersion(w Version) bool { return v.SameProgram(w) && v.Spec == w.Spec }

// Whole returns the digest of all of the version's content: the digests of the source and of
// the Spec, the engine and the entrypoint. It is zero if the digest of the Spec is not known.
func (v Version) Whole() Digest {
	if v.Spec.IsZero() {
		return Digest{}
	}
	text, err := json.Marshal([]string{v.Digest.String(), v.Engine, v.Entrypoint, v.Spec.String()})
	if err != nil {
		return Digest{} // texts do not fail
	}
	return DigestOf(text)
}

// Release is what a script is now. Each change of it gets a Revision.
type Release struct {
	Name     Name
	Revision Revision // of the change that made this release what it is

	Active  Version // what runs; the zero Version when Deleted
	Latest  uint64  // the highest number ever given; survives deletion
	Pinned  bool    // Active was chosen and does not follow Latest; a held release is pinned
	Enabled bool    // a disabled script answers Disabled
	Deleted bool    // a tombstone: the script is gone

	// Candidate is a version on its way to being active; nil if there is none.
	Candidate *Candidate

	// Hold keeps Active what it is, whatever is published; nil if nobody holds the script.
	// A held release has no candidate.
	Hold *Hold

	// Retained holds the versions that can still be run or pinned, in order of
	// their numbers, Active and the candidate among them. Empty when Deleted.
	Retained []Version

	Settings  Settings
	ChangedAt time.Time // when the change was committed, by the registry's clock

	// Owner alone changes the script, unless forced; "" means everyone who may.
	Owner string
}

// Retains returns the retained version with the number.
func (r *Release) Retains(number uint64) (Version, bool) {
	for _, v := range r.Retained {
		if v.Number == number {
			return v, true
		}
	}
	return Version{}, false
}

// Settings are what the owner of a script sets as a whole: the Spec, which belongs to a
// version, and what stays with the release.
type Settings struct {
	// Spec of a release is that of the active version.
	Spec
	// Rollout is how a new version comes to the agents.
	Rollout Plan
	// HistoryLimit is how many versions are retained; 0 means DefaultHistoryLimit.
	HistoryLimit int
}

// Bounds of a script's history.
const (
	DefaultHistoryLimit = 10
	MaxHistoryLimit     = 50
)

// Change says what was done to a release, in its history.
type Change string

// The changes.
const (
	ChangePublish   Change = "publish"
	ChangePin       Change = "pin"
	ChangeUnpin     Change = "unpin" // by a publish
	ChangeRollback  Change = "rollback"
	ChangeHold      Change = "hold"
	ChangeRelease   Change = "release" // of a hold
	ChangeEnable    Change = "enable"
	ChangeDisable   Change = "disable"
	ChangeConfigure Change = "configure"
	ChangeDelete    Change = "delete"
	ChangeOwn       Change = "own"
	ChangeImport    Change = "import"
	ChangeRepair    Change = "repair" // of a record that could not be read
	ChangeSign      Change = "sign"   // the newest version has another signature of its publisher

	ChangeAdvance Change = "advance" // of a candidate, by a step of its plan
	ChangePromote Change = "promote" // a candidate is the active version now
	ChangeAbort   Change = "abort"   // a candidate is given up
	ChangeRetry   Change = "retry"   // a candidate is tried again
	ChangeApprove Change = "approve" // a candidate may go on after its step

	ChangePut       Change = "put"       // of a value
	ChangeRemove    Change = "remove"    // of a value
	ChangeSetTenant Change = "settenant" // of a tenant's settings

	ChangeAcceptLoss Change = "acceptloss" // of objects whose records are lost

	ChangeFreeze Change = "freeze" // of the registry: what runs stays as it is
	ChangeThaw   Change = "thaw"   // the freeze is over

	ChangeProfile Change = "profile" // no change: somebody took a profile of an agent's process
	ChangeTry     Change = "try"     // no change: somebody ran a script that is not published on an agent
)

// HistoryEntry is one line of a script's history.
type HistoryEntry struct {
	Revision Revision
	Change   Change
	Version  uint64 // the version active after the change; 0 after a delete
	Digest   Digest // of that version
	Spec     Digest // of what that version runs with; zero if it is not known
	Pinned   bool   // after the change
	Held     bool   // after the change
	// Candidate is the version that is on its way to being active after the change, or
	// was given up on the way; 0 if there is none.
	Candidate uint64
	Author    string
	Note      string
	Time      time.Time
	ChangeSet string // that the change is part of; "" if there is none
}

// AuditEntry is one write, in the registry's audit trail.
type AuditEntry struct {
	Revision Revision
	Time     time.Time
	Name     Name
	Change   Change
	Version  uint64 // the version active after the change; 0 after a delete
	Digest   Digest // of that version
	// Candidate is the version that is on its way to being active after the change, or
	// was given up on the way, and CandidateDigest is its digest; 0 if there is none.
	Candidate       uint64
	CandidateDigest Digest

	Author   string // who said to ask for it
	Identity string // who the registry found to ask for it
	Peer     string // where the request came from: an address, or "unix"
	Owner    string // of the script, after the change
	Forced   bool   // it went past the script's owner
	Note     string
	// Key of the value that was written, in a tenant's own data; Name has no script
	// then, and for a tenant's settings.
	Key       string
	ChangeSet string // that the write is part of; "" if there is none
}
