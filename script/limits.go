package script

import "time"

// Limits bound one call of a script. A zero field means its default. The
// registry refuses values beyond the maximum.
type Limits struct {
	Instructions uint64        // engine instructions a call may execute
	Timeout      time.Duration // wall-clock time a call may take
	SourceBytes  int           // size of the source
	StringBytes  int           // of Lua: size of any one string made while running
	ResultBytes  int           // size of all results together, as JSON
	LogBytes     int           // bytes a second that the script may log on each agent
	Concurrency  int           // calls of the script that run at once on an agent; 0 means as many as its tenant may
	Coroutines   bool          // of Lua: whether the script finds the coroutine library
	WasmMemory   int           // of WebAssembly: bytes of an instance's memory
}

// MaxSourceBytes is the largest source that a registry stores, whatever the limits.
const MaxSourceBytes = 1 << 20

// MaxEntrypointBytes is the longest name of the function that is called.
const MaxEntrypointBytes = 64

// DefaultLimits are the limits of a script that sets none.
func DefaultLimits() Limits {
	return Limits{
		Instructions: 1_000_000,
		Timeout:      100 * time.Millisecond,
		SourceBytes:  64 << 10,
		StringBytes:  256 << 10,
		ResultBytes:  64 << 10,
		LogBytes:     16 << 10,
		WasmMemory:   16 << 20,
	}
}

// MaxWasmMemory is the highest WasmMemory that a script may ask for.
const MaxWasmMemory = 64 << 20

// MaxLimits are the highest limits that a script in Lua may ask for.
func MaxLimits() Limits {
	return Limits{
		Instructions: 100_000_000,
		Timeout:      10 * time.Second,
		SourceBytes:  MaxArtifactBytes,
		StringBytes:  4 << 20,
		ResultBytes:  1 << 20,
		LogBytes:     1 << 20,
		Concurrency:  1024,
		Coroutines:   true,
	}
}

// OrDefaults returns l with each zero field set to its default.
func (l Limits) OrDefaults() Limits {
	d := DefaultLimits()
	if l.Instructions == 0 {
		l.Instructions = d.Instructions
	}
	if l.Timeout == 0 {
		l.Timeout = d.Timeout
	}
	if l.SourceBytes == 0 {
		l.SourceBytes = d.SourceBytes
	}
	if l.StringBytes == 0 {
		l.StringBytes = d.StringBytes
	}
	if l.ResultBytes == 0 {
		l.ResultBytes = d.ResultBytes
	}
	if l.LogBytes == 0 {
		l.LogBytes = d.LogBytes
	}
	if l.WasmMemory == 0 {
		l.WasmMemory = d.WasmMemory
	}
	return l
}

// AtMost returns l with each field that is over that of most, if that is set, cut
// down to it. Both should have had their defaults applied where defaults count.
// Coroutines stays as it is: what bounds a tenant does not forbid its scripts them.
func (l Limits) AtMost(most Limits) Limits {
	l.Instructions = atMost(l.Instructions, most.Instructions)
	l.Timeout = atMost(l.Timeout, most.Timeout)
	l.SourceBytes = atMost(l.SourceBytes, most.SourceBytes)
	l.StringBytes = atMost(l.StringBytes, most.StringBytes)
	l.ResultBytes = atMost(l.ResultBytes, most.ResultBytes)
	l.LogBytes = atMost(l.LogBytes, most.LogBytes)
	l.WasmMemory = atMost(l.WasmMemory, most.WasmMemory)
	if l.Concurrency == 0 { // as many as the tenant may
		l.Concurrency = most.Concurrency
	}
	l.Concurrency = atMost(l.Concurrency, most.Concurrency)
	return l
}

// atMost returns n, or most if that is set and less.
func atMost[T uint64 | int | time.Duration](n, most T) T {
	if most == 0 {
		return n
	}
	return min(n, most)
}

// Validate returns an Invalid error that names the field of the first limit
// that is negative or above its maximum; field is the path of l itself, such as
// "spec.limits".
func (l Limits) Validate(field string) error {
	m := MaxLimits()
	if l.Instructions > m.Instructions {
		return Errorf(Invalid, field+".instructions", "%d is more than the maximum, %d", l.Instructions, m.Instructions)
	}
	if l.Timeout < 0 || l.Timeout > m.Timeout {
		return Errorf(Invalid, field+".timeout", "%v is not between 0 and the maximum, %v", l.Timeout, m.Timeout)
	}
	for _, size := range []struct {
		name     string
		got, max int
	}{
		{"sourceBytes", l.SourceBytes, m.SourceBytes},
		{"stringBytes", l.StringBytes, m.StringBytes},
		{"resultBytes", l.ResultBytes, m.ResultBytes},
		{"logBytes", l.LogBytes, m.LogBytes},
		{"concurrency", l.Concurrency, m.Concurrency},
		{"wasm.memory", l.WasmMemory, MaxWasmMemory},
	} {
		if size.got < 0 || size.got > size.max {
			return Errorf(Invalid, field+"."+size.name, "%d is not between 0 and the maximum, %d", size.got, size.max)
		}
	}
	return nil
}
