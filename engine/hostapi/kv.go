package hostapi

import (
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// maxKeys is how many keys one call returns.
	maxKeys = 1000
	// KeysPerInstruction is how many keys are listed, or looked at, for one instruction.
	KeysPerInstruction = 2
)

// Value returns the content of the tenant's value with the key, for the function, without a copy: nobody changes it.
// ok is false if there is none. It charges for the content's size, though afterwards: a host tells no size without
// reading, and what it reads is no larger than a value may be.
func (c *Call) Value(function, key string) (content []byte, ok bool, err *script.Error) {
	host, err := c.host(function)
	if err != nil || len(key) > script.MaxValueKeyLen { // there can be none
		return nil, false, err
	}
	content, ok, problem := host.Value(c.Tenant, key)
	if problem != nil {
		return nil, false, fault("", "the value of %s cannot be read: %s", KeyText(key), Clip(problem.Error()))
	}
	if !c.Pay(len(content) / BytesPerInstruction) {
		return nil, false, stopped()
	}
	return content, ok, nil
}

// Text is Value for a program that gets the content as it is.
func (c *Call) Text(key string) (content []byte, ok bool, err *script.Error) {
	content, ok, err = c.Value("kv.get", key)
	if err == nil && c.StringBytes > 0 && len(content) > c.StringBytes {
		return nil, false, script.Errorf(script.Limit, "",
			"the value of %s has %d bytes, and a string may have %d: raise limits.stringBytes, or read it by kv.json", key, len(content), c.StringBytes)
	}
	return content, ok, err
}

// Keys returns the tenant's keys that begin with the prefix and come after the key `after`, sorted, 1,000 at most.
func (c *Call) Keys(prefix, after string) ([]string, *script.Error) {
	host, err := c.host("kv.keys")
	if err != nil {
		return nil, err
	}
	keys := host.Keys(c.Tenant, prefix, after, maxKeys)
	if !c.Pay(len(keys)/KeysPerInstruction) || !c.Make(tableBytes+itemBytes*len(keys)) {
		return nil, stopped()
	}
	return keys, nil
}
