package wire

import (
	"github.com/scriptorium-dev/scriptorium/script"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// FromObjectEntry returns the entry of the fleet that carries o.
func FromObjectEntry(fleet string, o script.Object) *eventv1.Entry {
	return &eventv1.Entry{Fleet: fleet, Object: FromObject(o)}
}

// FromReleaseEntry returns the entry of the fleet that carries r.
func FromReleaseEntry(fleet string, r script.Release) *eventv1.Entry {
	return &eventv1.Entry{Fleet: fleet, Object: FromReleaseObject(r)}
}
