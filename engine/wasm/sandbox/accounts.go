package sandbox

import (
	"sync"
	"sync/atomic"
)

// accounts have the memory of each tenant's calls that run. The zero value is ready, and safe for concurrent use.
type accounts struct {
	mu      sync.Mutex
	tenants map[string]*account
}

// account is a tenant's.
type account struct {
	bytes atomic.Int64
	calls int // that are counted; accounts.mu guards it
}

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

// closeAccount takes what the call has out of the tenant's account.
func (c *Call) closeAccount() {
	if c.account == nil {
		return
	}
	a := &c.sandbox.accounts
	c.account.bytes.Add(-c.counted)
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.account.calls--; c.account.calls == 0 {
		delete(a.tenants, c.Inv.Tenant)
	}
	c.account, c.counted = nil, 0
}
