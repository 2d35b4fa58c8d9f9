package envoytest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	mutationrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
)

// proc is the filter of source/extensions/filters/http/ext_proc/ext_proc.cc, without bodies and trailers.
type proc struct {
	config *procfilterv3.ExternalProcessor
	agent  *grpc.ClientConn
}

func newProc(t *testing.T, config *procfilterv3.ExternalProcessor, agent *grpc.ClientConn) *proc {
	t.Helper()
	mode := config.GetProcessingMode()
	if mode.GetRequestHeaderMode() == procfilterv3.ProcessingMode_SKIP || mode.GetRequestBodyMode() != procfilterv3.ProcessingMode_NONE || mode.GetResponseBodyMode() != procfilterv3.ProcessingMode_NONE {
		t.Fatalf("the mode is %v", mode)
	}
	return &proc{config: config, agent: agent}
}

// stream is a stream to the agent.
type stream struct {
	procv3.ExternalProcessor_ProcessClient
	end context.CancelFunc
}

func (p *proc) request(ctx context.Context, x *exchange) *reply {
	initial := map[string]string{}
	for _, h := range p.config.GetGrpcService().GetInitialMetadata() {
		initial[h.GetKey()] = h.GetValue()
	}
	for _, s := range settingsOf[*procfilterv3.ExtProcPerRoute](x.Gateway, procName, x.host.GetTypedPerFilterConfig(), x.route.GetTypedPerFilterConfig()) {
		if s.GetDisabled() {
			return nil
		}
		for _, h := range s.GetOverrides().GetGrpcInitialMetadata() {
			initial[h.GetKey()] = h.GetValue()
		}
	}
	ctx, end := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.New(initial)))
	calls, err := procv3.NewExternalProcessorClient(p.agent).Process(ctx)
	if err != nil {
		end()
		return p.fails()
	}
	x.stream = &stream{calls, end}
	mode := p.config.GetProcessingMode()
	answer, instead := p.ask(x, &procv3.ProcessingRequest{
		Request:        &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: &procv3.HttpHeaders{Headers: linesOf(x.head), EndOfStream: !x.hasBody}},
		Attributes:     map[string]*structpb.Struct{procName: p.attributes(x)},
		ProtocolConfig: &procv3.ProtocolConfiguration{RequestBodyMode: mode.GetRequestBodyMode(), ResponseBodyMode: mode.GetResponseBodyMode()},
	})
	if answer == nil {
		return instead
	}
	common := answer.GetRequestHeaders().GetResponse()
	if answer.GetRequestHeaders() == nil || !p.mutate(x.head, common.GetHeaderMutation()) {
		return p.rejects(x)
	}
	if common.GetClearRouteCache() {
		x.choose()
	}
	return nil
}

func (p *proc) response(x *exchange, h head) *reply {
	if x.stream == nil || p.config.GetProcessingMode().GetResponseHeaderMode() == procfilterv3.ProcessingMode_SKIP {
		return nil
	}
	answer, instead := p.ask(x, &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &procv3.HttpHeaders{Headers: linesOf(h)}}})
	if answer == nil {
		return instead
	}
	common := answer.GetResponseHeaders().GetResponse()
	if answer.GetResponseHeaders() == nil || common.GetBodyMutation() != nil || !p.mutate(h, common.GetHeaderMutation()) {
		return p.rejects(x)
	}
	return nil
}

// ask sends a message. It returns the agent's answer, or what the client gets instead; neither if the agent has
// ended the stream, and then Envoy goes on without it.
func (p *proc) ask(x *exchange, in *procv3.ProcessingRequest) (*procv3.ProcessingResponse, *reply) {
	late := make(chan struct{})
	timeout := time.AfterFunc(cmp.Or(p.config.GetMessageTimeout().AsDuration(), 200*time.Millisecond), func() {
		close(late)
		x.stream.end()
	})
	defer timeout.Stop()
	_ = x.stream.Send(in) // the answer says what is wrong
	answer, err := x.stream.Recv()
	select {
	case <-late:
		x.stream = nil
		if p.config.GetFailureModeAllow() {
			return nil, nil
		}
		return nil, local(http.StatusGatewayTimeout, "") // onMessageTimeout
	default:
	}
	switch {
	case errors.Is(err, io.EOF): // onGrpcClose
		x.stream = nil
		return nil, nil
	case err != nil: // onGrpcError
		x.stream = nil
		return nil, p.fails()
	case answer.GetImmediateResponse() != nil:
		x.stream = nil
		return nil, p.immediate(x, answer.GetImmediateResponse())
	}
	return answer, nil
}

// fails is onGrpcError.
func (p *proc) fails() *reply {
	if p.config.GetFailureModeAllow() {
		return nil
	}
	return p.failed()
}

// rejects is handleErrorResponse: what the agent answers cannot be applied.
func (p *proc) rejects(x *exchange) *reply {
	x.stream.end()
	x.stream = nil
	return p.failed()
}

func (p *proc) failed() *reply {
	return local(cmp.Or(int(p.config.GetStatusOnError().GetCode()), http.StatusInternalServerError), "")
}

// immediate is sendImmediateResponse. Changes that the rules forbid end the changes, and the answer stays.
func (p *proc) immediate(x *exchange, r *procv3.ImmediateResponse) *reply {
	if p.config.GetDisableImmediateResponse() {
		x.t.Error("disable_immediate_response is set")
	}
	status := cmp.Or(int(r.GetStatus().GetCode()), http.StatusOK)
	answer := local(status, string(r.GetBody()))
	p.mutate(answer.head, r.GetHeaders())
	return answer
}

func (p *proc) attributes(x *exchange) *structpb.Struct {
	all := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	known := map[string]string{"source.address": x.remote, "xds.route_name": x.route.GetName(), "connection.subject_peer_certificate": ""}
	for _, name := range p.config.GetRequestAttributes() {
		value, ok := known[name]
		if !ok {
			x.t.Errorf("the page asks for the attribute %s", name)
		}
		if value != "" {
			all.Fields[name] = structpb.NewStringValue(value)
		}
	}
	return all
}

// linesOf is headersToProto of source/extensions/filters/http/ext_proc/mutation_utils.cc.
func linesOf(h head) *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for name, values := range h {
		for _, value := range values {
			m.Headers = append(m.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
		}
	}
	return m
}

// mutate is applyHeaderMutations. It reports whether all that it may not ignore was allowed.
func (p *proc) mutate(h head, m *procv3.HeaderMutation) bool {
	rules := p.config.GetMutationRules()
	ignores := !rules.GetDisallowIsError().GetValue()
	changes, ok := changesOf(m.GetSetHeaders(), rawOf, adds)
	if !ok || len(m.GetRemoveHeaders()) > mostHeaders || len(changes) > mostHeaders {
		return false
	}
	for _, name := range m.GetRemoveHeaders() {
		name = strings.ToLower(name)
		switch {
		case !valid(name, ""):
			return false
		case removable(name) && allowed(rules, change{name: name}):
			h.remove(name)
		case !ignores:
			return false
		}
	}
	for i, c := range changes {
		if header := m.GetSetHeaders()[i].GetHeader(); header.GetValue() != "" || !valid(c.name, c.value) {
			return false // with send_header_raw_value, Envoy reads raw_value alone
		}
		switch {
		case allowed(rules, c) && (c.how == sets || !strings.HasPrefix(c.name, ":") || len(h[c.name]) == 0):
			h.apply(c)
		case !ignores:
			return false
		}
	}
	return !h.tooLarge()
}

// rawOf returns what Envoy reads with send_header_raw_value, which is so by default.
func rawOf(h *corev3.HeaderValue) string { return string(h.GetRawValue()) }

// allowed is isAllowed and isValidValue of source/extensions/filters/common/mutation_rules/mutation_rules.cc.
func allowed(rules *mutationrulesv3.HeaderMutationRules, c change) bool {
	switch c.name {
	case "host", ":authority", ":method", ":scheme":
		return rules.GetAllowAllRouting().GetValue()
	case statusHeader:
		status, err := strconv.Atoi(c.value)
		return err == nil && status >= http.StatusOK && !rules.GetDisallowSystem().GetValue()
	}
	system, envoys := strings.HasPrefix(c.name, ":"), strings.HasPrefix(c.name, "x-envoy-")
	return (!system || !rules.GetDisallowSystem().GetValue()) && (!envoys || rules.GetAllowEnvoy().GetValue())
}
