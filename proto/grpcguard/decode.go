package grpcguard

import (
	"errors"
	"io"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// received wraps the target of a decode. A few bytes on the wire can become many elements, so
// Unmarshal charges the call for the memory of these before it allocates them.
type received struct {
	proto.Message
	stream *stream
	err    error // why it is not decoded
}

// receive receives a message into m.
func (s *stream) receive(m any, next func(any) error) error {
	message, ok := m.(proto.Message)
	if !ok {
		return next(m)
	}
	r := &received{Message: message, stream: s}
	if err := next(r); r.err == nil {
		return err
	}
	return wire.ToStatus(r.err)
}

// codec is the one of protobuf.
type codec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	text := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer text.Free()
	if !r.stream.decodes(Decoded(text.ReadOnlyData(), r.Message)) {
		r.err = budget.ErrOverloaded
		r.stream.answer(r.err) // before gRPC does, which knows no such reason
		return r.err
	}
	return proto.Unmarshal(text.ReadOnlyData(), r.Message)
}

// noGzip refuses compressed messages: some bytes of one can stand for megabytes, for which
// nobody is charged. etcd's packages register gzip, where a program has them.
type noGzip struct{}

var errCompressed = errors.New("this server takes no compressed messages: send it without compression")

// Do implements grpc.Decompressor.
func (noGzip) Do(io.Reader) ([]byte, error) { return nil, errCompressed }

// Type implements grpc.Decompressor.
func (noGzip) Type() string { return "gzip" }

// Bytes that a message takes when it is decoded, besides those of its strings, about.
const (
	elementBytes = 48 // one of a list, which grows by copies
	messageBytes = 64
	memberBytes  = 16   // one field of a message
	mostNested   = 1000 // messages in messages
)

// Decoded returns about how many bytes m takes, besides its strings, once text is decoded into
// it.
func Decoded(text []byte, m proto.Message) int64 {
	return decoded(text, m.ProtoReflect().Descriptor(), mostNested)
}

func decoded(text []byte, of protoreflect.MessageDescriptor, nested int) (bytes int64) {
	for len(text) > 0 && nested > 0 {
		number, kind, n := protowire.ConsumeField(text)
		if n < 0 {
			return bytes // it is malformed
		}
		field, tag := of.Fields().ByNumber(number), protowire.SizeTag(number)
		switch {
		case field == nil:
		case kind == protowire.BytesType && field.Message() != nil:
			value, _ := protowire.ConsumeBytes(text[tag:])
			bytes += elementBytes + messageBytes + int64(memberBytes*field.Message().Fields().Len())
			bytes += decoded(value, field.Message(), nested-1)
		case kind == protowire.BytesType && field.IsPacked():
			bytes += 2 * 8 * int64(n)
		case field.Cardinality() == protoreflect.Repeated:
			bytes += elementBytes
		}
		text = text[n:]
	}
	return bytes
}
