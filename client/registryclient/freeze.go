package registryclient

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Freeze keeps what runs in all tenants as it is, but for what goes back: until then or, if lasts
// is 0, until Thaw. except are globs of tenants and of scripts that are not frozen. It takes the
// place of a freeze that there is.
func (c *Client) Freeze(ctx context.Context, lasts time.Duration, except []string, author, note string) (script.Freeze, error) {
	req := &registryv1.FreezeRequest{Author: author, Note: note, Except: except}
	if lasts != 0 {
		req.Lasts = durationpb.New(lasts)
	}
	resp, err := call(ctx, c, c.registry.Freeze, req)
	if err != nil {
		return script.Freeze{}, err
	}
	return toFreeze(resp.GetFreeze())
}

// Thaw ends the freeze. changed is false if the registry is not frozen.
func (c *Client) Thaw(ctx context.Context, author, note string) (changed bool, err error) {
	resp, err := call(ctx, c, c.registry.Thaw, &registryv1.ThawRequest{Author: author, Note: note})
	return resp.GetChanged(), err
}

// Frozen returns the freeze of the registry; nil while it is not frozen. The exceptions are
// empty unless the caller has the role admin for all tenants.
func (c *Client) Frozen(ctx context.Context) (*script.Freeze, error) {
	resp, err := call(ctx, c, c.registry.Status, &registryv1.StatusRequest{PageSize: 1})
	if err != nil {
		return nil, err
	}
	return toFrozen(resp.GetStatus())
}

// toFrozen returns the freeze that a status has; nil for none.
func toFrozen(m *registryv1.FleetStatus) (*script.Freeze, error) {
	if m.GetFreeze() == nil {
		return nil, nil
	}
	f, err := toFreeze(m.GetFreeze())
	return &f, err
}

func toFreeze(m *scriptv1.Freeze) (script.Freeze, error) {
	f, err := wire.ToFreeze(m)
	if err != nil {
		return script.Freeze{}, malformed(err)
	}
	return f, nil
}
