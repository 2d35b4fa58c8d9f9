package envoy_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

func part(text string, last bool) *procv3.ProcessingRequest {
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestBody{RequestBody: &procv3.HttpBody{Body: []byte(text), EndOfStream: last}}}
}

// streaming is a message with the headers of a request whose body comes in parts, of unknown length.
func streaming(t *testing.T) *procv3.ProcessingRequest {
	t.Helper()
	in := message(t, "process_post.json", &procv3.ProcessingRequest{})
	without(in, "content-length")
	in.ProtocolConfig = &procv3.ProtocolConfiguration{RequestBodyMode: modev3.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: modev3.ProcessingMode_BUFFERED}
	return in
}

// answers sends messages, and returns all answers until the stream ends or has given so many.
func answers(t *testing.T, stream procv3.ExternalProcessor_ProcessClient, most int, messages ...*procv3.ProcessingRequest) (all []*procv3.ProcessingResponse) {
	t.Helper()
	for _, in := range messages {
		if err := stream.Send(in); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	for len(all) < most {
		out, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out)
	}
	return all
}

// TestProcessStreamed: the agent collects a body that comes in parts, the script decides once, and the
// request goes on with the same body. No message is answered before.
func TestProcessStreamed(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x})
	large := strings.Repeat("x", 50<<10)
	end := message(t, "process_trailers.json", &procv3.ProcessingRequest{})
	for name, tt := range map[string]struct {
		parts    []*procv3.ProcessingRequest
		body     string
		trailers bool
	}{
		"one part":       {[]*procv3.ProcessingRequest{part("all", true)}, "all", false},
		"parts":          {[]*procv3.ProcessingRequest{part(large, false), part("", false), part(large, false), part("z", true)}, large + large + "z", false},
		"an empty end":   {[]*procv3.ProcessingRequest{part("all", false), part("", true)}, "all", false},
		"nothing":        {[]*procv3.ProcessingRequest{part("", true)}, "", false},
		"trailers":       {[]*procv3.ProcessingRequest{part("all", false), end}, "all", true},
		"trailers alone": {[]*procv3.ProcessingRequest{end}, "", true},
	} {
		x.returns(`{"headers":{"set":{"x-user":"ann"}}}`)
		stream := process(t, conn, map[string]string{"script": "acme/d", "body": "streamed"})
		all := answers(t, stream, 100, append([]*procv3.ProcessingRequest{streaming(t)}, tt.parts...)...)
		if len(all) < 2 || all[0].GetRequestHeaders().GetResponse().GetHeaderMutation() == nil {
			t.Fatalf("%s: %v", name, all)
		}
		if tt.trailers {
			if last := all[len(all)-1]; last.GetRequestTrailers() == nil {
				t.Errorf("%s: %v", name, last)
			}
			all = all[:len(all)-1]
		}
		body, ended := "", false
		for _, out := range all[1:] {
			chunk := out.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
			if ended || chunk == nil || len(chunk.GetBody()) > 64<<10 {
				t.Errorf("%s: %.200v", name, out)
			}
			body, ended = body+string(chunk.GetBody()), chunk.GetEndOfStream()
		}
		calls, argument := x.asked()
		var request struct{ Body *string }
		if err := json.Unmarshal([]byte(argument), &request); err != nil || request.Body == nil || *request.Body != tt.body {
			t.Errorf("%s: the script got %.200s, %v", name, argument, err)
		}
		if body != tt.body || ended == tt.trailers || calls != 1 {
			t.Errorf("%s: the upstream gets %d bytes, want %d; the end: %v; after %d calls", name, len(body), len(tt.body), ended, calls)
		}
	}
}

// TestProcessStreamedWithoutDecision: a body that is denied, too large or without room reaches no upstream,
// and neither does one that comes in another mode.
func TestProcessStreamedWithoutDecision(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x, Budget: budget.New(6 << 20)})
	small := part(strings.Repeat("x", 60<<10), false)
	var many []*procv3.ProcessingRequest
	for range 18 {
		many = append(many, small)
	}
	buffered, nul := streaming(t), part(strings.Repeat("\x00", 900<<10), true)
	buffered.ProtocolConfig.RequestBodyMode = modev3.ProcessingMode_BUFFERED
	for _, tt := range []struct {
		name, result string
		messages     []*procv3.ProcessingRequest
		status       int32
		calls        int
	}{
		{"a denial", `false`, []*procv3.ProcessingRequest{streaming(t), part("all", true)}, 403, 1},
		{"no decision", `{"alow":false}`, []*procv3.ProcessingRequest{streaming(t), part("all", true)}, 503, 1},
		{"too large", ``, append([]*procv3.ProcessingRequest{streaming(t)}, many...), 413, 0},
		{"no room", ``, []*procv3.ProcessingRequest{streaming(t), nul}, 503, 0},
		{"another mode", ``, []*procv3.ProcessingRequest{buffered}, 503, 0},
		{"a response in between", ``, []*procv3.ProcessingRequest{streaming(t), part("all", false), message(t, "process_response.json", &procv3.ProcessingRequest{})}, 503, 0},
	} {
		x.returns(tt.result)
		stream := process(t, conn, map[string]string{"script": "acme/d", "body": "streamed"})
		all := answers(t, stream, 2, tt.messages...)
		calls, _ := x.asked()
		if len(all) != 1 || int32(all[0].GetImmediateResponse().GetStatus().GetCode()) != tt.status || calls != tt.calls {
			t.Errorf("%s: %.300v, after %d calls", tt.name, all, calls)
		}
	}
}
