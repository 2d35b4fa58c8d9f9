package fanout

import (
	"math"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
)

// SealEvent returns the envelope that an event travels in, the same for the same
// event on every replica. PublishEvent leaves the sources out where it is larger
// than the server takes.
func SealEvent(sealer *seal.Sealer, e feed.Event) ([]byte, error) {
	return sealer.Seal(eventMessage(e))
}

// SealBeacon returns the envelope that a beacon travels in.
func SealBeacon(sealer *seal.Sealer, sessions Sessions, b feed.Beacon) ([]byte, error) {
	return sealer.Seal(beaconMessage(b, sessions))
}

func eventMessage(e feed.Event) *eventv1.Event {
	return &eventv1.Event{
		Fleet:            e.Fleet,
		Group:            e.Group,
		Revision:         int64(e.Revision),
		PreviousRevision: int64(e.Previous),
		Entries:          e.Entries,
		Sources:          fromSources(e.Sources),
		CommittedAt:      timestamppb.New(e.CommittedAt),
		Removals:         e.Removals,
		Traceparent:      e.Trace.String(),
	}
}

func beaconMessage(b feed.Beacon, sessions Sessions) *eventv1.Beacon {
	m := &eventv1.Beacon{
		Fleet:          b.Fleet,
		Group:          b.Group,
		HeadRevision:   int64(b.Head),
		GroupRevision:  int64(b.Position.Head),
		Term:           b.Term,
		Sequence:       b.Sequence,
		ReportInterval: durationpb.New(b.ReportInterval),
		SentAt:         timestamppb.New(b.SentAt),
		Agents:         int32(min(b.Agents, math.MaxInt32)), //nolint:gosec // it fits

		AcceptedLossRevision: int64(b.Position.LossAcceptedAt),
		SessionKeys:          sessions.KeyIDs(),
	}
	if len(b.Unreadable) <= maxUnreadable {
		m.Checksums, m.Unreadable = b.Position.Sums.Checksums(), b.Unreadable
	}
	return m
}

// maxUnreadable objects are named by a beacon. With more it has no checksums: agents
// compare what they have once a minute, when they ask the registry.
const maxUnreadable = 1000

func fromSources(sources []registry.Source) []*scriptv1.Source {
	messages := make([]*scriptv1.Source, len(sources))
	for i, s := range sources {
		messages[i] = &scriptv1.Source{Digest: wire.FromDigest(s.Digest), Content: s.Content}
	}
	return messages
}
