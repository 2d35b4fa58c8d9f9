package envoy_test

import (
	"errors"
	"io"
	"testing"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
)

// fuzzResults are results of the script, and whether they let a request go on.
var fuzzResults = []struct {
	text  string
	allow bool
}{
	{``, true},
	{`false`, false},
	{`{"response_headers":{"set":{"x-a":"1"},"remove":["server"]}}`, true},
	{`{"upstream":"canary","path":"/x","metadata":{"a":1}}`, true},
	{`{"redirect":"/login","cookies":[{"name":"a","value":"1"}]}`, false},
	{`{"alow":false}`, false},
}

// fuzzResponses are results of on_response, and whether they let a response go on.
var fuzzResponses = []struct {
	text string
	goes bool
}{
	{``, true},
	{`false`, false},
	{`{"response_headers":{"set":{"x-b":"1"},"remove":["server"]},"status":418,"body":"x"}`, true},
	{`{"body":"","metadata":{"a":1}}`, true},
	{`{"redirect":"/login","cookies":[{"name":"a","value":"1"}]}`, false},
	{`{"path":"/x"}`, false},
	{`fail`, false},
	{`{"metadata":{"a":1e400}}`, false},
}

var fuzzSettings = []map[string]string{
	{"script": "acme/d"},
	{"script": "acme/d", "body": "buffered"},
	{"script": "acme/d", "what": "is this", "fail": "open"},
	{"fail": "open"},
	{},
	{"script": "acme/d", "response": "headers"},
	{"script": "acme/d", "response": "body"},
	{"script": "acme/d", "response": "body", "body": "buffered"},
	{"script": "acme/d", "response": "yes"},
}

// fuzzMessages returns the messages of Envoy, and some that it does not send.
func fuzzMessages(f *testing.F) (messages []*procv3.ProcessingRequest) {
	f.Helper()
	for _, name := range []string{"request", "old", "post", "body", "trailers", "response"} {
		messages = append(messages, message(f, "process_"+name+".json", &procv3.ProcessingRequest{}))
	}
	unbounded, duplex, observed := proto.CloneOf(messages[2]), proto.CloneOf(messages[2]), proto.CloneOf(messages[0])
	without(unbounded, "content-length")
	duplex.ProtocolConfig.RequestBodyMode = modev3.ProcessingMode_FULL_DUPLEX_STREAMED
	observed.ObservabilityMode = true
	both, upgrade, last := proto.CloneOf(messages[2]), proto.CloneOf(messages[5]), proto.CloneOf(messages[5])
	both.ProtocolConfig.ResponseBodyMode = modev3.ProcessingMode_BUFFERED
	last.GetResponseHeaders().EndOfStream = true
	return append(messages, unbounded, duplex, observed, &procv3.ProcessingRequest{},
		&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{}}},
		&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{}}},
		&procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &procv3.HttpTrailers{}}},
		both, buffering(f), statusOf(upgrade, "101"), last, bodyOf("all\xff"))
}

// FuzzProcess: in whatever order messages come, each gets an answer of its kind, or a denial or an
// error that ends the stream. A request goes on after the script has allowed it, or to send the
// body that the script needs. A response goes on after on_response has, where the settings ask for that, or
// to send the body that it needs. Each of the two decides once at most.
func FuzzProcess(f *testing.F) {
	x := newResponder()
	_, conn := serve(f, grpcsock.Options{Executor: x})
	messages := fuzzMessages(f)
	for _, seed := range [][]byte{
		{0},
		{1, 5},
		{2, 3, 4, 5},
		{2, 4},
		{2, 5},
		{5},
		{3},
		{6},
		{7},
		{8},
		{9},
		{10},
		{0, 11},
		{0, 12},
		{0, 0},
		{14, 5, 17},
		{14, 5, 12},
		{14, 5, 5},
		{14, 16},
		{13, 3, 5, 17},
		{14, 15},
		{0, 3, 4, 5},
		{13, 3, 5, 3, 17},
		{14, 17},
	} {
		for result := range fuzzResults {
			for settings := range fuzzSettings {
				f.Add(byte(result), byte(result+settings), byte(settings), seed)
			}
		}
	}
	f.Fuzz(func(t *testing.T, result, response, settings byte, kinds []byte) {
		s := sequence{
			responder: x, set: fuzzSettings[int(settings)%len(fuzzSettings)],
			allow: fuzzResults[int(result)%len(fuzzResults)].allow, goes: fuzzResponses[int(response)%len(fuzzResponses)].goes,
		}
		x.returns(fuzzResults[int(result)%len(fuzzResults)].text)
		x.responds(fuzzResponses[int(response)%len(fuzzResponses)].text)
		ctx := t.Context()
		for name, value := range s.set {
			ctx = metadata.AppendToOutgoingContext(ctx, "scriptorium-"+name, value)
		}
		stream, err := procv3.NewExternalProcessorClient(conn).Process(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			in := messages[int(kind)%len(messages)]
			if err := stream.Send(in); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			out, err := stream.Recv()
			if calls, _ := x.asked(); calls > 1 || len(x.responded()) > 1 {
				t.Fatalf("the script decided %d times, and about the response %d", calls, len(x.responded()))
			}
			if errors.Is(err, io.EOF) || status.Code(err) == codes.InvalidArgument {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if out.GetImmediateResponse() != nil {
				if out, err := stream.Recv(); !errors.Is(err, io.EOF) {
					t.Fatalf("after a denial: %v, %v", out, err)
				}
				return
			}
			if a, b := kindOf(in, "request"), kindOf(out, "response"); a != b {
				t.Fatalf("the answer to %s is one to %s", a, b)
			}
			s.check(t, in)
		}
	})
}

// sequence checks that what goes on may.
type sequence struct {
	*responder
	set         map[string]string
	allow, goes bool // the request, and the response
	waits       bool // for the body of the request, without a decision
}

// check checks it for a message whose answer is no denial.
func (s *sequence) check(t *testing.T, in *procv3.ProcessingRequest) {
	t.Helper()
	kind := kindOf(in, "request")
	if s.waits && in.GetRequestBody() == nil {
		t.Fatalf("the request goes on at %s, without a decision", kind)
	}
	calls, _ := s.asked()
	s.waits = in.GetRequestHeaders() != nil && calls == 0
	switch {
	case s.waits && (s.set["script"] == "" || s.set["body"] == "" || s.set["what"] != "" || s.set["response"] == "yes"):
		t.Fatalf("the request goes on with the settings %v, without a decision", s.set)
	case calls == 1 && !s.allow:
		t.Fatalf("the request goes on, which the script has denied")
	}
	responded := len(s.responded()) == 1
	if responded && !s.goes {
		t.Fatalf("the response goes on, which on_response has answered")
	}
	waits := s.set["response"] == "body" && in.GetResponseHeaders() != nil && !in.GetResponseHeaders().GetEndOfStream()
	if kind != "" && kind[:3] == "res" && calls == 1 && s.set["response"] != "" && !responded && !waits {
		t.Fatalf("the response goes on at %s, and on_response has not seen it", kind)
	}
}

// kindOf returns which member of a oneof a message has.
func kindOf(m proto.Message, oneof string) string {
	r := m.ProtoReflect()
	for i := range r.Descriptor().Oneofs().Len() {
		if o := r.Descriptor().Oneofs().Get(i); string(o.Name()) == oneof {
			if f := r.WhichOneof(o); f != nil {
				return string(f.Name())
			}
		}
	}
	return ""
}

// FuzzCheck: whatever a caller says of a request, the answer is a consent or a denial, or the
// message is none.
func FuzzCheck(f *testing.F) {
	x := newDecider()
	_, conn := serve(f, grpcsock.Options{Executor: x})
	for _, name := range []string{"check_get.json", "check_post.json"} {
		text, err := proto.Marshal(message(f, name, &authv3.CheckRequest{}))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, byte(0))
	}
	f.Fuzz(func(t *testing.T, text []byte, result byte) {
		req := &authv3.CheckRequest{}
		if proto.Unmarshal(text, req) != nil {
			return
		}
		want := fuzzResults[int(result)%len(fuzzResults)]
		x.returns(want.text)
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		calls, _ := x.asked()
		allowed := resp.GetStatus().GetCode() == 0 && resp.GetOkResponse() != nil
		if denied := resp.GetStatus().GetCode() != 0 && resp.GetDeniedResponse() != nil; allowed == denied {
			t.Fatalf("got %v", resp)
		}
		if allowed && (calls == 1 && !want.allow || calls == 0) && req.GetAttributes().GetContextExtensions()["fail"] != "open" {
			t.Fatalf("allowed after %d calls that returned %s: %v", calls, want.text, resp)
		}
	})
}
