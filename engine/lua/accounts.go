package lua

import (
	"sync"
	"sync/atomic"
)

// accounts have what the calls of each tenant that run have allocated together. A call is
// counted in its tenant's from when it has allocated accountedAtOnce bytes: most never do.
// The zero value is ready, and safe for concurrent use.
type accounts struct {
	mu      sync.Mutex
	tenants map[string]*account
}

// account is a tenant's.
type account struct {
	bytes atomic.Int64
	calls int // that are counted; accounts.mu guards it
}

// accountedAtOnce is how many bytes a call may allocate before they are counted in its
// tenant's account again.
const accountedAtOnce = 64 << 10

// open returns the account of a tenant, for one call.
func (a *accounts) open(tenant string) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tenants == nil {
		a.tenants = map[string]*account{}
	}
	if a.tenants[tenant] == nil {
		a.tenants[tenant] = &account{}
	}
	a.tenants[tenant].calls++
	return a.tenants[tenant]
}

// close is for a call that is over and was counted with so many bytes.
func (a *accounts) close(tenant string, of *account, bytes int64) {
	of.bytes.Add(-bytes)
	a.mu.Lock()
	defer a.mu.Unlock()
	if of.calls--; of.calls == 0 {
		delete(a.tenants, tenant)
	}
}
