package sandbox

import (
	"github.com/tetratelabs/wazero/experimental"

	"github.com/scriptorium-dev/scriptorium/script"
)

// memory is an instance's linear memory. It bounds it by the limits of the call that runs, and counts it.
type memory struct {
	call   *Call
	buffer []byte // its capacity is zeroed beyond its length
	next   []byte // what resize wants Reallocate to return
}

// Allocate is experimental.MemoryAllocator's.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate is experimental.LinearMemory's.
func (m *memory) Reallocate(size uint64) []byte {
	if m.next != nil {
		m.buffer, m.next = m.next, nil
		return m.buffer
	}
	if size > m.call.maxMemory {
		return nil
	}
	before := m.length()
	if err := m.call.grow(before, size); err != nil {
		m.call.Fail(err)
	}
	if size > uint64(cap(m.buffer)) {
		// Doubled, but for the first: most modules never grow.
		room := size
		if before > 0 {
			room = min(max(size, 2*before), m.call.maxMemory)
		}
		b := make([]byte, size, room)
		copy(b, m.buffer)
		m.buffer = b
	}
	m.buffer = m.buffer[:size]
	return m.buffer
}

// resize makes memory as long as it was. What is cut off has to be zeros. It reports whether it can: wazero has no way to
// make memory shorter but to grow it by a page and be given less, which takes a module that could have one page more.
func (m *memory) resize(i *instance, length uint64) bool {
	switch before := m.length(); {
	case before == length:
		return true
	case before > length:
		m.next = m.buffer[:length:cap(m.buffer)]
		_, ok := i.module.Memory().Grow(1)
		m.next = nil
		return ok && uint64(i.module.Memory().Size()) == length
	default:
		_, ok := i.module.Memory().Grow(uint32((length - before) / PageBytes))
		return ok && uint64(i.module.Memory().Size()) == length
	}
}

// Free is experimental.LinearMemory's.
func (m *memory) Free() {}

func (m *memory) length() uint64 { return uint64(len(m.buffer)) }

// Hold counts bytes that the host keeps until the call ends, as if they were the module's.
func (c *Call) Hold(bytes int) {
	if err := c.grow(0, uint64(bytes)); err != nil {
		c.Fail(err)
	}
}

// grow counts that memory has grown, and says whether the tenant's calls may have so much together.
func (c *Call) grow(from, to uint64) *script.Error {
	bytes := int64(to) - int64(from)
	c.allocated += bytes
	if c.Inv.Memory <= 0 {
		return nil
	}
	if c.account == nil {
		c.account = c.sandbox.accounts.open(c.Inv.Tenant)
	}
	c.counted += bytes
	if c.account.bytes.Add(bytes) > c.Inv.Memory {
		return script.Errorf(script.Limit, "tenant.memory", "the calls of the tenant that run have more than %d MiB of memory together: its setting memory bounds them", c.Inv.Memory>>20)
	}
	return nil
}
