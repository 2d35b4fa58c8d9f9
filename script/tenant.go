package script

import (
	"cmp"
	"time"
)

// Tenant is what holds for all scripts of one tenant.
type Tenant struct {
	Name      string
	Revision  Revision // of the change that made the settings what they are
	Settings  TenantSettings
	Deleted   bool // the settings were taken away: the defaults hold
	Author    string
	ChangedAt time.Time
}

// Isolation says how the calls of a tenant are kept from those of others.
type Isolation string

// The isolations.
const (
	// IsolationShared runs calls in the agent's process, in states of their own.
	IsolationShared Isolation = "shared"
	// IsolationProcess runs them in a process that the tenant has to itself.
	IsolationProcess Isolation = "process"
)

// TenantSettings bound what a tenant may use on each agent, all its scripts
// together, and in the registry. A zero field means its default.
type TenantSettings struct {
	Isolation Isolation
	// Limits are what each script's limits are at most; zero fields bound nothing.
	Limits      Limits
	Concurrency int   // calls that run at once
	CPU         int   // thousandths of a core, on average; 0 means no bound but the others' share
	LogBytes    int   // bytes a second that all scripts together may log
	MemoryBytes int64 // of the tenant's process, or that its calls in a shared one make together
	ValueBytes  int64 // that all of the tenant's values may have together
	// Decisions hold for scripts that say nothing of them; the masks hold for all. Nil records no calls.
	Decisions *Decisions
	Audit     Audit

	// These bound what the registry stores. Agents do not need them.
	Scripts     int   // that the tenant may have
	SourceBytes int64 // that the sources of all retained versions may have together
	Writes      int   // changes a second, on average
	WriteBytes  int   // bytes of sources and values a second, on average
}

// DefaultTenantSettings are those of a tenant that sets none.
func DefaultTenantSettings() TenantSettings {
	return TenantSettings{
		Isolation:   IsolationShared,
		Concurrency: 64,
		LogBytes:    64 << 10,
		MemoryBytes: 256 << 20,
		ValueBytes:  16 << 20,
		Scripts:     20_000,
		SourceBytes: 512 << 20,
		Writes:      100,
		WriteBytes:  1 << 20,
	}
}

// MaxTenantSettings are the highest that a tenant may be given.
func MaxTenantSettings() TenantSettings {
	return TenantSettings{
		Limits:      MaxLimits(),
		Concurrency: 1024,
		CPU:         1_000_000,
		LogBytes:    16 << 20,
		MemoryBytes: 64 << 30,
		ValueBytes:  256 << 20,
		Scripts:     1_000_000,
		SourceBytes: 64 << 30,
		Writes:      100_000,
		WriteBytes:  1 << 30,
	}
}

// minMemoryBytes is what a process needs before it can run anything.
const minMemoryBytes = 64 << 20

// Audit says what becomes of a call whose record cannot be kept.
type Audit string

// AuditStrict records all calls, and fails those whose record the agent's disk does not accept. The
// zero Audit lets them pass.
const AuditStrict Audit = "strict"

// FieldAudit is the field of the Unavailable error of a call whose record a strict audit did not keep.
const FieldAudit = "audit"

// Unrecorded reports whether err is that error.
func Unrecorded(err error) bool {
	return KindOf(err) == Unavailable && AsError(err).Field == FieldAudit
}

// Equal reports whether both say the same.
func (s TenantSettings) Equal(t TenantSettings) bool {
	same := s.Decisions.Equal(t.Decisions)
	s.Decisions, t.Decisions = nil, nil
	return same && s == t
}

// OrDefaults returns s with each zero field set to its default.
func (s TenantSettings) OrDefaults() TenantSettings {
	d := DefaultTenantSettings()
	s.Isolation = cmp.Or(s.Isolation, d.Isolation)
	s.Concurrency = cmp.Or(s.Concurrency, d.Concurrency)
	s.LogBytes = cmp.Or(s.LogBytes, d.LogBytes)
	s.MemoryBytes = cmp.Or(s.MemoryBytes, d.MemoryBytes)
	s.ValueBytes = cmp.Or(s.ValueBytes, d.ValueBytes)
	s.Scripts = cmp.Or(s.Scripts, d.Scripts)
	s.SourceBytes = cmp.Or(s.SourceBytes, d.SourceBytes)
	s.Writes = cmp.Or(s.Writes, d.Writes)
	s.WriteBytes = cmp.Or(s.WriteBytes, d.WriteBytes)
	return s
}

// Validate returns an Invalid error that names the first field that is out of
// bounds; field is the path of s itself, such as "spec".
func (s TenantSettings) Validate(field string) error {
	switch s.Isolation {
	case "", IsolationShared, IsolationProcess:
	default:
		return Errorf(Invalid, field+".isolation", "%s is no isolation: want %s or %s", quote(string(s.Isolation)), IsolationShared, IsolationProcess)
	}
	if err := s.Limits.Validate(field + ".limits"); err != nil {
		return err
	}
	if s.Audit != "" && s.Audit != AuditStrict {
		return Errorf(Invalid, field+".audit", "%s is no audit: want %s, or leave it out for none", quote(string(s.Audit)), AuditStrict)
	}
	if err := s.Decisions.Validate(field + ".log.decisions"); err != nil {
		return err
	}
	m := MaxTenantSettings()
	for _, bound := range []struct {
		name     string
		got, max int64
	}{
		{"concurrency", int64(s.Concurrency), int64(m.Concurrency)},
		{"cpu", int64(s.CPU), int64(m.CPU)},
		{"logBytes", int64(s.LogBytes), int64(m.LogBytes)},
		{"memoryBytes", s.MemoryBytes, m.MemoryBytes},
		{"valueBytes", s.ValueBytes, m.ValueBytes},
		{"scripts", int64(s.Scripts), int64(m.Scripts)},
		{"sourceBytes", s.SourceBytes, m.SourceBytes},
		{"writes", int64(s.Writes), int64(m.Writes)},
		{"writeBytes", int64(s.WriteBytes), int64(m.WriteBytes)},
	} {
		if bound.got < 0 || bound.got > bound.max {
			return Errorf(Invalid, field+"."+bound.name, "%d is not between 0 and the maximum, %d", bound.got, bound.max)
		}
	}
	if s.MemoryBytes != 0 && s.MemoryBytes < minMemoryBytes {
		return Errorf(Invalid, field+".memoryBytes", "%d is less than a process needs, %d", s.MemoryBytes, minMemoryBytes)
	}
	return nil
}
