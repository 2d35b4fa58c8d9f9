package script

import (
	"slices"
	"time"
)

// EventType is what an event of the timeline is about.
type EventType string

// The types.
const (
	EventPublish EventType = "publish" // versions and settings of scripts, their owners, imports and deletes
	EventHold    EventType = "hold"    // pins, holds and rollbacks: the versions that people chose to run
	EventRollout EventType = "rollout" // candidates
	EventValue   EventType = "value"
	EventTenant  EventType = "tenant" // settings of tenants
	EventFreeze  EventType = "freeze"
	EventLoss    EventType = "loss"  // losses of records that an administrator accepted
	EventAgent   EventType = "agent" // agents that are lost, and that come back
	EventDrift   EventType = "drift" // agents that differed from the registry
	EventKey     EventType = "key"   // keys of the registry and of publishers
	EventQuota   EventType = "quota"

	// EventChangeSet selects the events of change sets. It is no event's own type.
	EventChangeSet EventType = "changeset"
)

// EventTypes returns all types that events can be selected by.
func EventTypes() []EventType {
	return []EventType{
		EventPublish, EventHold, EventRollout, EventChangeSet, EventValue, EventTenant, EventFreeze, EventLoss,
		EventAgent, EventDrift, EventKey, EventQuota,
	}
}

// MaxEventSubjects is how many things an Event names.
const MaxEventSubjects = 8

// Event is an entry of the timeline: a write, or something that happened to the fleet. One event
// can stand for many things of the same kind that happened soon after each other.
type Event struct {
	ID       string   // the same in each answer that has the event
	Revision Revision // of the transaction that recorded it
	Time     time.Time
	// Since is when the first of many things happened, and Time when the last one did.
	Since time.Time
	Type  EventType
	// What happened: a Change, or a word such as "lost".
	What   string
	Tenant string // "" if it concerns the fleet
	Script string // "" if it concerns no script
	Key    string // of the value that it concerns; "" if none
	// Version and Candidate as in AuditEntry.
	Version, Candidate uint64
	ChangeSet          string   // that the change is part of; "" if none
	Author             string   // of the change
	Count              uint64   // how many things happened; 0 stands for one
	Subjects           []string // the first things that it happened to, such as agents; at most MaxEventSubjects
	Text               string   // details
}

// IsOf reports whether the event is of one of the types; none means all.
func (e *Event) IsOf(types []EventType) bool {
	return len(types) == 0 || slices.Contains(types, e.Type) || e.ChangeSet != "" && slices.Contains(types, EventChangeSet)
}

// EventType returns what the change is about, in the timeline.
func (c Change) EventType() EventType {
	switch c {
	case ChangePin, ChangeUnpin, ChangeRollback, ChangeHold, ChangeRelease:
		return EventHold
	case ChangeAdvance, ChangePromote, ChangeAbort, ChangeRetry, ChangeApprove:
		return EventRollout
	case ChangePut, ChangeRemove:
		return EventValue
	case ChangeSetTenant:
		return EventTenant
	case ChangeFreeze, ChangeThaw:
		return EventFreeze
	case ChangeAcceptLoss:
		return EventLoss
	}
	return EventPublish
}
