package registry

import "github.com/scriptorium-dev/scriptorium/script"

// DataUsage is what there is of a value, and what bounds it, as of one moment.
type DataUsage struct {
	Value  script.Value  // a tombstone included; revision 0: there is none
	Usage  Usage         // of all of the tenant's values
	Tenant script.Tenant // a tombstone included; revision 0: nothing was set
	// History of the value. If its record cannot be read, it is what it was before, or has no
	// lines.
	History script.ValueHistory
	// UnreadableValue and UnreadableTenant, if not nil, say that the record cannot be read.
	// Value or Tenant then is what it was before, or zero where that is not known, with the
	// revision of the record.
	UnreadableValue, UnreadableTenant *Unreadable
	// Freeze is the registry's, as Store.Freeze returns it.
	Freeze script.Freeze
}

// Usage is how much a tenant's values take.
type Usage struct {
	Bytes  int64 // of all contents together
	Values int   // live ones
	// Older adds up ValueHistory.OlderBytes of all of them; -1 if that is not known.
	Older int64
	// Mark is the store's own of the last change: a commit checks that there was none
	// since. It is not a revision of an object.
	Mark int64
}

// ValueCommit is one change of one value.
type ValueCommit struct {
	// Guard is the revision that the value must still have; 0: it must not exist.
	Guard script.Revision
	// Value is what it becomes. Its Revision is ignored: the commit gives it.
	Value   script.Value
	Content []byte // unless Value is a tombstone
	Before  uint64 // the version that the value had; 0 for none
	// History is what the value's becomes: the revision of its newest line, which is that of the
	// change, is 0. A registry that knows no histories leaves the record as it is: nil.
	History *script.ValueHistory
	// Usage is what the tenant's values take then, with the mark of what was read.
	Usage Usage
	// FreezeGuard as in Commit.
	FreezeGuard script.Revision
	Audit       script.AuditEntry // its Revision is ignored
}
