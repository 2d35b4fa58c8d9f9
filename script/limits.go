package script

import "time"

// Limits bound one call of a script. A zero field means its default. The
// registry refuses values beyond the maximum.
type Limits struct {
	Instructions uint64        // engine instructions a call may execute
	Timeout      time.Duration // wall-clock time a call may take
	SourceBytes  int           // size of the source
	StringBytes  int           // size of any one string made while running
	ResultBytes  int           // size of all results together, as JSON
}

// MaxSourceBytes is the largest source that a registry stores, whatever the limits.
const MaxSourceBytes = 1 << 20

// DefaultLimits are the limits of a script that sets none.
func DefaultLimits() Limits {
	return Limits{
		Instructions: 1_000_000,
		Timeout:      100 * time.Millisecond,
		SourceBytes:  64 << 10,
		StringBytes:  256 << 10,
		ResultBytes:  64 << 10,
	}
}

// MaxLimits are the highest limits that a script may ask for.
func MaxLimits() Limits {
	return Limits{
		Instructions: 100_000_000,
		Timeout:      10 * time.Second,
		SourceBytes:  MaxSourceBytes,
		StringBytes:  4 << 20,
		ResultBytes:  1 << 20,
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
	return l
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
	} {
		if size.got < 0 || size.got > size.max {
			return Errorf(Invalid, field+"."+size.name, "%d is not between 0 and the maximum, %d", size.got, size.max)
		}
	}
	return nil
}
