package sandbox

import "bytes"

// CString returns the text at the address up to the byte 0 that ends it, which stays valid until the module runs again.
// It ends the call if none of the first bytes, up to most, is 0.
func (c *Call) CString(address uint32, most int) []byte {
	mem := c.module.Memory()
	size := mem.Size()
	if address < size {
		b, _ := mem.Read(address, min(size-address, uint32(min(most, MaxMemory))+1))
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return b[:end]
		}
	}
	c.Failf("the module passed a text at address %d that does not end within %d bytes", address, most)
	return nil
}
