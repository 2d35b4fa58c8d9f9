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

// What a call allocates is counted, by estimates that are rather too high, and a call
// may allocate leastAllowance and bytesForInstruction for each instruction of its budget,
// 9 MB by default, but no more than maxAllowance. What it drops counts too, so that neither what lives nor what waits to be
// collected can be more. Builtins count what they make, and vm counts what
// instructions make.

// bytesForInstruction is how many bytes a call may allocate for each instruction of
// its budget. (What is not counted, the numbers of a loop above all, is not more than
// that again, and dropped at once.)
const bytesForInstruction = 8

// leastAllowance is what a call may allocate besides.
const leastAllowance = 1 << 20

// maxAllowance is what a call may allocate at most, however many instructions it has:
// the highest budgets are for those who compute for long, not for those who fill memory.
const maxAllowance = 64 << 20

// reserve makes some of what may be allocated what may be allocated now.
func (m *meter) reserve() (bytes int64) {
	bytes = min(m.unused, max(accountedAtOnce, -m.Memory))
	m.Memory += bytes
	m.unused -= bytes
	return bytes
}

// SettleMemory is vm.Control's: it counts what was allocated in the tenant's account, and ends the call at its
// next instruction when it was too much.
func (m *meter) SettleMemory() {
	bytes := m.reserve()
	why := outOfAllowance
	if m.Memory >= 0 {
		why = running
	}
	if m.call != nil && m.call.program != nil && bytes > 0 {
		a := m.account.Load()
		if a == nil {
			a = m.call.program.engine.accounts.open(m.call.inv.Tenant)
			m.account.Store(a)
		}
		m.counted += bytes
		if all, share := a.bytes.Add(bytes), m.call.inv.Memory; share > 0 && all > share && why == running {
			why = outOfShare
		}
	}
	if why != running && m.reason == running {
		m.reason = why
		m.exhaust()
	}
}

// closeAccount takes what was allocated out of the tenant's account.
func (m *meter) closeAccount(of *accounts, tenant string) {
	if m.counted > 0 {
		of.close(tenant, m.account.Swap(nil), m.counted)
		m.counted = 0
	}
}

// allocatable returns how many bytes the call may still allocate.
func (m *meter) allocatable() int64 { return m.Memory + m.unused }

// allowance returns the bytes that a call may allocate.
func (m *meter) allowance() int64 {
	instructions := int64(min(m.limits.Instructions, maxAllowance))
	return min(leastAllowance+instructions*bytesForInstruction, maxAllowance)
}
