package script

import (
	"slices"
	"strings"
	"time"
)

// ChangeSet is the record of several versions of scripts, and contents of values, of one tenant that
// were published together. They are one candidate, with one plan, one verdict and one rollback, and go
// live in one transaction.
type ChangeSet struct {
	Tenant, Name string
	Revision     Revision // of the change that made the record what it is

	// Attempt is another, greater number each time that the change set begins anew: the revision
	// that its first transaction could have had at least.
	Attempt uint64
	State   ChangeSetState
	Reason  string // why it was given up, or rolled back
	Plan    Plan
	Scripts []ChangedScript // in order of their names
	Values  []ChangedValue  // in order of their keys

	Author, Note         string
	CreatedAt, ChangedAt time.Time
	// Fingerprint is the digest of what was requested: a request that is repeated changes nothing.
	Fingerprint Digest
}

// ChangeSetState is where a change set is on its way.
type ChangeSetState string

// The states of a change set.
const (
	ChangeSetOnTrial    ChangeSetState = "OnTrial"
	ChangeSetLive       ChangeSetState = "Live"
	ChangeSetFailed     ChangeSetState = "Failed"     // it was given up: what was active before runs everywhere
	ChangeSetRolledBack ChangeSetState = "RolledBack" // after it had been live
)

// ChangedScript is a version of a script in a change set.
type ChangedScript struct {
	Name    string // without the tenant
	Version uint64
	Digest  Digest
	// Before is the version that was active; 0 for a script that was new.
	Before uint64
}

// ChangedValue is the content of a value in a change set.
type ChangedValue struct {
	StagedValue
	// Before is the version that the value had when the change set went live; 0 for none.
	// Version is the one that it has since.
	Before, Version uint64
}

// StagedValue is the content that a value will have when its change set goes live. Calls of the
// candidates of the change set read it already.
type StagedValue struct {
	Key    string
	Digest Digest
	Size   int
}

// Bounds of a change set. Together they keep it within one transaction of etcd, with its default
// limits.
const (
	MaxChangeSetScripts = 10
	MaxChangeSetValues  = 20
	MaxChangeSetBytes   = 1 << 20 // of all sources, settings and contents
	MaxChangeSets       = 100     // of a tenant: the oldest ones that are over make room
)

// FullName returns "tenant/name".
func (s *ChangeSet) FullName() string { return s.Tenant + "/" + s.Name }

// ScriptNames returns the full names of the scripts.
func (s *ChangeSet) ScriptNames() []Name {
	names := make([]Name, len(s.Scripts))
	for i, c := range s.Scripts {
		names[i] = Name{Tenant: s.Tenant, Script: c.Name}
	}
	return names
}

// Has reports whether the candidate, which may be nil, is part of this attempt of the change set.
func (s *ChangeSet) Has(c *Candidate) bool {
	return c.Is(&Membership{Name: s.Name, Attempt: s.Attempt})
}

// Membership says that a candidate is part of a change set.
type Membership struct {
	Name    string   // of the change set; the tenant is the script's
	Attempt uint64   // as in ChangeSet
	Scripts []string // the names of all its scripts, without the tenant, in order
	Plan    Plan     // of all scripts, in place of their own plans
	Values  []StagedValue
}

// String is "change set cart-2".
func (m *Membership) String() string { return "change set " + m.Name }

// Is reports whether the candidate, which may be nil, is part of that attempt of the change set.
func (c *Candidate) Is(m *Membership) bool {
	return c != nil && c.Set != nil && c.Set.Name == m.Name && c.Set.Attempt == m.Attempt
}

// Same reports whether both are part of the same attempt of the same change set, with the same
// staged values; nil is part of none.
func (m *Membership) Same(o *Membership) bool {
	if m == nil || o == nil {
		return m == o
	}
	return m.Name == o.Name && m.Attempt == o.Attempt && slices.Equal(m.Values, o.Values)
}

// Staged returns what a call of the candidate reads in place of the value with the key.
func (m *Membership) Staged(key string) (StagedValue, bool) {
	if m == nil {
		return StagedValue{}, false
	}
	i, ok := slices.BinarySearchFunc(m.Values, key, func(v StagedValue, key string) int { return strings.Compare(v.Key, key) })
	if !ok {
		return StagedValue{}, false
	}
	return m.Values[i], true
}

// Plan returns the plan that applies to the candidate: the plan of its change set, or of the release if
// it is part of none.
func (r *Release) Plan() *Plan {
	if c := r.Candidate; c != nil && c.Set != nil {
		return &c.Set.Plan
	}
	return &r.Settings.Rollout
}

// Stages reports whether the release needs the content with the digest for nothing but the values
// that are staged for its candidate.
func (r *Release) Stages(d Digest) bool {
	c := r.Candidate
	if c == nil || c.Set == nil || d == r.Active.Digest || d == c.Version.Digest {
		return false
	}
	return slices.ContainsFunc(c.Set.Values, func(v StagedValue) bool { return v.Digest == d })
}

// BucketName returns the name by which Bucket places agents for the candidate of the script. All
// scripts of a change set have the same, so that the same agents run them.
func (c *Candidate) BucketName(name Name) Name {
	if c != nil && c.Set != nil {
		return Name{Tenant: name.Tenant, Script: c.Set.Name}
	}
	return name
}

// Validate returns an Invalid error for a membership that a registry cannot have written.
func (m *Membership) Validate() error {
	if err := ValidateLabel("change_set", m.Name); err != nil {
		return err
	}
	if len(m.Scripts) > MaxChangeSetScripts || len(m.Values) > MaxChangeSetValues {
		return Errorf(Invalid, "change_set", "%s has %d scripts and %d values: at most %d and %d are allowed", m.Name, len(m.Scripts), len(m.Values), MaxChangeSetScripts, MaxChangeSetValues)
	}
	for i, name := range m.Scripts {
		if err := ValidateLabel("change_set", name); err != nil {
			return err
		}
		if i > 0 && m.Scripts[i-1] >= name {
			return Errorf(Invalid, "change_set", "the script %s of %s is there twice, or is not in order", name, m.Name)
		}
	}
	for i, v := range m.Values {
		if err := (ValueKey{Tenant: m.Name, Key: v.Key}).Validate(); err != nil { // the tenant is not known here: any label will do
			return err
		}
		if v.Digest.IsZero() || v.Size < 0 || v.Size > MaxValueBytes || i > 0 && m.Values[i-1].Key >= v.Key {
			return Errorf(Invalid, "change_set", "the value %s of %s has no digest, an impossible size, or is not in order", quote(v.Key), m.Name)
		}
	}
	return nil
}
