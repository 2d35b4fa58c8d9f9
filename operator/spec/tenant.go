package spec

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// minMemory is what a tenant's process needs before it can run anything.
const minMemory = 64 << 20

// TenantSettings returns what t wants the registry to have. What is wrong with it is
// an error of all its Faults, each of kind Invalid with the field it is in.
func TenantSettings(t *v1alpha1.ScriptTenant) (script.TenantSettings, error) {
	var r reader
	r.check(script.ValidateLabel("metadata.name", t.Name))
	r.selector(t.Spec.NamespaceSelector)
	most := script.MaxTenantSettings()
	s := script.TenantSettings{
		Isolation:   r.isolation(t.Spec.Isolation),
		Limits:      r.limits("spec.limits", t.Spec.Limits),
		CPU:         r.cpu(t.Spec.CPU, int64(most.CPU)),
		MemoryBytes: r.bytes("spec.memory", t.Spec.Memory, most.MemoryBytes),
		ValueBytes:  r.bytes("spec.values", t.Spec.Values, most.ValueBytes),
		SourceBytes: r.bytes("spec.sources", t.Spec.Sources, most.SourceBytes),
	}
	s.Decisions, s.Audit = r.log("spec.log", t.Spec.Log), script.Audit(t.Spec.Audit)
	s.Limits.Coroutines = false // a tenant's limits do not speak of them
	if t.Spec.Concurrency != nil {
		s.Concurrency = positive[int](&r, "spec.concurrency", int64(*t.Spec.Concurrency), int64(most.Concurrency))
	}
	if t.Spec.LogBytes != nil {
		s.LogBytes = positive[int](&r, "spec.logBytes", *t.Spec.LogBytes, int64(most.LogBytes))
	}
	if t.Spec.Scripts != nil {
		s.Scripts = positive[int](&r, "spec.scripts", int64(*t.Spec.Scripts), int64(most.Scripts))
	}
	if t.Spec.Writes != nil {
		s.Writes = positive[int](&r, "spec.writes", int64(*t.Spec.Writes), int64(most.Writes))
	}
	if t.Spec.WriteBytes != nil {
		s.WriteBytes = positive[int](&r, "spec.writeBytes", *t.Spec.WriteBytes, int64(most.WriteBytes))
	}
	if s.Audit != "" && s.Audit != script.AuditStrict {
		r.fault("spec.audit", "%.80q is no audit: want %s, or leave it out for none", t.Spec.Audit, script.AuditStrict)
	}
	if m := s.MemoryBytes; m != 0 && m < minMemory {
		r.fault("spec.memory", "%s is less than a process needs, 64Mi", t.Spec.Memory)
	}
	return s, r.faults.orNil()
}

func (r *reader) isolation(s string) script.Isolation {
	switch i := script.Isolation(s); i {
	case "", script.IsolationShared:
		return script.IsolationShared
	case script.IsolationProcess:
		return i
	}
	r.fault("spec.isolation", "%.80q is no isolation: want %s or %s", s, script.IsolationShared, script.IsolationProcess)
	return ""
}

func (r *reader) selector(s *metav1.LabelSelector) {
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		r.fault("spec.namespaceSelector", "%v", err)
	}
}

// cpu returns q in thousandths of a core.
func (r *reader) cpu(q *resource.Quantity, most int64) int {
	if q == nil {
		return 0
	}
	if q.Sign() <= 0 || q.MilliValue() > most {
		r.fault("spec.cpu", "%s is not above 0 and at most %d cores: want such as 500m; leave it out for no bound", q, most/1000)
		return 0
	}
	return int(q.MilliValue())
}

// bytes returns q in bytes.
func (r *reader) bytes(field string, q *resource.Quantity, most int64) int64 {
	if q == nil {
		return 0
	}
	n := q.Value() // the largest int64 if it is more than that
	if q.Sign() <= 0 || n > most || n == math.MaxInt64 {
		r.fault(field, "%s is not above 0 and at most %s: want such as 64Mi; leave it out for the default", q, resource.NewQuantity(most, resource.BinarySI))
		return 0
	}
	return n
}
