package wire

import (
	"maps"
	"slices"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromTrigger returns the message for t: the same bytes for the same trigger.
func FromTrigger(t script.Trigger) *scriptv1.Trigger {
	m := &scriptv1.Trigger{Event: t.Event, Priority: int32(t.Priority)}
	if t.Match.IsZero() {
		return m
	}
	m.Match = &scriptv1.TriggerMatch{Hosts: t.Match.Hosts, PathPrefixes: t.Match.PathPrefixes, Methods: t.Match.Methods}
	for _, name := range slices.Sorted(maps.Keys(t.Match.Headers)) {
		m.Match.Headers = append(m.Match.Headers, &scriptv1.TriggerHeader{Name: name, Value: t.Match.Headers[name]})
	}
	return m
}

// ToTrigger reads m; nil is the zero Trigger. The registry checks the bounds.
func ToTrigger(m *scriptv1.Trigger) script.Trigger {
	match := m.GetMatch()
	t := script.Trigger{Event: m.GetEvent(), Priority: int(m.GetPriority()), Match: script.Match{
		Hosts: match.GetHosts(), PathPrefixes: match.GetPathPrefixes(), Methods: match.GetMethods(),
	}}
	if headers := match.GetHeaders(); len(headers) > 0 {
		t.Match.Headers = make(map[string]string, len(headers))
		for _, h := range headers {
			t.Match.Headers[h.GetName()] = h.GetValue()
		}
	}
	return t
}
