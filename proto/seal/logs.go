package seal

import (
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// SealLogs returns what scripts have logged in an envelope, which nobody signs.
func SealLogs(m *eventv1.Logs) ([]byte, error) { return sealUnsigned(m) }

// OpenLogs takes what scripts have logged out of its envelope.
func OpenLogs(data []byte, m *eventv1.Logs) error { return openUnsigned(data, m) }

// SealCopy returns the copy in an envelope, which nobody signs.
func SealCopy(m *eventv1.Copy) ([]byte, error) { return sealUnsigned(m) }

// OpenCopy takes a copy out of its envelope.
func OpenCopy(data []byte, m *eventv1.Copy) error { return openUnsigned(data, m) }

func sealUnsigned(m proto.Message) ([]byte, error) {
	env, err := envelope(m, StatusProtocol)
	if err != nil {
		return nil, err
	}
	return marshal.Marshal(env)
}

func openUnsigned(data []byte, m proto.Message) error {
	env, err := open(data, m.ProtoReflect().Descriptor().FullName(), StatusProtocol)
	if err != nil {
		return err
	}
	return decode(env, m)
}
