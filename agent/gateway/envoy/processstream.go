package envoy

import (
	"net/http"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// mostStreamed bounds a body that the agent collects.
	mostStreamed = 1 << 20
	// mostChunk is how large Envoy wants the parts of a body.
	mostChunk = 64 << 10
)

// collect takes a part of the request's body, and decides when that was the last one. Envoy has no
// answer to the headers before that, and so sends nothing to the upstream.
func (p *process) collect(m *procv3.HttpBody) *procv3.ProcessingResponse {
	part := m.GetBody()
	if len(p.request.Body)+len(part) > mostStreamed {
		err := script.Errorf(script.Limit, "request_body", "has more than %d bytes, the most that the agent collects", mostStreamed)
		d := refused(err)
		d.Status = http.StatusRequestEntityTooLarge
		return p.deny(d, err)
	}
	// append can double what there is.
	if len(part) > 0 && !grpcguard.Hold(p.ctx, 2*int64(len(part))) {
		return p.deny(refused(budget.ErrOverloaded), budget.ErrOverloaded)
	}
	p.request.Body = append(p.request.Body, part...)
	if !m.GetEndOfStream() {
		return nil
	}
	return p.decideStreamed(nil)
}

// decideStreamed has the script decide about a request whose body is there. If it goes on, the body
// follows the headers: Envoy has kept none of it. trailers answers what has ended the body; nil if it had no trailers.
func (p *process) decideStreamed(trailers *procv3.ProcessingResponse) *procv3.ProcessingResponse {
	p.request.HasBody = true
	body := p.request.Body
	out := p.decide(ofHeaders)
	if out.GetRequestHeaders() == nil {
		return out
	}
	for first := true; first || len(body) > 0; first = false {
		n := min(len(body), mostChunk)
		part := &procv3.StreamedBodyResponse{Body: body[:n], EndOfStream: n == len(body) && trailers == nil}
		body = body[n:]
		p.more = append(p.more, ofBody(&procv3.CommonResponse{BodyMutation: &procv3.BodyMutation{Mutation: &procv3.BodyMutation_StreamedResponse{StreamedResponse: part}}}))
	}
	if trailers != nil {
		p.more = append(p.more, trailers)
	}
	return out
}
