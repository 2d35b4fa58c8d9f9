package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Item is a part of an archive: exactly one of its fields is set.
type Item struct {
	Header *Header
	Record *Record
	Source *Source
	Value  *ValueRecord
	Tenant *script.Tenant
	// Unreadable is left out of an export, since its record cannot be read.
	Unreadable *Unreadable
}

// ValueRecord is a value with its content.
type ValueRecord struct {
	Value   script.Value
	Content []byte
}

// Header says where an archive comes from. It comes first.
type Header struct {
	Fleet      string
	Head       script.Revision // all that follows is as of then
	ExportedAt time.Time
	Tenant     string // "" for all
}

// Record is all there is of one script, but for its sources: those that it is the
// first to need come before it.
type Record struct {
	Release  script.Release // of a deleted script the tombstone
	Versions []script.Version
	History  []script.HistoryEntry // newest first

	recorded *script.Spec // of all versions, if the archive is of an older registry
}

// maxAttributionBytes bounds an author in an archive, which may name an identity too.
const maxAttributionBytes = 512

// maxRecordVersions is how many versions a release can retain: those of its history
// limit, and the active one, the candidate and the newest.
const maxRecordVersions = script.MaxHistoryLimit + 3

// validate refuses a record that no registry can have written, and brings its
// settings into their one form. The engines are not asked.
func (rec *Record) validate() error {
	r := &rec.Release
	if err := r.Name.Validate(); err != nil {
		return err
	}
	if err := validateText("release.owner", r.Owner, MaxOwnerBytes); err != nil {
		return rec.blame(err)
	}
	if r.Latest == 0 {
		return rec.refuse("release.latest", "it has had no version")
	}
	if err := rec.validateHistory(); err != nil {
		return rec.blame(err)
	}
	if r.Deleted {
		if len(rec.Versions) > 0 || len(r.Retained) > 0 || r.Active != (script.Version{}) || r.Candidate != nil {
			return rec.refuse("release.deleted", "it was deleted, and yet has versions")
		}
		return nil
	}
	settings, err := normalizeSettings(r.Settings, r.Name)
	if err != nil {
		return rec.blame(err)
	}
	r.Settings = settings
	if r.Candidate != nil {
		spec, err := normalizeSpec(r.Candidate.Spec)
		if err != nil {
			return rec.blame(err)
		}
		c := *r.Candidate
		c.Spec, r.Candidate = spec, &c
		if c.Frozen != "" { // nobody knows whether the freeze is over
			*r = givenUp(*r, fmt.Sprintf("it was exported while the registry was frozen %s: scriptctl rollout retry %s", c.Frozen, r.Name), c.Since)
		}
		if c.Set != nil { // the archive does not have the rest of it
			if c.Failed == "" {
				*r = givenUp(*r, fmt.Sprintf("it was part of the %s when it was exported: publish that again", c.Set), c.Since)
			}
			r.Candidate.Set = nil
		}
	}
	if err := rec.validateHold(); err != nil {
		return rec.blame(err)
	}
	rec.record()
	return rec.blame(rec.validateVersions())
}

// record has a record of an older registry say what its versions run with.
func (rec *Record) record() {
	next, spec := recorded(rec.Release)
	if spec == nil {
		return
	}
	rec.Release, rec.recorded = next, spec
	rec.Versions = slices.Clone(rec.Versions)
	for i := range rec.Versions {
		if v, ok := next.Retains(rec.Versions[i].Number); ok {
			rec.Versions[i].Spec, rec.Versions[i].SpecSize = v.Spec, v.SpecSize
		}
	}
}

func (rec *Record) validateVersions() error {
	r := &rec.Release
	if len(rec.Versions) == 0 || len(rec.Versions) > maxRecordVersions || len(rec.Versions) != len(r.Retained) {
		return script.Errorf(script.Invalid, "versions", "there are %d, and the release retains %d", len(rec.Versions), len(r.Retained))
	}
	last := uint64(0)
	for i, v := range rec.Versions {
		if v.Number <= last || v.Number > r.Latest {
			return script.Errorf(script.Invalid, "versions", "number %d is out of order: the latest is %d", v.Number, r.Latest)
		}
		last = v.Number
		if !sameVersion(inRelease(v), r.Retained[i]) || v.Spec != r.Retained[i].Spec {
			return script.Errorf(script.Invalid, "versions", "number %d is not as the release says", v.Number)
		}
		if err := validateVersion(v); err != nil {
			return err
		}
	}
	active, ok := r.Retains(r.Active.Number)
	if !ok || !sameVersion(active, r.Active) {
		return script.Errorf(script.Invalid, "release.active", "number %d is not among the retained versions", r.Active.Number)
	}
	if active.With(r.Settings.Spec) != active {
		return script.Errorf(script.Invalid, "release.settings", "are not those of version %d", r.Active.Number)
	}
	if err := rec.validateCandidate(); err != nil {
		return err
	}
	if !r.Pinned && r.Active.Number != last && candidateOf(*r) != last {
		return script.Errorf(script.Invalid, "release.active", "number %d is active, though it is not pinned and %d is newer", r.Active.Number, last)
	}
	return nil
}

func (rec *Record) validateCandidate() error {
	c := rec.Release.Candidate
	if c == nil {
		return nil
	}
	v, ok := rec.Release.Retains(c.Version.Number)
	if !ok || !sameVersion(v, c.Version) {
		return script.Errorf(script.Invalid, "release.candidate", "number %d is not among the retained versions", c.Version.Number)
	}
	if v.With(c.Spec) != v {
		return script.Errorf(script.Invalid, "release.candidate.settings", "are not those of version %d", v.Number)
	}
	return validateText("release.candidate.failed", c.Failed, script.MaxFailedBytes)
}

func (rec *Record) validateHold() error {
	r := &rec.Release
	h := r.Hold
	if h == nil {
		return nil
	}
	if _, ok := r.Retains(h.Declared); !ok && h.Declared != 0 {
		return script.Errorf(script.Invalid, "release.hold.declared", "number %d is not among the retained versions", h.Declared)
	}
	if !r.Pinned || r.Candidate != nil {
		return script.Errorf(script.Invalid, "release.hold", "a script that is held is pinned, and has no candidate")
	}
	if err := validateText("release.hold.author", h.Author, maxAttributionBytes); err != nil {
		return err
	}
	if err := validateText("release.hold.owner", h.Owner, MaxOwnerBytes); err != nil {
		return err
	}
	if err := validateTime("release.hold.since", h.Since); err != nil {
		return err
	}
	return validateText("release.hold.note", h.Note, MaxNoteBytes)
}

func validateVersion(v script.Version) error {
	if v.Digest.IsZero() || v.Size < 1 || v.Size > script.MaxArtifactBytes {
		return script.Errorf(script.Invalid, "versions", "number %d has no digest, or the impossible size %d", v.Number, v.Size)
	}
	if err := script.CheckEntrypoint(v.Engine, v.Entrypoint); err != nil {
		return err
	}
	if err := validateTime("versions.createdAt", v.CreatedAt); err != nil {
		return err
	}
	if err := validateText("versions.signature", v.Signature, script.MaxSignatureBytes); err != nil {
		return err
	}
	if err := validateText("versions.author", v.Author, maxAttributionBytes); err != nil {
		return err
	}
	return validateText("versions.note", v.Note, MaxNoteBytes)
}

func (rec *Record) validateHistory() error {
	if len(rec.History) > MaxHistory {
		return script.Errorf(script.Invalid, "history", "has %d lines, at most %d are kept", len(rec.History), MaxHistory)
	}
	for _, e := range rec.History {
		if err := script.ValidateLabel("history.change", string(e.Change)); err != nil {
			return err
		}
		if err := validateTime("history.time", e.Time); err != nil {
			return err
		}
		if err := validateText("history.author", e.Author, maxAttributionBytes); err != nil {
			return err
		}
		if err := validateText("history.note", e.Note, MaxNoteBytes); err != nil {
			return err
		}
	}
	return nil
}

func (rec *Record) refuse(field, format string, args ...any) error {
	return rec.blame(script.Errorf(script.Invalid, field, format, args...))
}

// blame names the script that err is about; nil stays nil.
func (rec *Record) blame(err error) error {
	if err == nil {
		return nil
	}
	named := *script.AsError(err)
	name := rec.Release.Name.String()
	if !strings.HasPrefix(named.Message, name) {
		named.Message = name + ": " + named.Message
	}
	return &named
}

func sameVersion(a, b script.Version) bool {
	return a.Number == b.Number && a.SameProgram(b) && a.Size == b.Size && a.CreatedAt.Equal(b.CreatedAt)
}

// sameCandidate reports whether both have the same candidate, or none. How far it has
// come is no difference: it begins anew where it is imported.
func sameCandidate(cur, archived script.Release) bool {
	alone := func(r script.Release) bool { return underway(r) && r.Candidate.Set == nil }
	return candidateOf(cur) == candidateOf(archived) && (alone(cur) && !cur.Frozen()) == alone(archived)
}

func sameHold(a, b *script.Hold) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Since.Equal(b.Since) && a.Author == b.Author && a.Note == b.Note && a.Owner == b.Owner && a.Declared == b.Declared
}

// sameScript reports whether a script is as the archive has it. A version with one
// number and one time of creation is the same in all else too. That the registry has
// given more numbers since is no difference.
func sameScript(cur, archived script.Release) bool {
	if live(cur) == archived.Deleted || cur.Latest < archived.Latest {
		return false
	}
	if archived.Deleted {
		return true
	}
	if cur.Pinned != archived.Pinned || cur.Enabled != archived.Enabled || cur.Owner != archived.Owner ||
		!sameVersion(cur.Active, archived.Active) || !samePlan(cur.Settings, archived.Settings) || !cur.Settings.Equal(archived.Settings.Spec) || !sameCandidate(cur, archived) || !sameHold(cur.Hold, archived.Hold) ||
		len(cur.Retained) != len(archived.Retained) {
		return false
	}
	for i := range cur.Retained {
		if !sameVersion(cur.Retained[i], archived.Retained[i]) || cur.Retained[i].Signature != archived.Retained[i].Signature {
			return false
		}
	}
	return true
}
