package link

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
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

// maxDecoded bounds what a message takes besides the bytes of its strings: ten thousand results
// take half of it.
const maxDecoded = 1 << 20

// firstRead is how much room there is for a message before any of it has come.
const firstRead = 32 << 10

// ReadFrame reads a frame into m, by way of buf, which it returns for the next. A
// message of more than limit bytes is an error, and none gets more memory than about
// twice what has come of it: who only says that there is much to come gets none.
func ReadFrame(r io.Reader, limit int, buf []byte, m proto.Message) ([]byte, error) {
	var head [lengthBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return buf, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > int64(limit) {
		return buf, fmt.Errorf("a frame of %d bytes is too large for a link: at most %d are taken", size, limit)
	}
	total := int(size)
	for have := 0; have < total; {
		next := min(max(cap(buf), 2*have, firstRead), total)
		if cap(buf) < next {
			buf = append(make([]byte, 0, next), buf[:have]...)
		}
		if _, err := io.ReadFull(r, buf[have:next]); err != nil {
			return buf, err
		}
		have = next
	}
	if takes := grpcguard.Decoded(buf[:total], m); takes > maxDecoded {
		return buf, fmt.Errorf("a frame of %d bytes would take %d more, which are too many for a link: at most %d are taken", size, takes, maxDecoded)
	}
	return buf, proto.Unmarshal(buf[:total], m) // which copies what it keeps
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
