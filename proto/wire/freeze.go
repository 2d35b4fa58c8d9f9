package wire

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromFreeze returns the message for f, without its revision.
func FromFreeze(f script.Freeze) *scriptv1.Freeze {
	return &scriptv1.Freeze{
		Author: f.Author, Note: f.Note, Since: fromTime(f.Since), Until: fromTime(f.Until), Except: f.Except,
		ChangedAt: fromTime(f.ChangedAt), Lifted: f.Lifted, Unreadable: f.Unreadable,
	}
}

// ToFreeze reads m, and refuses one that no registry writes.
func ToFreeze(m *scriptv1.Freeze) (script.Freeze, error) {
	f := script.Freeze{
		Author: m.GetAuthor(), Note: m.GetNote(), Since: toTime(m.GetSince()), Until: toTime(m.GetUntil()), Except: m.GetExcept(),
		ChangedAt: toTime(m.GetChangedAt()), Lifted: m.GetLifted(), Unreadable: m.GetUnreadable(),
	}
	if f.Unreadable != "" {
		return f, nil
	}
	for _, at := range []*timestamppb.Timestamp{m.GetSince(), m.GetUntil(), m.GetChangedAt()} {
		if at != nil && at.CheckValid() != nil { // nobody could print it
			return script.Freeze{}, script.Errorf(script.Invalid, "freeze", "it has a time that is none")
		}
	}
	if f.Author == "" || f.ChangedAt.IsZero() || !f.Lifted && f.Since.IsZero() {
		return script.Freeze{}, script.Errorf(script.Invalid, "freeze", "it does not say who froze the registry, or when")
	}
	return f, f.Validate()
}
