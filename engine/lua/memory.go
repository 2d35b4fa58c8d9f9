package lua

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
