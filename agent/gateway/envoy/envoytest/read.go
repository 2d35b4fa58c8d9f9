package envoytest

import (
	"testing"

	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3" // types of typed_config
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

// Read reads YAML into a message of Envoy, and checks it and what it contains as Envoy does.
func Read[M proto.Message](t *testing.T, text string, m M) M {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(json, m); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, part := range contents(t, m) {
		if v, ok := part.(interface{ ValidateAll() error }); ok {
			if err := v.ValidateAll(); err != nil {
				t.Errorf("%s: %v", part.ProtoReflect().Descriptor().FullName(), err)
			}
		}
	}
	return m
}

// contents returns the message, and those of all typed_config in it.
func contents(t *testing.T, m proto.Message) []proto.Message {
	t.Helper()
	parts := []proto.Message{m}
	var walk func(protoreflect.Message)
	walk = func(r protoreflect.Message) {
		if packed, ok := r.Interface().(*anypb.Any); ok {
			if packed.GetTypeUrl() == "" {
				return // Envoy Gateway enables filters of routes by it
			}
			inner, err := packed.UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, contents(t, inner)...)
			return
		}
		r.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.IsMap() && f.MapValue().Message() != nil:
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					walk(v.Message())
					return true
				})
			case f.IsList() && f.Message() != nil:
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			case !f.IsMap() && f.Message() != nil:
				walk(v.Message())
			}
			return true
		})
	}
	walk(m.ProtoReflect())
	return parts
}

// Parts returns the messages of a type that the configuration contains.
func Parts[M proto.Message](t *testing.T, m proto.Message) (parts []M) {
	t.Helper()
	for _, part := range contents(t, m) {
		if p, ok := part.(M); ok {
			parts = append(parts, p)
		}
	}
	return parts
}
