package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Protocol is the number of the wire protocol that this software speaks.
const Protocol = 1

// Seal packs m into an envelope.
func Seal(m proto.Message) ([]byte, error) {
	payload, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return proto.Marshal(&eventv1.Envelope{
		Protocol:    Protocol,
		PayloadType: string(m.ProtoReflect().Descriptor().FullName()),
		Payload:     payload,
	})
}

// Open unpacks data into m, whose type the envelope must name.
func Open(data []byte, m proto.Message) error {
	var env eventv1.Envelope
	if err := proto.Unmarshal(data, &env); err != nil {
		return script.Errorf(script.Invalid, "envelope", "cannot be decoded: %w", err)
	}
	if env.GetProtocol() != Protocol {
		return script.Errorf(script.Invalid, "envelope.protocol", "is %d; this software speaks %d", env.GetProtocol(), Protocol)
	}
	want := m.ProtoReflect().Descriptor().FullName()
	if got := protoreflect.FullName(env.GetPayloadType()); got != want {
		return script.Errorf(script.Invalid, "envelope.payload_type", "is %.80q, want %q", got, want)
	}
	if err := proto.Unmarshal(env.GetPayload(), m); err != nil {
		return script.Errorf(script.Invalid, "envelope.payload", "cannot be decoded: %w", err)
	}
	return nil
}

// Subjects are the NATS subjects of one fleet.
type Subjects struct {
	// Prefix comes before every subject; "scriptorium" unless configured.
	Prefix string
}

// DefaultPrefix of the subjects.
const DefaultPrefix = "scriptorium"

// Event is where events go.
func (s Subjects) Event() string { return s.Prefix + ".feed.event" }

// Beacon is where beacons go.
func (s Subjects) Beacon() string { return s.Prefix + ".feed.beacon" }

// RollCall is where roll calls go.
func (s Subjects) RollCall() string { return s.Prefix + ".feed.rollcall" }

// Feed matches all of the above, so that one subscription keeps their order.
func (s Subjects) Feed() string { return s.Prefix + ".feed.*" }

// Status is where the agent reports.
func (s Subjects) Status(agent string) string { return s.Prefix + ".status." + agent }

// AllStatus matches every agent's reports.
func (s Subjects) AllStatus() string { return s.Prefix + ".status.>" }
