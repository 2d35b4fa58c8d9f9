package registry

import (
	"errors"
	"sync"

	"github.com/scriptorium-dev/scriptorium/script"
)

// QuotaNews says that a tenant has met a quota, or is near it.
type QuotaNews struct {
	Tenant string
	// Quota is the field of script.TenantSettings that sets it, or what else there may be so many of.
	Quota string
	// Refused: a write was refused for it. Else the tenant uses so much that this may happen soon.
	Refused bool
	// Used and Most are what the tenant has, and may have; of a rate Used is 0, and Most is a second's.
	Used, Most int64
}

// The quotas.
const (
	quotaScripts      = "scripts"
	quotaSourceBytes  = "sourceBytes"
	quotaValueBytes   = "valueBytes"
	quotaWrites       = "writes"
	quotaWriteBytes   = "writeBytes"
	quotaValues       = "values"
	quotaEventScripts = "eventScripts"
	quotaChangeSets   = "changeSets"
)

// quotaUse is what a tenant has of a quota. As an error it says that this is too much.
type quotaUse struct {
	quota      string
	used, most int64
}

func (q *quotaUse) Error() string { return "the quota " + q.quota + " is met" }

// overQuota is script.Errorf, for a write that is refused for a quota.
func overQuota(kind script.Kind, field string, use quotaUse, format string, args ...any) error {
	refusal := script.Errorf(kind, field, format, args...)
	refusal.Err = &use
	return refusal
}

// A tenant that uses nearFrom of a quota is near it until it uses less than nearUntil.
const (
	nearFrom  = 0.9
	nearUntil = 0.85
	// maxNear is how many quotas are remembered to be nearly met.
	maxNear = 10_000
)

// near has the quotas that tenants are near, as far as this replica has seen writes.
type near struct {
	mu     sync.Mutex
	quotas map[tenantQuota]bool
}

type tenantQuota struct{ tenant, quota string }

// passes reports whether the tenant is near the quota by now, and was not before.
func (n *near) passes(tenant string, use quotaUse) bool {
	share, of := float64(use.used)/float64(max(use.most, 1)), tenantQuota{tenant, use.quota}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch was := n.quotas[of]; {
	case share >= nearFrom && !was:
		if len(n.quotas) >= maxNear {
			clear(n.quotas)
		}
		n.quotas[of] = true
		return true
	case share < nearUntil && was:
		delete(n.quotas, of)
	}
	return false
}

// noteQuotas tells of a quota that the write was refused for, or of those that it has brought the tenant
// near to.
func (r *Registry) noteQuotas(tenant string, err error, uses []quotaUse) {
	if err == nil {
		for _, use := range uses {
			if r.near.passes(tenant, use) {
				r.onQuota(QuotaNews{Tenant: tenant, Quota: use.quota, Used: use.used, Most: use.most})
			}
		}
		return
	}
	if use, ok := errors.AsType[*quotaUse](err); ok {
		r.onQuota(QuotaNews{Tenant: tenant, Quota: use.quota, Refused: true, Used: use.used, Most: use.most})
	}
}
