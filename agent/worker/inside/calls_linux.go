package inside

import (
	"bufio"
	"context"
	"net"
	"os"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// answerCalls answers the calls that come over a connection that the agent sent.
func (s *service) answerCalls(f *os.File) {
	conn, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		s.log.Error("a connection for calls cannot be used", "error", err)
		return
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	var (
		in, out []byte
		reply   gateway.Reply
	)
	for {
		timeout, err := link.ReadTimeout(r)
		if err != nil {
			return // the agent has no use for it any more
		}
		var req workerv1.ExecuteRequest
		if in, err = link.ReadFrame(r, in, &req); err != nil {
			return
		}
		ctx, cancel := context.Background(), func() {}
		if timeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, timeout)
		}
		resp := s.execute(ctx, &req, &reply)
		cancel()
		if out, err = link.AppendFrame(out[:0], resp); err != nil {
			s.log.Error("a call cannot be answered", "script", req.GetScript(), "error", err)
			return
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
		if cap(out)+cap(in) > keptBuffers {
			in, out, reply = nil, nil, gateway.Reply{}
		}
	}
}

// keptBuffers is how many bytes a connection keeps between calls.
const keptBuffers = 64 << 10

// execute runs a call by way of reply.
func (s *service) execute(ctx context.Context, req *workerv1.ExecuteRequest, reply *gateway.Reply) *workerv1.ExecuteResponse {
	reply.Reset()
	err := s.executor.Execute(ctx, &gateway.Call{Script: req.GetScript(), Args: req.GetArgs(), Traceparent: req.GetTraceparent()}, reply)
	resp := &workerv1.ExecuteResponse{Version: reply.Version, Digest: wire.FromDigest(reply.Digest), Error: wire.FromError(err)}
	for i := range reply.Len() {
		resp.Results = append(resp.Results, reply.Value(i))
	}
	return resp
}
