package envoy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// processor implements procv3.ExternalProcessorServer.
type processor struct {
	procv3.UnimplementedExternalProcessorServer
	decider
}

// Process implements procv3.ExternalProcessorServer. It ends the stream as soon as it has nothing
// more to say: Envoy then goes on without it, and a long request holds no stream.
func (x *processor) Process(stream procv3.ExternalProcessor_ProcessServer) error {
	p := &process{decider: x.decider, ctx: stream.Context()}
	for {
		in, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		out, err := p.step(in)
		if err != nil {
			return wire.ToStatus(err)
		}
		if out != nil {
			if err := stream.Send(out); err != nil {
				return err
			}
		}
		for _, out := range p.more {
			if err := stream.Send(out); err != nil {
				return err
			}
		}
		p.more = nil
		if p.phase == ended {
			return nil
		}
	}
}

// phase is what a process waits for.
type phase uint8

const (
	forRequest      phase = iota // the headers of the request
	forBody                      // its body: there is no decision yet
	forResponse                  // the headers of the response, which the decision or on_response changes
	forResponseBody              // its body: on_response has not decided yet
	ended
)

func (p phase) String() string {
	return [...]string{"before the headers of the request", "before its body", "before the headers of the response", "before the body of the response", "at the end"}[p]
}

// process is one stream: a request and its response.
type process struct {
	decider
	ctx      context.Context //nolint:containedctx // of the stream, for as long as it lasts
	phase    phase
	settings *processSettings
	modes    *procv3.ProtocolConfiguration
	request  *request                     // nil once there is a decision about it
	old      bool                         // Envoy reads values of headers as text: see changes.mutation
	head     bool                         // the response to the request has no body
	ran      ran                          // once there is a decision, or none
	more     []*procv3.ProcessingResponse // that follow the next answer

	changes    decision.Changes     // of the response, by the decision about the request
	responders *decision.Responders // nil for none
	response   *decision.Response   // once it is there
}

// step answers a message, or returns nil if it waits for more. An error ends the stream.
func (p *process) step(in *procv3.ProcessingRequest) (*procv3.ProcessingResponse, error) {
	if in.GetObservabilityMode() {
		return nil, script.Errorf(script.Invalid, "observability_mode", "is true, so that Envoy ignores decisions: unset it")
	}
	switch m := in.GetRequest().(type) {
	case *procv3.ProcessingRequest_RequestHeaders:
		if p.phase == forRequest {
			return p.requestHeaders(in, m.RequestHeaders), nil
		}
	case *procv3.ProcessingRequest_RequestBody:
		switch p.phase {
		case forBody:
			if p.settings.streamed {
				return p.collect(m.RequestBody), nil
			}
			p.request.Body, p.request.HasBody = m.RequestBody.GetBody(), true
			return p.decide(ofBody), nil
		case forResponse, forResponseBody:
			return ofBody(nil), nil
		}
	case *procv3.ProcessingRequest_RequestTrailers:
		switch p.phase {
		case forBody:
			if p.settings.streamed {
				return p.decideStreamed(ofTrailers()), nil
			}
			return p.withoutBody(), nil
		case forResponse, forResponseBody:
			return ofTrailers(), nil
		}
	default:
		if out := p.stepOfResponse(in); out != nil {
			return out, nil
		}
	}
	return nil, script.Errorf(script.Invalid, "request", "is %T, which does not come %s: processing_mode has to send the headers of requests", in.GetRequest(), p.phase)
}

// requestHeaders decides, or lets Envoy send the body first.
func (p *process) requestHeaders(in *procv3.ProcessingRequest, h *procv3.HttpHeaders) *procv3.ProcessingResponse {
	var err error
	if p.request, err = processed(in, h); err != nil {
		return p.deny(refused(err), err)
	}
	if p.settings, err = settingsOf(p.ctx); err != nil {
		return p.deny(refused(err), err)
	}
	p.old, p.head, p.modes = p.request.old || isGRPC(p.ctx), p.request.Method == http.MethodHead, in.GetProtocolConfig()
	if err := p.settings.fit(p.modes); err != nil {
		return p.deny(refused(err), err)
	}
	if !p.settings.body || h.GetEndOfStream() {
		return p.decide(ofHeaders)
	}
	if !p.settings.streamed {
		switch length, err := p.contentLength(); {
		case err != nil:
			d := refused(err)
			d.Status = http.StatusLengthRequired
			return p.deny(d, err)
		case length == 0:
			return p.decide(ofHeaders)
		}
	}
	if !grpcguard.Hold(p.ctx, sizeOf(&p.request.Request)) {
		if p.settings.streamed { // Envoy keeps no body with which the request could go on
			return p.deny(refused(budget.ErrOverloaded), budget.ErrOverloaded)
		}
		return p.answer(decided{}, budget.ErrOverloaded, ofHeaders)
	}
	p.phase = forBody
	if p.settings.streamed {
		return nil // so that Envoy sends nothing to the upstream before there is a decision
	}
	return ofHeaders(nil)
}

// fit returns an error unless Envoy sends bodies in the modes that the settings need.
func (s *processSettings) fit(c *procv3.ProtocolConfiguration) error {
	const buffered, duplex = modev3.ProcessingMode_BUFFERED, modev3.ProcessingMode_FULL_DUPLEX_STREAMED
	request, response := c.GetRequestBodyMode(), c.GetResponseBodyMode()
	switch {
	case s.streamed && request != duplex:
		return script.Errorf(script.Invalid, "processing_mode", "does not say request_body_mode: %s, as the setting body = streamed needs it", duplex)
	case s.body && !s.streamed && request != buffered:
		return script.Errorf(script.Invalid, "processing_mode", "does not say request_body_mode: %s, as the setting body = buffered needs it", buffered)
	case s.responseBody && response != buffered:
		return script.Errorf(script.Invalid, "processing_mode", "does not say response_body_mode: %s, as the setting response = body needs it", buffered)
	case request == duplex && !s.streamed, response == duplex, request == modev3.ProcessingMode_GRPC, response == modev3.ProcessingMode_GRPC:
		return script.Errorf(script.Invalid, "processing_mode", "sends bodies in modes %s and %s: want NONE or BUFFERED, or for requests %s with body = streamed", request, response, duplex)
	}
	return nil
}

// contentLength returns the length of the body that will come. Envoy sends no message for a body
// without data that trailers end. So a request has to promise data: else a client could have it
// sent on without a decision.
func (p *process) contentLength() (uint64, error) {
	values := p.request.Headers["content-length"]
	if len(values) == 1 {
		if n, err := strconv.ParseUint(values[0], 10, 63); err == nil {
			return n, nil
		}
	}
	return 0, script.Errorf(script.Invalid, "content-length", "is missing: the decision needs the body, so its length has to be known")
}

// wrapping puts the changes of a request into the answer to a message.
type wrapping func(*procv3.CommonResponse) *procv3.ProcessingResponse

// decide has the script decide, and answers.
func (p *process) decide(wrap wrapping) *procv3.ProcessingResponse {
	d, err := p.decider.decide(p.ctx, &p.settings.settings, &p.request.Request)
	p.ran = d.ran
	return p.answer(d, err, wrap)
}

// answer answers with the decision, or with what holds instead.
func (p *process) answer(d decided, err error, wrap wrapping) *procv3.ProcessingResponse {
	if err == nil && d.Allow {
		var out *procv3.ProcessingResponse
		if out, err = p.goOn(&d, wrap); err == nil {
			return out
		}
	}
	if err != nil {
		d.Decision, d.responders = p.settings.Fail.Instead(d.onError, err), nil
	}
	if d.Allow {
		if out, failed := p.goOn(&d, wrap); failed == nil {
			return out
		}
		d.Decision = refused(err)
	}
	return p.deny(d.Decision, err)
}

// goOn lets the request go on, and notes what becomes of its response.
func (p *process) goOn(d *decided, wrap wrapping) (*procv3.ProcessingResponse, error) {
	metadata, err := inNamespace(d.Metadata, d.ran)
	if err != nil {
		return nil, err
	}
	keeps := sizeOfChanges(d.Response)
	if d.responders != nil {
		keeps += d.responders.Bytes()
	}
	if keeps > 0 && !grpcguard.Hold(p.ctx, keeps) {
		return nil, budget.ErrOverloaded
	}
	out := wrap(&procv3.CommonResponse{
		HeaderMutation:  requestChanges(&d.Decision, p.request).mutation(p.old),
		ClearRouteCache: reroutes(&d.Decision, p.request),
	})
	out.DynamicMetadata = metadata
	p.phase, p.request = ended, nil
	if keeps > 0 {
		p.phase, p.changes, p.responders = forResponse, d.Response, d.responders
		if out.GetRequestHeaders() != nil {
			out.ModeOverride = p.less()
		}
	}
	return out, nil
}

// less returns a mode without the bodies that nobody waits for; nil if Envoy sends none of them.
func (p *process) less() *modev3.ProcessingMode {
	response := modev3.ProcessingMode_NONE
	if p.responders != nil && p.settings.responseBody {
		response = modev3.ProcessingMode_BUFFERED
	}
	request := p.modes.GetRequestBodyMode()
	if request == modev3.ProcessingMode_FULL_DUPLEX_STREAMED || request == modev3.ProcessingMode_NONE && p.modes.GetResponseBodyMode() == response {
		return nil
	}
	return &modev3.ProcessingMode{ResponseHeaderMode: modev3.ProcessingMode_SEND, ResponseBodyMode: response, ResponseTrailerMode: trailersOf(response)}
}

// trailersOf returns whether Envoy has to send the trailers of a response. With its body, it has to:
// else nobody would see a response with trailers and without a body.
func trailersOf(body modev3.ProcessingMode_BodySendMode) modev3.ProcessingMode_HeaderSendMode {
	if body == modev3.ProcessingMode_BUFFERED {
		return modev3.ProcessingMode_SEND
	}
	return modev3.ProcessingMode_SKIP
}

// withoutBody denies a request that goes on without the body that the decision needs.
func (p *process) withoutBody() *procv3.ProcessingResponse {
	err := script.Errorf(script.Invalid, "request_body", "did not come: there is no decision")
	return p.deny(refused(err), err)
}
