package grpcsock

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// service implements agentv1.ExecutorServer.
type service struct {
	agentv1.UnimplementedExecutorServer
	server *Server
}

// Execute implements agentv1.ExecutorServer.
func (s *service) Execute(ctx context.Context, req *agentv1.ExecuteRequest) (*agentv1.ExecuteResponse, error) {
	// The response refers to the reply until it is encoded, after we returned.
	a := &answer{}
	if err := s.execute(ctx, grantOf(ctx), req, traceparentOf(ctx), a); err != nil {
		return nil, wire.ToStatus(err)
	}
	return &a.response, nil
}

// answer is an ExecuteResponse and what it refers to.
type answer struct {
	call      gateway.Call
	reply     gateway.Reply
	response  agentv1.ExecuteResponse
	staleness durationpb.Duration
}

// execute runs the call into a.response.
func (s *service) execute(ctx context.Context, grant gateway.Grant, req *agentv1.ExecuteRequest, traceparent string, a *answer) error {
	if n := len(req.GetArgs()); n > maxArgs {
		return script.Errorf(script.Invalid, "args", "there are %d arguments; a call may have %d", n, maxArgs)
	}
	if err := grant.Check(req.GetScript()); err != nil {
		return err
	}
	a.call = gateway.Call{Script: req.GetScript(), Args: req.GetArgs(), Traceparent: traceparent, Key: req.GetKey(), Origin: gateway.Origin{Protocol: "grpc", Caller: grant.Caller()}}
	a.reply.Reset()
	if err := s.server.opts.Executor.Execute(ctx, &a.call, &a.reply); err != nil {
		return err
	}
	a.response.Results = a.response.Results[:0]
	for i := range a.reply.Len() {
		a.response.Results = append(a.response.Results, a.reply.Value(i))
	}
	a.response.Version = a.reply.Version
	a.response.Digest = wire.FromDigest(a.reply.Digest)
	a.response.Staleness = stalenessOf(a.reply.Position, &a.staleness)
	return nil
}

// stalenessOf returns m set to the position's staleness; nil for an unknown one.
func stalenessOf(p gateway.Position, m *durationpb.Duration) *durationpb.Duration {
	if p.Staleness < 0 {
		return nil
	}
	m.Seconds = int64(p.Staleness / time.Second)
	m.Nanos = int32(p.Staleness % time.Second)
	return m
}

func traceparentOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(values) > 0 {
		return values[0]
	}
	return ""
}

// errDraining ends streams when the agent shuts down. A request of the stream
// that was not answered was not begun.
var errDraining = script.Errorf(script.Unavailable, "", "the agent is shutting down")

// ExecuteStream implements agentv1.ExecutorServer.
func (s *service) ExecuteStream(stream agentv1.Executor_ExecuteStreamServer) error {
	x := &exchange{service: s, stream: stream, grant: grantOf(stream.Context())}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- s.server.panicked(agentv1.Executor_ExecuteStream_FullMethodName, p)
			}
		}()
		done <- x.run()
	}()
	select {
	case err := <-done:
		return wire.ToStatus(err)
	case <-s.server.draining:
		x.end()
		return wire.ToStatus(errDraining)
	}
}

// exchange is one stream of calls.
type exchange struct {
	service *service
	stream  agentv1.Executor_ExecuteStreamServer
	grant   gateway.Grant

	request  agentv1.ExecuteStreamRequest
	answer   answer
	outcome  agentv1.ExecuteStreamResponse
	response agentv1.ExecuteStreamResponse_Response
	failure  agentv1.ExecuteStreamResponse_Error

	mu    sync.Mutex // held during a call, from its receipt until its answer is sent
	ended bool
}

// run answers requests in their order until the caller has no more.
func (x *exchange) run() error {
	for {
		if err := x.stream.RecvMsg(&x.request); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if more, err := x.step(); !more || err != nil {
			return err
		}
	}
}

// end waits for the call in flight and lets no other begin.
func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
}

// step answers x.request, unless the stream has ended.
func (x *exchange) step() (more bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return false, nil
	}
	x.outcome.Id = x.request.GetId()
	if err := x.execute(); err != nil {
		x.failure.Error = wire.FromCallError(err)
		x.outcome.Outcome = &x.failure
	} else {
		x.response.Response = &x.answer.response
		x.outcome.Outcome = &x.response
	}
	err = x.stream.Send(&x.outcome)
	x.rest()
	return true, err
}

// keptAnswer is how many bytes of results, and how many of these, a stream keeps room for.
const keptAnswer, keptResults = 4 << 10, 64

// rest drops what a stream is not charged for while it waits for the next call.
func (x *exchange) rest() {
	x.request.Reset()
	x.outcome.Reset()
	x.failure.Error, x.answer.call = nil, gateway.Call{}
	if x.answer.reply.Held() > keptAnswer || cap(x.answer.response.GetResults()) > keptResults {
		x.answer = answer{}
	}
}

func (x *exchange) execute() error {
	ctx := x.stream.Context()
	if t := x.request.GetTimeout(); t != nil {
		if err := t.CheckValid(); err != nil {
			return &script.Error{Kind: script.Invalid, Field: "timeout", Message: "is not a duration: its seconds and nanos differ in sign, or are out of range", Err: err}
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.AsDuration())
		defer cancel()
	}
	return x.service.execute(ctx, x.grant, x.request.GetCall(), x.request.GetTraceparent(), &x.answer)
}

// List implements agentv1.ExecutorServer.
func (s *service) List(ctx context.Context, req *agentv1.ListRequest) (*agentv1.ListResponse, error) {
	grant := grantOf(ctx)
	if req.GetTenant() != "" {
		if err := grant.CheckTenant(req.GetTenant()); err != nil {
			return nil, wire.ToStatus(err)
		}
	}
	leave, err := s.server.listing.Enter(ctx, grant.Caller())
	if err != nil {
		return nil, err // the caller is gone
	}
	defer leave()
	position := s.server.opts.Executor.Position()
	resp := &agentv1.ListResponse{
		Revision:  int64(position.Revision),
		Staleness: stalenessOf(position, &durationpb.Duration{}),
	}
	for _, live := range s.server.opts.Executor.List() {
		tenant, event := live.Name.Tenant, live.Trigger.Event
		if !grant.Allows(tenant) || req.GetTenant() != "" && req.GetTenant() != tenant || req.GetEvent() != "" && req.GetEvent() != event {
			continue
		}
		resp.Scripts = append(resp.Scripts, &agentv1.ScriptInfo{
			Tenant:   tenant,
			Name:     live.Name.Script,
			Revision: int64(live.Revision),
			Active:   wire.FromVersion(live.Active),
			Pinned:   live.Pinned,
			Enabled:  live.Enabled,
			Trigger:  wire.FromTrigger(live.Trigger),
		})
	}
	return resp, nil
}
