package worker

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// home answers one process. It gives it what is its tenant's and nothing else.
type home struct {
	workerv1.UnimplementedHomeServer
	cfg    Config
	server *grpc.Server
	tenant atomic.Pointer[tenant] // nil until the process has one
}

// maxAsked is how much a process may ask for at a time.
const maxAsked = 64

func newHome(cfg Config) *home {
	h := &home{cfg: cfg, server: link.NewServer(grpc.MaxConcurrentStreams(maxAsked))}
	workerv1.RegisterHomeServer(h.server, h)
	return h
}

// Content implements workerv1.HomeServer.
func (h *home) Content(ctx context.Context, req *workerv1.ContentRequest) (*workerv1.ContentResponse, error) {
	d, err := wire.ToDigest(req.GetDigest())
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	t := h.tenant.Load()
	if t == nil || !t.retains(d) {
		return nil, wire.ToStatus(script.Errorf(script.NotFound, "digest", "nothing of the tenant has the digest %v", d))
	}
	content, err := h.cfg.Node.Content(ctx, d)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &workerv1.ContentResponse{Content: content}, nil
}

// Log implements workerv1.HomeServer.
func (h *home) Log(_ context.Context, req *workerv1.LogRequest) (*workerv1.LogResponse, error) {
	if t := h.tenant.Load(); t != nil {
		h.cfg.Logged(t.name, req.GetLines(), req.GetDropped())
	}
	return &workerv1.LogResponse{}, nil
}
