package inside

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// home is the agent, where sources and the contents of values come from.
type home struct{ client workerv1.HomeClient }

var (
	_ cache.Sources = home{}
	_ cache.Reader  = home{}
)

// Bounds on how long the agent is waited for. A source may have to come from the
// registry; a value is on the agent's disk.
const (
	sourcePatience = 10 * time.Second
	valuePatience  = time.Second
)

// Source implements cache.Sources.
func (h home) Source(ctx context.Context, d script.Digest) ([]byte, error) {
	return h.content(ctx, d, sourcePatience)
}

// Content implements cache.Reader.
func (h home) Content(d script.Digest) ([]byte, error) {
	return h.content(context.Background(), d, valuePatience)
}

func (h home) content(ctx context.Context, d script.Digest, patience time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := h.client.Content(ctx, &workerv1.ContentRequest{Digest: wire.FromDigest(d)})
	if err != nil {
		return nil, wire.FromStatus(err)
	}
	if script.DigestOf(got.GetContent()) != d {
		return nil, script.Errorf(script.Internal, "", "the agent sent another content than that of %v", d)
	}
	return got.GetContent(), nil
}
