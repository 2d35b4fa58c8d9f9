package envoy_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/script"
)

// responder is a decider whose script acme/d has an on_response that returns a result, and keeps its
// arguments.
type responder struct {
	*decider
	mu     sync.Mutex
	result string
	calls  []*gateway.Call
}

func newResponder() *responder {
	x := &responder{decider: newDecider()}
	x.SetOnResponse("acme/d", x.respond)
	return x
}

func (x *responder) respond(ctx context.Context, call *gateway.Call) ([][]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	kept := *call
	kept.Args = [][]byte{append([]byte{}, call.Args[0]...), append([]byte{}, call.Args[1]...)}
	x.calls = append(x.calls, &kept)
	switch x.result {
	case "":
		return nil, nil
	case "wait":
		<-ctx.Done()
		return nil, script.Errorf(script.Timeout, "", "the call's time ran out")
	case "fail":
		return nil, script.Errorf(script.Script, "", "a fault")
	}
	return [][]byte{[]byte(x.result)}, nil
}

// responds sets the result of on_response.
func (x *responder) responds(result string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.result, x.calls = result, nil
}

// responded returns the calls of on_response.
func (x *responder) responded() []*gateway.Call {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls
}

// buffering is a message with the headers of a request, by an Envoy that buffers bodies of responses.
func buffering(tb testing.TB) *procv3.ProcessingRequest {
	tb.Helper()
	in := message(tb, "process_request.json", &procv3.ProcessingRequest{})
	in.ProtocolConfig = &procv3.ProtocolConfiguration{ResponseBodyMode: modev3.ProcessingMode_BUFFERED}
	return in
}

func bodyOf(text string) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseBody{ResponseBody: &procv3.HttpBody{Body: []byte(text), EndOfStream: true}}}
}

// trailers are those of a response.
var trailers = &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &procv3.HttpTrailers{}}}

const set = `"append":false,"appendAction":"OVERWRITE_IF_EXISTS_OR_ADD"}`

// TestOnResponse: what Envoy gets at the headers of a response, and at its body where the settings ask
// for that. The stream then ends.
func TestOnResponse(t *testing.T) {
	x := newResponder()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	const hello = "aGVsbG8="
	for _, tt := range []struct {
		name, phase, request, result string
		headers, body                string // the answers; a body that is "" does not come
	}{
		{"nothing", "headers", ``, ``, `{"responseHeaders":{"response":{}}}`, ""},
		{"true", "headers", ``, `true`, `{"responseHeaders":{"response":{}}}`, ""},
		{"headers", "headers", ``, `{"response_headers":{"set":{"x-user":"ann"},"append":{"vary":"ann"},"remove":["server"]}}`, `{"responseHeaders":{"response":{"headerMutation":{"removeHeaders":["server"],"setHeaders":[
			{"header":{"key":"x-user","rawValue":"` + base64Ann + `"},` + set + `,{"header":{"key":"vary","rawValue":"` + base64Ann + `"},"append":true}]}}}}`, ""},
		{"the decision's headers, too", "headers", `{"response_headers":{"set":{"x-user":"bob","x-kept":"ann"}}}`, `{"response_headers":{"set":{"x-user":"ann"}}}`, `{"responseHeaders":{"response":{"headerMutation":{"setHeaders":[
			{"header":{"key":"x-kept","rawValue":"` + base64Ann + `"},` + set + `,{"header":{"key":"x-user","rawValue":"` + base64Ann + `"},` + set + `]}}}}`, ""},
		{"a status", "headers", ``, `{"status":418}`, `{"responseHeaders":{"response":{"headerMutation":{"setHeaders":[{"header":{"key":":status","rawValue":"NDE4"},` + set + `]}}}}`, ""},
		{"a body", "headers", ``, `{"body":"hello"}`, `{"responseHeaders":{"response":{"status":"CONTINUE_AND_REPLACE","bodyMutation":{"body":"` + hello + `"},"headerMutation":{"removeHeaders":["content-encoding"]}}}}`, ""},
		{"no body", "headers", ``, `{"body":""}`, `{"responseHeaders":{"response":{"status":"CONTINUE_AND_REPLACE","bodyMutation":{"clearBody":true},"headerMutation":{"removeHeaders":["content-encoding"]}}}}`, ""},
		{"metadata", "headers", `{"metadata":{"a":1}}`, `{"metadata":{"plan":"gold"}}`, `{"responseHeaders":{"response":{}},"dynamicMetadata":{"scriptorium":{"plan":"gold"}}}`, ""},
		{"an answer", "headers", `{"response_headers":{"set":{"x-user":"ann"}}}`, `{"allow":false,"status":451,"body":"hello"}`, `{"immediateResponse":{"status":{"code":451},"body":"` + hello + `","details":"scriptorium_denied","headers":{"setHeaders":[
			{"header":{"key":"x-user","rawValue":"` + base64Ann + `"},` + set + `]}}}`, ""},
		{"false", "headers", ``, `false`, `{"immediateResponse":{"status":{"code":403},"details":"scriptorium_denied"}}`, ""},
		{"a redirect", "headers", ``, `{"redirect":"hello"}`, `{"immediateResponse":{"status":{"code":302},"details":"scriptorium_denied","headers":{"setHeaders":[{"header":{"key":"location","rawValue":"` + hello + `"},` + set + `]}}}`, ""},
		{"nothing of a body", "body", ``, ``, `{"responseHeaders":{}}`, `{"responseBody":{"response":{}}}`},
		{"a body for a body", "body", ``, `{"body":"hello","status":418}`, `{"responseHeaders":{}}`, `{"responseBody":{"response":{"bodyMutation":{"body":"` + hello + `"},"headerMutation":{"removeHeaders":["content-encoding"],"setHeaders":[
			{"header":{"key":":status","rawValue":"NDE4"},` + set + `]}}}}`},
		{"no body for a body", "body", ``, `{"body":"","response_headers":{"set":{"content-encoding":"ann"}}}`, `{"responseHeaders":{}}`, `{"responseBody":{"response":{"bodyMutation":{"clearBody":true},"headerMutation":{"setHeaders":[
			{"header":{"key":"content-encoding","rawValue":"` + base64Ann + `"},` + set + `]}}}}`},
		{"an answer to a body", "body", ``, `false`, `{"responseHeaders":{}}`, `{"immediateResponse":{"status":{"code":403},"details":"scriptorium_denied"}}`},
	} {
		x.returns(tt.request)
		x.responds(tt.result)
		stream := process(t, conn, map[string]string{"script": "acme/d", "response": tt.phase, "param-env": "prod"})
		if out := exchange(t, stream, buffering(t)); out.GetRequestHeaders() == nil || len(x.responded()) != 0 {
			t.Fatalf("%s: %v", tt.name, out)
		}
		got := exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{}))
		argument := `{"status":200,"headers":{"content-type":"text/html","server":"app"}}`
		if tt.body != "" {
			expect(t, tt.name, got, &procv3.ProcessingResponse{}, tt.headers)
			got, tt.headers = exchange(t, stream, bodyOf("all\x00\xff")), tt.body
			argument = `{"status":200,"headers":{"content-type":"text/html","server":"app"},"body":"all\u0000\ufffd"}`
		}
		expectVersion(t, tt.name, got)
		expect(t, tt.name, got, &procv3.ProcessingResponse{}, tt.headers)
		ends(t, tt.name, stream)
		calls := x.responded()
		if len(calls) != 1 || calls[0].Script != "acme/d@7" || !calls[0].OnResponse {
			t.Fatalf("%s: %d calls, %+v", tt.name, len(calls), calls)
		}
		expectArgument(t, string(calls[0].Args[0]), "process_request.argument.json")
		if tt.request == "" && string(calls[0].Args[1]) != argument {
			t.Errorf("%s: on_response gets %s, want %s", tt.name, calls[0].Args[1], argument)
		}
	}
}

// TestOnResponseSeesChanges: on_response gets the response as the decision about the request has left
// it, and the request as the script has seen it, without its body.
func TestOnResponseSeesChanges(t *testing.T) {
	x := newResponder()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	x.returns(`{"response_headers":{"set":{"server":"us"},"append":{"x-more":"1"}}}`)
	x.responds("")
	stream := process(t, conn, map[string]string{"script": "acme/d", "body": "buffered", "response": "headers"})
	exchange(t, stream, message(t, "process_post.json", &procv3.ProcessingRequest{}))
	exchange(t, stream, message(t, "process_body.json", &procv3.ProcessingRequest{}))
	exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{}))
	args := x.responded()[0].Args
	if got := string(args[1]); got != `{"status":200,"headers":{"content-type":"text/html","server":"us","x-more":"1"}}` {
		t.Errorf("the response is %s", got)
	}
	_, argument := x.asked()
	var request, seen map[string]any
	if err := json.Unmarshal([]byte(argument), &request); err != nil || request["body"] == nil {
		t.Fatalf("%s, %v", argument, err)
	}
	delete(request, "body")
	want, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(args[0], &seen); err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(seen); string(got) != string(want) {
		t.Errorf("the request is %s, want %s", got, want)
	}
}

// TestOnResponseWithout: without the setting, without the function, without a decision, and after a
// denial, no function sees the response, and no stream waits for it.
func TestOnResponseWithout(t *testing.T) {
	x := newResponder()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	x.Set("acme/other", x.decide)
	x.SetOnError("acme/fail", script.OnError{Policy: script.PolicyOpen})
	x.SetOnResponse("acme/fail", x.respond)
	for _, tt := range []struct {
		name, result string
		settings     map[string]string
		waits        bool // for headers of the response that the agent changes itself
	}{
		{"no setting", ``, map[string]string{"script": "acme/d"}, false},
		{"no function", ``, map[string]string{"script": "acme/other", "response": "body"}, false},
		{"a denial", `false`, map[string]string{"script": "acme/d", "response": "headers"}, false},
		{"no decision", ``, map[string]string{"script": "acme/fail", "response": "headers"}, true},
	} {
		x.returns(tt.result)
		x.responds(`false`)
		stream := process(t, conn, tt.settings)
		exchange(t, stream, buffering(t))
		if tt.waits {
			if out := exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{})); out.GetResponseHeaders() == nil {
				t.Errorf("%s: %v", tt.name, out)
			}
		}
		ends(t, tt.name, stream)
		if n := len(x.responded()); n != 0 {
			t.Errorf("%s: on_response ran %d times", tt.name, n)
		}
	}
}

// statusOf returns the message with another status.
func statusOf(in *procv3.ProcessingRequest, status string) *procv3.ProcessingRequest {
	in.GetResponseHeaders().GetHeaders().GetHeaders()[0].RawValue = []byte(status)
	return in
}

// TestResponseWithoutDecision: a response without a decision does not reach the client, unless the
// route or the script is open: then it is as it was, and says why.
func TestResponseWithoutDecision(t *testing.T) {
	x := newResponder()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	closed, open := map[string]string{"script": "acme/d", "response": "headers"}, map[string]string{"script": "acme/d", "response": "headers", "fail": "open"}
	many := `{"response_headers":{"append":{"x-f":["` + strings.Repeat(`1","`, 60) + `1"]}}}`
	for _, tt := range []struct {
		name, request, result, status string
		onError                       script.OnError
		settings                      map[string]string
		want                          int32 // status of the answer; 0 if the response goes on
		reason                        string
	}{
		{name: "a fault", result: "fail", settings: closed, want: 503, reason: "SCRIPT"},
		{name: "a fault, open", result: "fail", settings: open, reason: "SCRIPT"},
		{name: "a fault, the script is open", result: "fail", onError: script.OnError{Policy: script.PolicyOpen}, settings: closed, reason: "SCRIPT"},
		{name: "a fault, with an answer", result: "fail", onError: script.OnError{Status: 502, Body: "later"}, settings: closed, want: 502, reason: "SCRIPT"},
		{name: "no end", result: "wait", settings: map[string]string{"script": "acme/d", "response": "headers", "timeout": "10ms"}, want: 503, reason: "TIMEOUT"},
		{name: "a misspelled member", result: `{"alow":false}`, settings: closed, want: 503, reason: "INVALID"},
		{name: "text", result: `"no"`, settings: closed, want: 503, reason: "INVALID"},
		{name: "the request's headers", result: `{"headers":{"set":{"x":"1"}}}`, settings: closed, want: 503, reason: "INVALID"},
		{name: "a path", result: `{"path":"/x"}`, settings: open, reason: "INVALID"},
		{name: "an upstream", result: `{"upstream":"x"}`, settings: closed, want: 503, reason: "INVALID"},
		{name: "a status that is none", result: `{"status":100}`, settings: closed, want: 503, reason: "INVALID"},
		{name: "a header that frames", result: `{"response_headers":{"set":{"content-length":"1"}}}`, settings: closed, want: 503, reason: "INVALID"},
		{name: "a status as a header", result: `{"response_headers":{"set":{":status":"200"}}}`, settings: closed, want: 503, reason: "INVALID"},
		{name: "a header with a line", result: `{"response_headers":{"set":{"x":"1\r\ny: 2"}}}`, settings: closed, want: 503, reason: "INVALID"},
		{name: "a body of no body", result: `{"body":"x"}`, status: "304", settings: closed, want: 503, reason: "INVALID"},
		{name: "no body for a body", result: `{"status":204}`, settings: closed, want: 503, reason: "INVALID"},
		{name: "another status of an upgrade", result: `{"status":200}`, status: "101", settings: closed, want: 503, reason: "INVALID"},
		{name: "more than one may", request: many, result: many, settings: closed, want: 503, reason: "INVALID"},
		{name: "metadata that Envoy cannot read", result: `{"metadata":{"a":` + strings.Repeat(`[`, 30) + strings.Repeat(`]`, 30) + `}}`, settings: closed, want: 503, reason: "INVALID"},
		{name: "metadata that is none, open", result: `{"allow":false,"metadata":{"a":1e400}}`, settings: open, reason: "INVALID"},
	} {
		x.SetOnError("acme/d", tt.onError)
		x.returns(tt.request)
		x.responds(tt.result)
		stream := process(t, conn, tt.settings)
		exchange(t, stream, message(t, "process_request.json", &procv3.ProcessingRequest{}))
		in := message(t, "process_response.json", &procv3.ProcessingRequest{})
		if tt.status != "" {
			statusOf(in, tt.status)
		}
		out := exchange(t, stream, in)
		var headers []*corev3.HeaderValueOption
		if tt.want == 0 {
			common := out.GetResponseHeaders().GetResponse()
			headers = common.GetHeaderMutation().GetSetHeaders()
			if out.GetResponseHeaders() == nil || common.GetBodyMutation() != nil || len(common.GetHeaderMutation().GetRemoveHeaders()) != 0 {
				t.Errorf("%s: %v", tt.name, out)
			}
		} else {
			headers = out.GetImmediateResponse().GetHeaders().GetSetHeaders()
		}
		last := ""
		for _, h := range headers {
			if h.GetHeader().GetKey() == "scriptorium-reason" {
				last = string(h.GetHeader().GetRawValue())
			}
		}
		if code := int32(out.GetImmediateResponse().GetStatus().GetCode()); code != tt.want || last != tt.reason {
			t.Errorf("%s: %v", tt.name, out)
		}
		ends(t, tt.name, stream)
	}
}

// TestResponseModes: on_response gets no body that it did not ask for, and no response goes on if the
// body does not come that it needs.
func TestResponseModes(t *testing.T) {
	x := newResponder()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	x.returns("")
	x.responds("")
	open := func(phase string, request, response modev3.ProcessingMode_BodySendMode) (procv3.ExternalProcessor_ProcessClient, *procv3.ProcessingResponse) {
		in := message(t, "process_request.json", &procv3.ProcessingRequest{})
		in.ProtocolConfig = &procv3.ProtocolConfiguration{RequestBodyMode: request, ResponseBodyMode: response}
		stream := process(t, conn, map[string]string{"script": "acme/d", "response": phase, "fail": "open"})
		return stream, exchange(t, stream, in)
	}
	const none, buffered, streamed, partial, duplex = modev3.ProcessingMode_NONE, modev3.ProcessingMode_BUFFERED, modev3.ProcessingMode_STREAMED, modev3.ProcessingMode_BUFFERED_PARTIAL, modev3.ProcessingMode_FULL_DUPLEX_STREAMED
	for _, mode := range []modev3.ProcessingMode_BodySendMode{none, streamed, partial, duplex} {
		if stream, out := open("body", none, mode); out.GetImmediateResponse().GetStatus().GetCode() != 503 {
			t.Errorf("%s: %v", mode, out)
		} else {
			ends(t, mode.String(), stream)
		}
	}
	for _, tt := range []struct {
		phase             string
		request, response modev3.ProcessingMode_BodySendMode
		want              *modev3.ProcessingMode
	}{
		{"headers", none, none, nil},
		{"body", none, buffered, nil},
		{"headers", buffered, none, &modev3.ProcessingMode{ResponseHeaderMode: modev3.ProcessingMode_SEND, ResponseTrailerMode: modev3.ProcessingMode_SKIP}},
		{"headers", none, streamed, &modev3.ProcessingMode{ResponseHeaderMode: modev3.ProcessingMode_SEND, ResponseTrailerMode: modev3.ProcessingMode_SKIP}},
		{"body", streamed, buffered, &modev3.ProcessingMode{ResponseHeaderMode: modev3.ProcessingMode_SEND, ResponseBodyMode: buffered, ResponseTrailerMode: modev3.ProcessingMode_SEND}},
	} {
		_, out := open(tt.phase, tt.request, tt.response)
		if got := out.GetModeOverride(); got.String() != tt.want.String() || (got == nil) != (tt.want == nil) {
			t.Errorf("%s: %s, %s: %v, want %v", tt.phase, tt.request, tt.response, got, tt.want)
		}
	}
	stream, _ := open("body", none, buffered)
	exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{}))
	if out := exchange(t, stream, trailers); out.GetImmediateResponse().GetStatus().GetCode() != 503 {
		t.Errorf("trailers in place of the body: %v", out)
	}
	stream, _ = open("body", none, buffered)
	in := message(t, "process_response.json", &procv3.ProcessingRequest{})
	in.GetResponseHeaders().EndOfStream = true
	x.responds(`{"body":"x"}`)
	if out := exchange(t, stream, in); out.GetResponseHeaders().GetResponse().GetStatus() != procv3.CommonResponse_CONTINUE_AND_REPLACE {
		t.Errorf("a response without a body: %v", out)
	}
	if got := string(x.responded()[0].Args[1]); !strings.HasSuffix(got, `,"body":""}`) {
		t.Errorf("on_response gets %s", got)
	}
}

// TestOnResponseOfAChain: the last script that decided sees the response first, each the request as it
// has seen it before, and the response as those before have left it. One without the function does not.
func TestOnResponseOfAChain(t *testing.T) {
	x := newDecider()
	var got []string
	var mu sync.Mutex
	define := func(name string, priority int, request, response string) {
		x.Set(name, func(context.Context, *gateway.Call) ([][]byte, error) { return [][]byte{[]byte(request)}, nil })
		x.SetTrigger(name, script.Trigger{Event: "pre", Priority: priority})
		if response == "" {
			return
		}
		x.SetOnResponse(name, func(_ context.Context, call *gateway.Call) ([][]byte, error) {
			var request struct{ Path, Tenant string }
			if err := json.Unmarshal(call.Args[0], &request); err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, call.Script+" "+request.Tenant+request.Path+" "+string(call.Args[1]))
			if response == "fail" {
				return nil, script.Errorf(script.Script, "", "a fault")
			}
			return [][]byte{[]byte(response)}, nil
		})
	}
	define("acme/first", 3, `{"path":"/one"}`, `{"response_headers":{"append":{"x-by":"first"}},"status":418}`)
	define("acme/second", 2, `{"path":"/two"}`, "")
	define("acme/third", 1, `{"path":"/three","response_headers":{"set":{"server":"us"}}}`, `{"response_headers":{"set":{"x-by":"third"},"remove":["content-type"]},"body":"x","status":201}`)
	_, conn := serve(t, grpcsock.Options{Executor: x})
	ask := func(settings map[string]string) *procv3.ProcessingResponse {
		got = nil
		settings["event"], settings["tenant"], settings["response"] = "pre", "acme", "headers"
		stream := process(t, conn, settings)
		out := exchange(t, stream, message(t, "process_request.json", &procv3.ProcessingRequest{}))
		if ran := out.GetDynamicMetadata().GetFields()["scriptorium"].GetStructValue().GetFields()["scriptorium_chain"].GetStringValue(); ran != "first@7, second@7, third@7" {
			t.Errorf("%v", out)
		}
		out = exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{}))
		ends(t, "chain", stream)
		return out
	}
	out := ask(map[string]string{})
	want := []string{
		`acme/third acme/two {"status":200,"headers":{"content-type":"text/html","server":"us"}}`,
		`acme/first acme/cart {"status":201,"headers":{"server":"us","x-by":"third"}}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	expectRan(t, "chain", out.GetDynamicMetadata().GetFields()["scriptorium"].GetStructValue(), map[string]any{"scriptorium_chain": "first@7, second@7, third@7"})
	out.DynamicMetadata = nil
	expect(t, "chain", out, &procv3.ProcessingResponse{}, `{"responseHeaders":{"response":{"status":"CONTINUE_AND_REPLACE","bodyMutation":{"body":"eA=="},"headerMutation":{"removeHeaders":["content-type","content-encoding"],"setHeaders":[
		{"header":{"key":"server","rawValue":"dXM="},`+set+`,{"header":{"key":"x-by","rawValue":"dGhpcmQ="},`+set+`,{"header":{"key":"x-by","rawValue":"Zmlyc3Q="},"append":true},{"header":{"key":":status","rawValue":"NDE4"},`+set+`]}}}}`)

	define("acme/third", 1, `{}`, `{"allow":false,"status":401}`)
	if out := ask(map[string]string{}); out.GetImmediateResponse().GetStatus().GetCode() != 401 || len(got) != 1 {
		t.Errorf("an answer: %v, %v", out, got)
	}
	define("acme/third", 1, `{}`, `fail`)
	if out := ask(map[string]string{}); out.GetImmediateResponse().GetStatus().GetCode() != 503 || len(got) != 1 {
		t.Errorf("a fault: %v, %v", out, got)
	}
	if out := ask(map[string]string{"fail": "open"}); out.GetResponseHeaders() == nil || len(got) != 2 {
		t.Errorf("a fault, open: %v, %v", out, got)
	}
}
