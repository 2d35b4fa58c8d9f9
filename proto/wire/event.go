package wire

import (
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromEvent returns the message for e.
func FromEvent(e script.Event) *scriptv1.Event {
	return &scriptv1.Event{
		Id:        e.ID,
		Revision:  int64(e.Revision),
		Time:      fromTime(e.Time),
		Since:     fromTime(e.Since),
		Type:      string(e.Type),
		Event:     e.What,
		Tenant:    e.Tenant,
		Name:      e.Script,
		Key:       e.Key,
		Version:   e.Version,
		Candidate: e.Candidate,
		ChangeSet: e.ChangeSet,
		Author:    e.Author,
		Count:     e.Count,
		Subjects:  e.Subjects,
		Text:      e.Text,
	}
}

// ToEvent reads m.
func ToEvent(m *scriptv1.Event) script.Event {
	return script.Event{
		ID:        m.GetId(),
		Revision:  script.Revision(m.GetRevision()),
		Time:      toTime(m.GetTime()),
		Since:     toTime(m.GetSince()),
		Type:      script.EventType(m.GetType()),
		What:      m.GetEvent(),
		Tenant:    m.GetTenant(),
		Script:    m.GetName(),
		Key:       m.GetKey(),
		Version:   m.GetVersion(),
		Candidate: m.GetCandidate(),
		ChangeSet: m.GetChangeSet(),
		Author:    m.GetAuthor(),
		Count:     m.GetCount(),
		Subjects:  m.GetSubjects(),
		Text:      m.GetText(),
	}
}
