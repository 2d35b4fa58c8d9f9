package envoy

import (
	"strconv"
	"strings"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	"github.com/scriptorium-dev/scriptorium/script"
)

// stepOfResponse answers a message about the response; nil if it does not come now.
func (p *process) stepOfResponse(in *procv3.ProcessingRequest) *procv3.ProcessingResponse {
	switch m := in.GetRequest().(type) {
	case *procv3.ProcessingRequest_ResponseHeaders:
		switch p.phase {
		case forRequest: // Envoy itself answers, and has not asked
			p.phase = ended
			return ofResponseHeaders(nil)
		case forBody:
			return p.withoutBody()
		case forResponse:
			return p.responseHeaders(m.ResponseHeaders)
		}
	case *procv3.ProcessingRequest_ResponseBody:
		if p.phase == forResponseBody {
			p.response.Body = m.ResponseBody.GetBody()
			return p.respond(ofResponseBody)
		}
	case *procv3.ProcessingRequest_ResponseTrailers:
		if p.phase == forResponseBody {
			err := script.Errorf(script.Invalid, "response_body", "did not come, but trailers: there is no decision")
			return p.deny(refused(err), err)
		}
	}
	return nil
}

// responseHeaders changes the response, or lets Envoy send its body first.
func (p *process) responseHeaders(h *procv3.HttpHeaders) *procv3.ProcessingResponse {
	if p.responders == nil {
		return p.change(decision.Outcome{Headers: p.changes}, ofResponseHeaders)
	}
	p.response = responded(h)
	if !p.settings.responseBody {
		return p.respond(ofResponseHeaders)
	}
	p.response.HasBody = true
	if h.GetEndOfStream() {
		return p.respond(ofResponseHeaders)
	}
	if !grpcguard.Hold(p.ctx, sizeOfHeaders(p.response.Headers)) {
		return p.conclude(p.responders.Instead(budget.ErrOverloaded), budget.ErrOverloaded, ofResponseHeaders)
	}
	p.phase = forResponseBody
	return ofResponseHeaders(nil)
}

// responded returns the response whose headers these are.
func responded(h *procv3.HttpHeaders) *decision.Response {
	list := h.GetHeaders().GetHeaders()
	r := &decision.Response{Headers: make(map[string][]string, len(list))}
	for _, header := range list {
		name, value := decision.HeaderName(header.GetKey()), textOf(header)
		switch {
		case name == statusHeader:
			r.Status, _ = strconv.Atoi(value) // Envoy's own are numbers
		case !strings.HasPrefix(name, ":"):
			r.Headers[name] = append(r.Headers[name], value)
		}
	}
	return r
}

// respond has the scripts decide about the response, and answers.
func (p *process) respond(wrap wrapping) *procv3.ProcessingResponse {
	o, err := p.decider.respond(p.ctx, &p.settings.settings, p.responders, p.response)
	return p.conclude(o, err, wrap)
}

// conclude answers with the outcome. cause is why it is not of a script, or nil.
func (p *process) conclude(o decision.Outcome, cause error, wrap wrapping) *procv3.ProcessingResponse {
	if _, err := metadataOf(o.Metadata, ran{}); err != nil {
		o, cause = p.responders.Instead(err), err
	}
	if !o.Answer {
		return p.change(o, wrap)
	}
	d := decision.Decision{Status: o.Status, Response: o.Headers, Metadata: o.Metadata}
	if o.Body != nil {
		d.Body = *o.Body
	}
	return p.deny(d, cause)
}

// change changes a response that goes on.
func (p *process) change(o decision.Outcome, wrap wrapping) *procv3.ProcessingResponse {
	p.phase = ended
	c := changesOf(o.Headers, func(string) bool { return false })
	if o.Status != 0 {
		c.lines = append(c.lines, line{name: statusHeader, value: strconv.Itoa(o.Status)})
	}
	common := &procv3.CommonResponse{HeaderMutation: c.mutation(p.old)}
	if o.Body != nil && !p.head {
		common.BodyMutation = &procv3.BodyMutation{Mutation: &procv3.BodyMutation_Body{Body: []byte(*o.Body)}}
		if *o.Body == "" {
			common.BodyMutation.Mutation = &procv3.BodyMutation_ClearBody{ClearBody: true}
		}
	}
	out := wrap(common)
	if out.GetResponseHeaders() != nil && common.GetBodyMutation() != nil {
		common.Status = procv3.CommonResponse_CONTINUE_AND_REPLACE
	}
	by := p.ran
	if p.responders == nil {
		by = ran{} // which has been said with the decision about the request
	}
	out.DynamicMetadata, _ = inNamespace(o.Metadata, by) // conclude has seen that there is no error
	return out
}
