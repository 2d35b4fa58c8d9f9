package seal

import eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"

// SealLogs returns what scripts have logged in an envelope, which nobody signs.
func SealLogs(m *eventv1.Logs) ([]byte, error) {
	env, err := envelope(m, StatusProtocol)
	if err != nil {
		return nil, err
	}
	return marshal.Marshal(env)
}

// OpenLogs takes what scripts have logged out of its envelope.
func OpenLogs(data []byte, m *eventv1.Logs) error {
	env, err := open(data, m.ProtoReflect().Descriptor().FullName(), StatusProtocol)
	if err != nil {
		return err
	}
	return decode(env, m)
}
