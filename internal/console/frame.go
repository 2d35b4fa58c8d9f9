package console

import (
	"bytes"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// maxAnswer bounds one message of the registry: a page of a thousand releases with large settings is one.
const maxAnswer = 64 << 20

// frame is a message in Protobuf's binary form. The console does not read the answers that it passes on: a status of 10,000
// agents costs it a copy.
type frame struct{ data []byte }

// bytesCodec has the bytes of frames as they are, for both ends: gRPC's and Connect's.
type bytesCodec struct{}

// Name implements connect.Codec and encoding.Codec.
func (bytesCodec) Name() string { return "proto" }

// Marshal implements connect.Codec and encoding.Codec.
func (bytesCodec) Marshal(v any) ([]byte, error) {
	switch m := v.(type) {
	case *frame:
		return m.data, nil
	case proto.Message: // of Connect's own
		return proto.Marshal(m)
	}
	return nil, fmt.Errorf("%T is no message", v)
}

// Unmarshal implements connect.Codec and encoding.Codec. The bytes are the caller's afterwards.
func (bytesCodec) Unmarshal(data []byte, v any) error {
	switch m := v.(type) {
	case *frame:
		m.data = bytes.Clone(data)
		return nil
	case proto.Message:
		return proto.Unmarshal(data, m)
	}
	return fmt.Errorf("%T is no message", v)
}

// protoCodec is bytesCodec for the browser's end of a method: it refuses requests that are no message of the method. The registry's
// gRPC calls them an internal error.
type protoCodec struct {
	bytesCodec

	method protoreflect.MethodDescriptor
}

// Unmarshal implements connect.Codec.
func (c protoCodec) Unmarshal(data []byte, v any) error {
	if err := proto.Unmarshal(data, dynamicpb.NewMessage(c.method.Input())); err != nil {
		return err
	}
	return c.bytesCodec.Unmarshal(data, v)
}

// jsonCodec has the messages of a method in JSON, for people with curl.
type jsonCodec struct {
	name   string
	method protoreflect.MethodDescriptor
}

// Name implements connect.Codec.
func (c jsonCodec) Name() string { return c.name }

// Marshal implements connect.Codec.
func (c jsonCodec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if f, is := v.(*frame); is {
		m, ok = dynamicpb.NewMessage(c.method.Output()), true
		if err := proto.Unmarshal(f.data, m); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return protojson.Marshal(m)
}

// Unmarshal implements connect.Codec.
func (c jsonCodec) Unmarshal(data []byte, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	m := dynamicpb.NewMessage(c.method.Input())
	err := protojson.Unmarshal(data, m)
	if err == nil {
		f.data, err = proto.Marshal(m)
	}
	return err
}

// codecs decode and encode the messages of one method.
func codecs(m protoreflect.MethodDescriptor) []connect.Option {
	return []connect.Option{
		connect.WithCodec(protoCodec{method: m}),
		connect.WithCodec(jsonCodec{"json", m}),
		connect.WithCodec(jsonCodec{"json; charset=utf-8", m}),
	}
}
