package spopsock

import (
	"encoding/binary"
	"fmt"
)

// frameKind is the type of a frame.
type frameKind uint8

// The types of frames. HAProxy sends those below 100.
const (
	frameUnset           frameKind = 0 // a further fragment
	frameHello           frameKind = 1
	frameDisconnect      frameKind = 2
	frameNotify          frameKind = 3
	frameAgentHello      frameKind = 101
	frameAgentDisconnect frameKind = 102
	frameAck             frameKind = 103
)

const (
	flagFinal  = uint32(1) // there are no further fragments
	lengthSize = 4
	leastFrame = 256 // that a peer may negotiate
	headSize   = 7   // the smallest frame: a type, flags and two numbers
	maxReason  = 128 // bytes of why a connection ends: they fit into the smallest frame
)

// status is the code in a frame that ends a connection.
type status uint32

// The codes of SPOP.
const (
	statusNormal        status = 0
	statusTimeout       status = 2
	statusTooBig        status = 3
	statusInvalid       status = 4
	statusNoVersion     status = 5
	statusNoFrameSize   status = 6
	statusNoCapability  status = 7
	statusVersion       status = 8
	statusFrameSize     status = 9
	statusFragmentation status = 10
	statusResources     status = 13
)

// disconnection is the reason in a DISCONNECT frame.
type disconnection struct {
	status status
	reason string
}

func (d *disconnection) Error() string { return d.reason }

func disconnect(code status, format string, args ...any) *disconnection {
	reason := fmt.Sprintf(format, args...)
	return &disconnection{code, reason[:min(len(reason), maxReason)]}
}

// append appends the frame that tells the peer.
func (d *disconnection) append(dst []byte) []byte {
	return appendFrame(dst, header{kind: frameAgentDisconnect, flags: flagFinal}, func(dst []byte) []byte {
		return appendPair(appendPair(dst, "status-code", numberValue(uint64(d.status))), "message", textValue(d.reason))
	})
}

// header is what every frame begins with.
type header struct {
	kind          frameKind
	flags         uint32
	stream, frame uint64
}

// appendFrame appends a frame with the payload that fill appends.
func appendFrame(dst []byte, h header, fill func([]byte) []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(h.kind))
	dst = binary.BigEndian.AppendUint32(dst, h.flags)
	dst = appendVarint(appendVarint(dst, h.stream), h.frame)
	if fill != nil {
		dst = fill(dst)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-lengthSize))
	return dst
}

// nextFrame returns the first frame of what was received, and how many bytes it has with its
// length. It returns 0 if not all of it is there, and an error as soon as it cannot be one.
func nextFrame(in []byte, most int) (frame []byte, n int, err error) {
	if len(in) < lengthSize {
		return nil, 0, nil
	}
	length := binary.BigEndian.Uint32(in)
	switch {
	case length > uint32(most):
		return nil, 0, disconnect(statusTooBig, "a frame of %d bytes: at most %d were agreed", length, most)
	case length < headSize:
		return nil, 0, disconnect(statusInvalid, "a frame of %d bytes has no room for its head", length)
	case uint32(len(in)-lengthSize) < length:
		return nil, 0, nil
	}
	n = lengthSize + int(length)
	return in[lengthSize:n], n, nil
}

// parseHeader reads the head of a frame. The payload stays in the decoder.
func parseHeader(d *decoder) (header, error) {
	h := header{kind: frameKind(d.byte())}
	if flags := d.bytes(4); flags != "" {
		h.flags = binary.BigEndian.Uint32([]byte(flags))
	}
	h.stream, h.frame = d.varint(), d.varint()
	switch {
	case d.failed:
		return h, disconnect(statusInvalid, "the head of a frame is malformed")
	case h.kind == frameUnset, h.kind <= frameNotify && h.flags&flagFinal == 0:
		return h, disconnect(statusFragmentation, "this agent does not announce fragmentation, so a frame has to be whole")
	}
	return h, nil
}
