package inside

import (
	"bufio"
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// asked is a call that came over a connection, and the time that it has; 0 is as long as
// it takes.
type asked struct {
	req     *workerv1.ExecuteRequest
	timeout time.Duration
}

// answerCalls answers the calls that come over a connection that the agent sent. One
// whose caller is gone, which closes the connection, is canceled.
func (s *service) answerCalls(f *os.File) {
	conn, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		s.log.Error("a connection for calls cannot be used", "error", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	calls := make(chan asked)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel()
		readCalls(ctx, conn, calls)
	})
	defer reading.Wait()
	defer func() { _ = conn.Close() }()
	defer cancel()
	var (
		out   []byte
		reply gateway.Reply
	)
	for {
		var call asked
		select {
		case call = <-calls:
		case <-ctx.Done():
			return // the agent has no use for the connection any more
		}
		resp := s.executeWithin(ctx, call, &reply)
		if out, err = link.AppendFrame(out[:0], resp); err != nil {
			s.log.Error("a call cannot be answered", "script", call.req.GetScript(), "error", err)
			return
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
		if cap(out) > keptBuffers {
			out, reply = nil, gateway.Reply{}
		}
	}
}

// readCalls hands over the calls that come, until the connection or ctx ends. It reads on
// while one runs, to see whether there is still somebody who waits for it.
func readCalls(ctx context.Context, conn net.Conn, calls chan<- asked) {
	r := bufio.NewReader(conn)
	var in []byte
	for {
		timeout, err := link.ReadTimeout(r)
		if err != nil {
			return
		}
		call := asked{req: &workerv1.ExecuteRequest{}, timeout: timeout}
		if in, err = link.ReadFrame(r, link.MaxMessage, in, call.req); err != nil {
			return
		}
		if cap(in) > keptBuffers {
			in = nil
		}
		select {
		case calls <- call:
		case <-ctx.Done():
			return
		}
	}
}

// keptBuffers is how many bytes of either direction a connection keeps between calls.
const keptBuffers = 64 << 10

// executeWithin runs a call in the time that it has.
func (s *service) executeWithin(ctx context.Context, call asked, reply *gateway.Reply) *workerv1.ExecuteResponse {
	if call.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, call.timeout)
		defer cancel()
	}
	return s.execute(ctx, call.req, reply)
}

// execute runs a call by way of reply.
func (s *service) execute(ctx context.Context, req *workerv1.ExecuteRequest, reply *gateway.Reply) *workerv1.ExecuteResponse {
	reply.Reset()
	run := s.executor.Execute
	if req.GetTrial() {
		run = s.executor.Try
	}
	call := &gateway.Call{Script: req.GetScript(), OnResponse: req.GetOnResponse(), Args: req.GetArgs(), Traceparent: req.GetTraceparent(), Key: req.GetKey(), Origin: gateway.Origin{Protocol: req.GetProtocol(), Caller: req.GetCaller()}}
	if ref, err := script.ParseRef(call.Script); err == nil && req.GetChained() {
		if r := s.table.Edition(ref.Name.String(), ref.Version); r != nil { // else the version is retained, or gone
			call.Script, call.Edition = ref.Name.String(), r
		}
	}
	used := engine.Used{}
	err := run(usedBy(ctx, &used), call, reply)
	resp := &workerv1.ExecuteResponse{Version: reply.Version, Digest: wire.FromDigest(reply.Digest), Error: wire.FromCallError(err), OnResponse: reply.OnResponse, Instructions: used.Instructions, Allocated: used.Allocated}
	for i := range reply.Len() {
		resp.Results = append(resp.Results, reply.Value(i))
	}
	return resp
}
