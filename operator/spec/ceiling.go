package spec

import (
	"cmp"

	"github.com/scriptorium-dev/scriptorium/script"
)

// AboveCeiling returns a fault for each limit that w sets and that is more than its
// tenant may have, and for a source that is. The registry refuses both where they are
// new; what a script has had before its tenant's limits were lowered stays, and is
// cut down by the agents.
func (w *Wanted) AboveCeiling(most script.Limits) (limits, source Faults) {
	l := w.Settings.Limits
	c := ceiling{tenant: w.Name.Tenant}
	atMost(&c, "instructions", l.Instructions, most.Instructions)
	atMost(&c, "timeout", l.Timeout, most.Timeout)
	atMost(&c, "sourceBytes", l.SourceBytes, most.SourceBytes)
	atMost(&c, "lua.stringBytes", l.StringBytes, most.StringBytes)
	atMost(&c, "resultBytes", l.ResultBytes, most.ResultBytes)
	atMost(&c, "logBytes", l.LogBytes, most.LogBytes)
	atMost(&c, "wasm.memory", l.WasmMemory, most.WasmMemory)
	atMost(&c, "concurrency", l.Concurrency, most.Concurrency)
	if most.SourceBytes != 0 && len(w.Source) > most.SourceBytes {
		source = Faults{script.Errorf(script.Invalid, w.SourceField,
			"has %d bytes, more than the tenant %s may have, %d: have the tenant's limits.sourceBytes raised", len(w.Source), c.tenant, most.SourceBytes)}
	}
	return c.faults, source
}

// ceiling collects what is above a tenant's limits.
type ceiling struct {
	tenant string
	faults Faults
}

// atMost compares a limit with the tenant's, which is 0 if there is none.
func atMost[T cmp.Ordered](c *ceiling, name string, got, most T) {
	var none T
	if most != none && got > most {
		c.faults = append(c.faults, script.Errorf(script.Invalid, "spec.limits."+name,
			"%v is more than the tenant %s may have, %v: ask for less, or have the tenant's limits raised", got, c.tenant, most))
	}
}
