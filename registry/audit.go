package registry

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// AuditFilter says which entries of the audit trail.
type AuditFilter struct {
	Tenant string    // all tenants if empty
	Script string    // all scripts of the tenant if empty
	Since  time.Time // the zero Time: all that are kept
}

// Matches reports whether the filter lets the entry through.
func (f AuditFilter) Matches(e script.AuditEntry) bool {
	return (f.Tenant == "" || f.Tenant == e.Name.Tenant) &&
		(f.Script == "" || f.Script == e.Name.Script) &&
		!e.Time.Before(f.Since)
}
