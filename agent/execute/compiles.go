package execute

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/script"
)

// compilers is how many calls may run for each program that is being compiled.
const compilers = 4

// compiles gives turns to compile programs that calls need and that are not in memory.
// They are others than those of the calls, since compiling cannot give its turn back: a
// tenant whose scripts crowd each other out of the cache keeps a processor busy that no
// call waits for. Among those that wait to compile, the next is of the tenant that has
// compiled the least; and a tenant's bound of processor time bounds this, too.
type compiles struct {
	gate    *admission.Gate
	tenants func(tenant string) script.TenantSettings
}

var _ cache.Turns = (*compiles)(nil)

func newCompiles(running, waiting int, tenants func(string) script.TenantSettings) *compiles {
	return &compiles{
		gate:    admission.New(admission.Config{Running: max(running/compilers, 1), Waiting: waiting}),
		tenants: tenants,
	}
}

// Enter implements cache.Turns.
func (c *compiles) Enter(ctx context.Context, tenant string) (leave func(), err error) {
	turn := new(admission.Turn)
	settings := script.TenantSettings{CPU: c.tenants(tenant).CPU} // its calls in progress are counted elsewhere
	err = c.gate.Enter(ctx, turn, &admission.Call{Tenant: tenant, Timeout: time.Second, Settings: &settings})
	if err != nil {
		e := *script.AsError(err)
		if e.Field == "" { // what it says is of the gate for calls
			e.Message = "too many others wait for that: try again"
		}
		e.Message = "its program has to be compiled first: " + e.Message
		return nil, &e
	}
	return turn.Leave, nil
}
