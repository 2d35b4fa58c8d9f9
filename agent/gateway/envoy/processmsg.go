package envoy

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// processSettings are the settings of ext_proc.
type processSettings struct {
	settings
	body         bool // the decision needs the body
	streamed     bool // which comes in parts
	responseBody bool // on_response needs the body of the response
}

// settingsOf returns the settings of a stream. They are in its initial metadata, where each has
// our prefix.
func settingsOf(ctx context.Context) (*processSettings, error) {
	const field = "initial_metadata"
	md, _ := metadata.FromIncomingContext(ctx)
	values := map[string]string{}
	for key, list := range md {
		name, ours := strings.CutPrefix(key, ownPrefix)
		if !ours {
			continue
		}
		if len(list) != 1 {
			return nil, script.Errorf(script.Invalid, field, "has %.80q %d times: want it once", key, len(list))
		}
		if param, ok := strings.CutPrefix(name, "param-"); ok {
			name = paramPrefix + param
		}
		values[name] = list[0]
	}
	body, hasBody := values["body"]
	if hasBody && body != "buffered" && body != "streamed" {
		return nil, script.Errorf(script.Invalid, field, "body is %.40q: want buffered or streamed, or leave it out", body)
	}
	response, hasResponse := values["response"]
	if hasResponse && response != "headers" && response != "body" {
		return nil, script.Errorf(script.Invalid, field, "response is %.40q: want headers or body, or leave it out", response)
	}
	delete(values, "body")
	delete(values, "response")
	s, err := parseSettings(field, values)
	if err != nil {
		return nil, err
	}
	s.Response = hasResponse
	return &processSettings{settings: *s, body: hasBody, streamed: body == "streamed", responseBody: response == "body"}, nil
}

// attributesKey is under what Envoy sends attributes.
const attributesKey = "envoy.filters.http.ext_proc"

// processed returns the request whose headers these are.
func processed(in *procv3.ProcessingRequest, h *procv3.HttpHeaders) (*request, error) {
	list := h.GetHeaders().GetHeaders()
	r := &request{Request: decision.Request{Headers: make(map[string][]string, len(list))}}
	for _, header := range list {
		r.old = r.old || header.GetValue() != ""
		value := textOf(header)
		switch header.GetKey() {
		case ":method":
			r.Method = value
		case ":scheme":
			r.Scheme = value
		case ":authority":
			r.Host = value
		case pathHeader:
			r.setTarget(value)
		default:
			r.addHeader(header.GetKey(), value)
		}
	}
	attributes := in.GetAttributes()[attributesKey].GetFields()
	// Clients of gRPC have no pseudo headers, and forward_rules of Envoy can hide them.
	for name, field := range map[string]*string{"request.method": &r.Method, "request.scheme": &r.Scheme, "request.host": &r.Host} {
		if *field == "" {
			*field = attributes[name].GetStringValue()
		}
	}
	if r.Path == "" {
		r.setTarget(attributes["request.path"].GetStringValue())
	}
	if r.Method == "" || r.Path == "" && r.Method != http.MethodConnect {
		return nil, script.Errorf(script.Invalid, "request_headers", "have no :method or :path: let forward_rules pass them, or list request.method and request.path in request_attributes")
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	r.RemoteAddr = attributes["source.address"].GetStringValue()
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		r.RemoteAddr = host
	}
	r.ClientCertificate = attributes["connection.subject_peer_certificate"].GetStringValue()
	r.Route = attributes["xds.route_name"].GetStringValue()
	return r, nil
}

// ofHeaders answers headers of a request.
func ofHeaders(c *procv3.CommonResponse) *procv3.ProcessingResponse {
	return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_RequestHeaders{RequestHeaders: &procv3.HeadersResponse{Response: c}}}
}

// ofBody answers the body of a request.
func ofBody(c *procv3.CommonResponse) *procv3.ProcessingResponse {
	return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_RequestBody{RequestBody: &procv3.BodyResponse{Response: c}}}
}

// ofTrailers answers trailers of a request.
func ofTrailers() *procv3.ProcessingResponse {
	return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_RequestTrailers{RequestTrailers: &procv3.TrailersResponse{}}}
}

// ofResponseHeaders answers headers of a response.
func ofResponseHeaders(c *procv3.CommonResponse) *procv3.ProcessingResponse {
	return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &procv3.HeadersResponse{Response: c}}}
}

// ofResponseBody answers the body of a response.
func ofResponseBody(c *procv3.CommonResponse) *procv3.ProcessingResponse {
	return &procv3.ProcessingResponse{Response: &procv3.ProcessingResponse_ResponseBody{ResponseBody: &procv3.BodyResponse{Response: c}}}
}

// metadataNamespace is where the metadata of decisions go.
const metadataNamespace = "scriptorium"

// inNamespace returns metadataOf as ext_proc wants it; nil if there is none.
func inNamespace(text json.RawMessage, by ran) (*structpb.Struct, error) {
	m, err := metadataOf(text, by)
	if m == nil || err != nil {
		return nil, err
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{metadataNamespace: structpb.NewStructValue(m)}}, nil
}

// mostDetails bounds what Envoy logs about a denial.
const mostDetails = 200

// deny ends the process, and answers the client's request. cause is why there is no decision of a
// script, or nil.
func (p *process) deny(d decision.Decision, cause error) *procv3.ProcessingResponse {
	p.phase = ended
	metadata, err := inNamespace(d.Metadata, p.ran)
	if err != nil {
		return p.deny(refused(err), err)
	}
	details := "scriptorium_denied"
	if cause != nil {
		details = strings.ToValidUTF8("scriptorium_no_decision{"+cause.Error()[:min(len(cause.Error()), mostDetails)]+"}", "")
	}
	// The response that Envoy makes has no headers yet, so there are none to remove.
	headers := changes{lines: changesOf(d.Response, func(string) bool { return false }).lines}
	return &procv3.ProcessingResponse{
		Response: &procv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &procv3.ImmediateResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(d.Status)},
			Headers: headers.mutation(p.old),
			Body:    []byte(d.Body),
			Details: details,
		}},
		DynamicMetadata: metadata,
	}
}

// isGRPC reports whether the stream is of gRPC's Go client. It sends values as bytes, as newer releases
// of Envoy do, but reads them as text.
func isGRPC(ctx context.Context) bool {
	agent := metadata.ValueFromIncomingContext(ctx, "user-agent")
	return len(agent) > 0 && strings.HasPrefix(agent[0], "grpc-go/")
}

// mutation returns the changes as ext_proc reads them: nil for none. old releases read values as
// text, and newer ones as bytes; neither takes both.
func (c changes) mutation(old bool) *procv3.HeaderMutation {
	if len(c.remove)+len(c.lines) == 0 {
		return nil
	}
	m := &procv3.HeaderMutation{RemoveHeaders: c.remove}
	for _, l := range c.lines {
		option := l.option()
		if !old {
			option.Header = &corev3.HeaderValue{Key: l.name, RawValue: []byte(l.value)}
		}
		option.Append = wrapperspb.Bool(l.add) //nolint:staticcheck // releases that know append_action here read this first, and others this alone
		m.SetHeaders = append(m.SetHeaders, option)
	}
	return m
}

// sizeOfChanges returns about how many bytes the changes take.
func sizeOfChanges(c decision.Changes) int64 {
	const each = 64
	n := 0
	for _, name := range c.Remove {
		n += each + len(name)
	}
	for _, list := range [][]decision.Header{c.Set, c.Append} {
		for _, h := range list {
			n += each + len(h.Name) + len(h.Value)
		}
	}
	return int64(n)
}
