package wire

import (
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromTenant returns the message for t.
func FromTenant(t script.Tenant) *scriptv1.Tenant {
	return &scriptv1.Tenant{
		Name:      t.Name,
		Revision:  int64(t.Revision),
		Settings:  FromTenantSettings(t.Settings),
		Deleted:   t.Deleted,
		Author:    t.Author,
		ChangedAt: fromTime(t.ChangedAt),
	}
}

// ToTenant reads m.
func ToTenant(m *scriptv1.Tenant) (script.Tenant, error) {
	if err := script.ValidateLabel("tenant", m.GetName()); err != nil {
		return script.Tenant{}, err
	}
	settings, err := ToTenantSettings(m.GetSettings())
	if err != nil {
		return script.Tenant{}, err
	}
	return script.Tenant{
		Name:      m.GetName(),
		Revision:  script.Revision(m.GetRevision()),
		Settings:  settings,
		Deleted:   m.GetDeleted(),
		Author:    m.GetAuthor(),
		ChangedAt: toTime(m.GetChangedAt()),
	}, nil
}

// FromTenantSettings returns the message for s.
func FromTenantSettings(s script.TenantSettings) *scriptv1.TenantSettings {
	return &scriptv1.TenantSettings{
		Isolation:   string(s.Isolation),
		Limits:      FromLimits(s.Limits),
		Concurrency: int32(s.Concurrency),
		Cpu:         int32(s.CPU),
		LogBytes:    int64(s.LogBytes),
		MemoryBytes: s.MemoryBytes,
		ValueBytes:  s.ValueBytes,
		Scripts:     int64(s.Scripts),
		SourceBytes: s.SourceBytes,
		Writes:      int64(s.Writes),
		WriteBytes:  int64(s.WriteBytes),
		Decisions:   fromDecisions(s.Decisions),
		Audit:       string(s.Audit),
	}
}

// ToTenantSettings reads m; nil is the zero TenantSettings. It checks the form
// alone: the registry checks the bounds.
func ToTenantSettings(m *scriptv1.TenantSettings) (script.TenantSettings, error) {
	limits, err := ToLimits(m.GetLimits())
	if err != nil {
		return script.TenantSettings{}, err
	}
	return script.TenantSettings{
		Isolation:   script.Isolation(m.GetIsolation()),
		Limits:      limits,
		Concurrency: int(m.GetConcurrency()),
		CPU:         int(m.GetCpu()),
		LogBytes:    int(m.GetLogBytes()),
		MemoryBytes: m.GetMemoryBytes(),
		ValueBytes:  m.GetValueBytes(),
		Scripts:     int(m.GetScripts()),
		SourceBytes: m.GetSourceBytes(),
		Writes:      int(m.GetWrites()),
		WriteBytes:  int(m.GetWriteBytes()),
		Decisions:   toDecisions(m.GetDecisions()),
		Audit:       script.Audit(m.GetAudit()),
	}, nil
}
