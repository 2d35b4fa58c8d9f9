package wire

import (
	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromTenantUsage returns the message.
func FromTenantUsage(u script.TenantUsage) *eventv1.TenantUsage {
	return &eventv1.TenantUsage{
		Tenant: u.Tenant, Calls: u.Calls, Errors: u.Errors, ProcessorTime: durationpb.New(u.ProcessorTime),
		Instructions: u.Instructions, BytesIn: u.BytesIn, BytesOut: u.BytesOut,
	}
}

// ToTenantUsage is the reverse of FromTenantUsage. Its errors are Invalid: no tenant can have the name, or no time is so
// long.
func ToTenantUsage(m *eventv1.TenantUsage) (script.TenantUsage, error) {
	u := script.TenantUsage{Tenant: m.GetTenant(), Usage: script.Usage{
		Calls: m.GetCalls(), Errors: min(m.GetErrors(), m.GetCalls()), ProcessorTime: m.GetProcessorTime().AsDuration(),
		Instructions: m.GetInstructions(), BytesIn: m.GetBytesIn(), BytesOut: m.GetBytesOut(),
	}}
	if u.ProcessorTime < 0 {
		return u, script.Errorf(script.Invalid, "processor_time", "%v is negative", u.ProcessorTime)
	}
	return u, script.ValidateLabel("tenant", u.Tenant)
}
