package envoy_test

import (
	"errors"
	"io"
	"maps"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
)

// process opens a stream with settings, as Envoy does at the first message.
func process(t *testing.T, conn *grpc.ClientConn, settings map[string]string) procv3.ExternalProcessor_ProcessClient {
	t.Helper()
	ctx := t.Context()
	for name, value := range settings {
		ctx = metadata.AppendToOutgoingContext(ctx, "scriptorium-"+name, value)
	}
	stream, err := procv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// exchange sends a message, and returns the answer.
func exchange(t *testing.T, stream procv3.ExternalProcessor_ProcessClient, in *procv3.ProcessingRequest) *procv3.ProcessingResponse {
	t.Helper()
	if err := stream.Send(in); err != nil {
		t.Fatal(err)
	}
	out, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ends checks that the agent has ended the stream without an error.
func ends(t *testing.T, name string, stream procv3.ExternalProcessor_ProcessClient) {
	t.Helper()
	if out, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("%s: the stream goes on with %v, %v", name, out, err)
	}
}

// Values in base64.
const (
	base64Ann    = "YW5u"             // ann
	base64Path   = "L3YyP2l0ZW09MQ==" // /v2?item=1
	base64Canary = "Y2FuYXJ5"         // canary
)

// TestProcess: what Envoy gets at the headers of a request. The stream then ends, unless the
// decision changes the response.
func TestProcess(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	for _, tt := range []struct {
		name, request, result, want string
		response                    string // what becomes of the response; "" if the stream ends before
	}{
		{"nothing", "process_request.json", ``, `{"requestHeaders":{"response":{"headerMutation":{"removeHeaders":["scriptorium-upstream"]},"clearRouteCache":true}}}`, ""},
		{"nothing, and nothing forged", "process_old.json", ``, `{"requestHeaders":{"response":{"headerMutation":{"removeHeaders":["scriptorium-upstream"]}}}}`, ""},
		{"headers", "process_request.json", `{"headers":{"set":{"x-user":"ann"},"append":{"accept":"ann"},"remove":["cookie"]}}`, `{"requestHeaders":{"response":{"clearRouteCache":true,"headerMutation":{
			"removeHeaders":["cookie","scriptorium-upstream"],"setHeaders":[
			{"header":{"key":"x-user","rawValue":"` + base64Ann + `"},"append":false,"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header":{"key":"accept","rawValue":"` + base64Ann + `"},"append":true}]}}}}`, ""},
		{"headers of an older Envoy", "process_old.json", `{"headers":{"set":{"x-user":"ann"}}}`, `{"requestHeaders":{"response":{"clearRouteCache":true,"headerMutation":{
			"removeHeaders":["scriptorium-upstream"],"setHeaders":[
			{"header":{"key":"x-user","value":"ann"},"append":false,"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}]}}}}`, ""},
		{"path, upstream and metadata", "process_request.json", `{"path":"/v2","upstream":"canary","metadata":{"plan":"gold"}}`, `{"requestHeaders":{"response":{"clearRouteCache":true,"headerMutation":{"setHeaders":[
			{"header":{"key":"scriptorium-upstream","rawValue":"` + base64Canary + `"},"append":false,"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header":{"key":":path","rawValue":"` + base64Path + `"},"append":false,"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}]}}},
			"dynamicMetadata":{"scriptorium":{"plan":"gold"}}}`, ""},
		{
			"a response", "process_request.json", `{"response_headers":{"set":{"x-user":"ann"},"append":{"vary":"ann"},"remove":["server"]}}`,
			`{"requestHeaders":{"response":{"headerMutation":{"removeHeaders":["scriptorium-upstream"]},"clearRouteCache":true}}}`,
			`{"responseHeaders":{"response":{"headerMutation":{"removeHeaders":["server"],"setHeaders":[
			{"header":{"key":"x-user","rawValue":"` + base64Ann + `"},"append":false,"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header":{"key":"vary","rawValue":"` + base64Ann + `"},"append":true}]}}}}`,
		},
		{"deny", "process_old.json", `{"allow":false,"status":429,"body":"slow","metadata":{"why":"quota"},"response_headers":{"set":{"x-user":"ann"},"append":{"set-cookie":["a","b"]}}}`, `{"immediateResponse":{"status":{"code":429},"body":"c2xvdw==","details":"scriptorium_denied","headers":{"setHeaders":[
			{"header":{"key":"x-user","value":"ann"},"append":false,"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"},
			{"header":{"key":"set-cookie","value":"a"},"append":true},
			{"header":{"key":"set-cookie","value":"b"},"append":true}]}},"dynamicMetadata":{"scriptorium":{"why":"quota"}}}`, ""},
	} {
		x.returns(tt.result)
		stream := process(t, conn, map[string]string{"script": "acme/d", "param-env": "prod"})
		got := exchange(t, stream, message(t, tt.request, &procv3.ProcessingRequest{}))
		expectVersion(t, tt.name, got)
		expect(t, tt.name, got, &procv3.ProcessingResponse{}, tt.want)
		if tt.response != "" {
			expect(t, tt.name, exchange(t, stream, message(t, "process_trailers.json", &procv3.ProcessingRequest{})), &procv3.ProcessingResponse{}, `{"requestTrailers":{}}`)
			expect(t, tt.name, exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{})), &procv3.ProcessingResponse{}, tt.response)
		}
		ends(t, tt.name, stream)
		if tt.request == "process_request.json" {
			_, argument := x.asked()
			expectArgument(t, argument, "process_request.argument.json")
		}
	}
}

// TestProcessBody: with the setting, the script decides at the body, once.
func TestProcessBody(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	settings := map[string]string{"script": "acme/d", "body": "buffered"}
	for result, want := range map[string]string{
		``: `{"requestBody":{"response":{"headerMutation":{"removeHeaders":["scriptorium-upstream"]}}}}`,
		`{"headers":{"set":{"x-user":"ann"}}}`: `{"requestBody":{"response":{"clearRouteCache":true,"headerMutation":{"removeHeaders":["scriptorium-upstream"],"setHeaders":[
			{"header":{"key":"x-user","rawValue":"` + base64Ann + `"},"append":false,"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}]}}}}`,
		`{"allow":false}`: `{"immediateResponse":{"status":{"code":403},"details":"scriptorium_denied"}}`,
	} {
		x.returns(result)
		stream := process(t, conn, settings)
		expect(t, "headers", exchange(t, stream, message(t, "process_post.json", &procv3.ProcessingRequest{})), &procv3.ProcessingResponse{}, `{"requestHeaders":{}}`)
		got := exchange(t, stream, message(t, "process_body.json", &procv3.ProcessingRequest{}))
		expectVersion(t, result, got)
		expect(t, "body", got, &procv3.ProcessingResponse{}, want)
		ends(t, result, stream)
		calls, argument := x.asked()
		if calls != 1 {
			t.Errorf("the script ran %d times", calls)
		}
		expectArgument(t, argument, "process_post.argument.json")
	}
}

// without returns the headers without one of them.
func without(in *procv3.ProcessingRequest, name string) {
	h := in.GetRequestHeaders().GetHeaders()
	for i, header := range h.GetHeaders() {
		if header.GetKey() == name {
			h.Headers = append(h.Headers[:i:i], h.Headers[i+1:]...)
			return
		}
	}
}

// TestProcessWithoutDecision: no request goes on without a decision, in whatever way Envoy or a
// client keeps the script from one; but where the route is open and the script at fault.
func TestProcessWithoutDecision(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	open := map[string]string{"script": "acme/d", "fail": "open"}
	body := map[string]string{"script": "acme/d", "fail": "open", "body": "buffered"}
	for _, tt := range []struct {
		name, request, next, result string
		settings                    map[string]string
		spoil                       func(*procv3.ProcessingRequest)
		status                      int32
		calls                       int
	}{
		{name: "no settings", status: 503},
		{name: "an unknown setting", settings: map[string]string{"script": "acme/d", "fail": "open", "fial": "closed"}, status: 503},
		{name: "an unknown body", settings: map[string]string{"script": "acme/d", "fail": "open", "body": "parts"}, status: 503},
		{name: "a script that fails", settings: map[string]string{"script": "acme/fail"}, status: 503},
		{name: "a script that takes too long", settings: map[string]string{"script": "acme/wait", "timeout": "1ms"}, status: 503},
		{name: "no decision", settings: map[string]string{"script": "acme/d"}, result: `{"alow":false}`, status: 503, calls: 1},
		{name: "metadata that is none", settings: open, result: `{"allow":false,"metadata":{"a":1e400}}`, status: 503, calls: 1},
		{name: "no path", settings: open, spoil: func(in *procv3.ProcessingRequest) { without(in, ":path") }, status: 503},
		{name: "a fragment", settings: open, spoil: func(in *procv3.ProcessingRequest) {
			without(in, ":path")
			headers := in.GetRequestHeaders().GetHeaders()
			headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: ":path", RawValue: []byte("/admin#/x")})
		}, status: 503},
		{name: "no method", settings: open, spoil: func(in *procv3.ProcessingRequest) { without(in, ":method") }, status: 503},
		{name: "bodies that come in parts", settings: open, spoil: func(in *procv3.ProcessingRequest) {
			in.ProtocolConfig.RequestBodyMode = modev3.ProcessingMode_FULL_DUPLEX_STREAMED
		}, status: 503},
		{name: "messages of gRPC", settings: open, spoil: func(in *procv3.ProcessingRequest) {
			in.ProtocolConfig.ResponseBodyMode = modev3.ProcessingMode_GRPC
		}, status: 503},
		{name: "a body that does not come", request: "process_post.json", settings: body, spoil: func(in *procv3.ProcessingRequest) {
			in.ProtocolConfig.RequestBodyMode = modev3.ProcessingMode_NONE
		}, status: 503},
		{name: "a release that does not say whether it comes", request: "process_post.json", settings: body, spoil: func(in *procv3.ProcessingRequest) {
			in.ProtocolConfig = nil
		}, status: 503},
		{name: "a body of unknown length", request: "process_post.json", settings: body, spoil: func(in *procv3.ProcessingRequest) { without(in, "content-length") }, status: 411},
		{name: "trailers in place of the body", request: "process_post.json", next: "process_trailers.json", settings: body, status: 503},
		{name: "a response in place of the body", request: "process_post.json", next: "process_response.json", settings: body, status: 503},
	} {
		x.returns(tt.result)
		if tt.request == "" {
			tt.request = "process_request.json"
		}
		in := message(t, tt.request, &procv3.ProcessingRequest{})
		if tt.spoil != nil {
			tt.spoil(in)
		}
		stream := process(t, conn, tt.settings)
		out := exchange(t, stream, in)
		if tt.next != "" {
			out = exchange(t, stream, message(t, tt.next, &procv3.ProcessingRequest{}))
		}
		denial := out.GetImmediateResponse()
		calls, _ := x.asked()
		if int32(denial.GetStatus().GetCode()) != tt.status || calls != tt.calls || len(denial.GetHeaders().GetSetHeaders()) != 1 {
			t.Errorf("%s: %v, after %d calls", tt.name, out, calls)
		}
		ends(t, tt.name, stream)
	}
	for _, script := range []string{"acme/fail", "acme/none", "acme/panic"} {
		settings := maps.Clone(open)
		settings["script"] = script
		stream := process(t, conn, settings)
		if out := exchange(t, stream, message(t, "process_request.json", &procv3.ProcessingRequest{})); out.GetRequestHeaders() == nil {
			t.Errorf("%s, open: %v", script, out)
		}
		out := exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{}))
		if set := out.GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders(); len(set) != 1 || set[0].GetHeader().GetKey() != "scriptorium-reason" {
			t.Errorf("%s, open: %v", script, out)
		}
		ends(t, script, stream)
	}
}

// TestProcessOrder: messages that do not come in this order end the stream with an error that
// says so. A response of Envoy's own, before it asked, is left as it is.
func TestProcessOrder(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	observe := message(t, "process_request.json", &procv3.ProcessingRequest{})
	observe.ObservabilityMode = true
	request, post := message(t, "process_request.json", &procv3.ProcessingRequest{}), message(t, "process_post.json", &procv3.ProcessingRequest{})
	for name, messages := range map[string][]*procv3.ProcessingRequest{
		"a body first":          {message(t, "process_body.json", &procv3.ProcessingRequest{})},
		"trailers first":        {message(t, "process_trailers.json", &procv3.ProcessingRequest{})},
		"no message":            {{}},
		"headers twice":         {request, request},
		"headers twice, a body": {post, request},
		"a response's body":     {request, {Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{}}}},
		"a response's trailers": {{Request: &procv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &procv3.HttpTrailers{}}}},
		"a mere observer":       {observe},
	} {
		x.returns(`{"response_headers":{"set":{"x-a":"1"}}}`)
		settings := map[string]string{"script": "acme/d"}
		if messages[0] == post {
			settings["body"] = "buffered"
		}
		stream := process(t, conn, settings)
		last := len(messages) - 1
		for _, in := range messages[:last] {
			exchange(t, stream, in)
		}
		if err := stream.Send(messages[last]); err != nil {
			t.Fatal(err)
		}
		if out, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	stream := process(t, conn, nil)
	expect(t, "a response first", exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{})), &procv3.ProcessingResponse{}, `{"responseHeaders":{}}`)
	ends(t, "a response first", stream)
}

// TestProcessTwoSettings: a setting that comes twice is none.
func TestProcessTwoSettings(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "scriptorium-script", "acme/d", "scriptorium-script", "acme/echo", "scriptorium-fail", "open")
	stream, err := procv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if out := exchange(t, stream, message(t, "process_request.json", &procv3.ProcessingRequest{})); out.GetImmediateResponse().GetStatus().GetCode() != 503 {
		t.Errorf("got %v", out)
	}
}
