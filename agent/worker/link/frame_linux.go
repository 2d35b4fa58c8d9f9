package link

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Calls go over connections of their own, one at a time over each: that takes a third of
// the time, or less, of a call by gRPC. Each is a frame either way: the length of the
// message, and the message; a call's is after the time that it has, in nanoseconds, 0
// for as long as it takes.
const (
	lengthBytes  = 4
	timeoutBytes = 8
)

// AppendFrame appends a frame with the message to b. A message that is too large is a
// Limit.
func AppendFrame(b []byte, m proto.Message) ([]byte, error) {
	start := len(b)
	b = append(b, make([]byte, lengthBytes)...)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err != nil {
		return nil, err
	}
	size := len(b) - start - lengthBytes
	if size > MaxMessage {
		return nil, script.Errorf(script.Limit, "args", "%d bytes are too many for a call to a tenant's process: at most %d are allowed", size, MaxMessage)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(size))
	return b, nil
}

// ReadFrame reads a frame into m, by way of buf, which it returns for the next.
func ReadFrame(r io.Reader, buf []byte, m proto.Message) ([]byte, error) {
	var head [lengthBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return buf, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > MaxMessage {
		return buf, fmt.Errorf("a frame of %d bytes is too large for a link", size)
	}
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	if _, err := io.ReadFull(r, buf[:size]); err != nil {
		return buf, err
	}
	return buf, proto.Unmarshal(buf[:size], m) // which copies what it keeps
}

// AppendTimeout appends the time that a call has to b.
func AppendTimeout(b []byte, d time.Duration) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(max(d, 0)))
}

// ReadTimeout reads it.
func ReadTimeout(r io.Reader) (time.Duration, error) {
	var b [timeoutBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	return time.Duration(binary.BigEndian.Uint64(b[:])), nil
}
