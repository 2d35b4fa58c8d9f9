package registryclient

import (
	"context"
	"errors"
	"io"
	"iter"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// DoctorOptions say where to look, and what to do.
type DoctorOptions struct {
	// Selected is a script, a tenant without a script, or all there is.
	Selected script.Name
	// Repair what can be repaired; the author is required then.
	Repair       bool
	FromAgents   bool // ask agents for copies of what the registry's store has forgotten
	Author, Note string
}

// Finding is something that is damaged in the registry's store.
type Finding struct {
	Key      string          // an Unreadable's key, "versions/<tenant>/<name>/<number>" or "sources/<digest>"
	Revision script.Revision // of the record; 0 of a source
	Reason   string
	Remedy   string // what a repair does, or did; or what to do where it can do nothing
	// Repairable says that a repair is possible, and Repaired that it was made.
	Repairable, Repaired bool
}

// AcceptLoss has agents remove up to so many objects whose records the registry has lost.
// It needs the role admin for all tenants.
func (c *Client) AcceptLoss(ctx context.Context, objects int64, author, note string) (script.Revision, error) {
	resp, err := call(ctx, c, c.registry.AcceptLoss, &registryv1.AcceptLossRequest{Objects: objects, Author: author, Note: note})
	return script.Revision(resp.GetRevision()), err
}

// Doctor yields what is damaged: records that cannot be read, and sources and contents of
// values that are missing or do not match their digest. An error ends the sequence; without
// one it is complete. Only ctx bounds it. It needs the role admin.
func (c *Client) Doctor(ctx context.Context, o DoctorOptions) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.registry.Doctor(ctx, &registryv1.DoctorRequest{
			Tenant: o.Selected.Tenant, Name: o.Selected.Script, Repair: o.Repair, FromAgents: o.FromAgents, Author: o.Author, Note: o.Note,
		})
		for err == nil {
			var m *registryv1.DoctorResponse
			if m, err = stream.Recv(); err != nil {
				break
			}
			f := Finding{
				Key: m.GetKey(), Revision: script.Revision(m.GetRevision()), Reason: m.GetReason(),
				Remedy: m.GetRemedy(), Repairable: m.GetRepairable(), Repaired: m.GetRepaired(),
			}
			if !yield(f, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(Finding{}, c.fault(ctx, err))
		}
	}
}
