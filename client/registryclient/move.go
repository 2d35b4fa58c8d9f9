package registryclient

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/scriptorium-dev/scriptorium/client/archive"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Export yields all there is of the tenant, or of all if it is empty, as of one
// revision: the header, the tenants' settings, the values, and then each script after
// the sources that it is the first to need. An *Unreadable stands for one object that is left
// out, and others follow; any other error ends the sequence. Without one it is complete. Only ctx bounds it. It needs the role admin.
func (c *Client) Export(ctx context.Context, tenant string) iter.Seq2[archive.Item, error] {
	return func(yield func(archive.Item, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.registry.Export(ctx, &registryv1.ExportRequest{Tenant: tenant})
		if err != nil {
			yield(archive.Item{}, c.fault(ctx, err))
			return
		}
		for first := true; ; first = false {
			resp, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF) && first:
				yield(archive.Item{}, malformed(errors.New("an export without a header")))
				return
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(archive.Item{}, c.fault(ctx, err))
				return
			}
			if u := resp.GetUnreadable(); u != nil && !first {
				if !yield(archive.Item{}, &toUnreadable([]*registryv1.Unreadable{u})[0]) {
					return
				}
				continue
			}
			item, err := toItem(resp)
			if err == nil && first != (item.Header != nil) {
				err = malformed(errors.New("the header of an export is not where it belongs"))
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

func toItem(m *registryv1.ExportResponse) (archive.Item, error) {
	switch {
	case m.GetHeader() != nil:
		h := m.GetHeader()
		return archive.Item{Header: &archive.Header{
			Fleet: h.GetFleet(), Head: script.Revision(h.GetHeadRevision()), ExportedAt: h.GetExportedAt().AsTime(), Tenant: h.GetTenant(),
		}}, nil
	case m.GetScript() != nil:
		return archive.Item{Script: m.GetScript()}, nil
	case m.GetTenant() != nil:
		return archive.Item{Tenant: m.GetTenant()}, nil
	case m.GetValue() != nil:
		v, err := wire.ToValue(m.GetValue().GetValue())
		if err != nil {
			return archive.Item{}, malformed(err)
		}
		if got := script.DigestOf(m.GetValue().GetContent()); got != v.Digest {
			return archive.Item{}, script.Errorf(script.Internal, "", "the registry sent the value %s with the digest %s as %s: its store is damaged", v.Key, got, v.Digest)
		}
		return archive.Item{Value: m.GetValue()}, nil
	case m.GetSource() == nil:
		return archive.Item{}, malformed(errors.New("an item of an export that is not known here"))
	}
	digest, err := wire.ToDigest(m.GetSource().GetDigest())
	if err != nil {
		return archive.Item{}, malformed(err)
	}
	content := m.GetSource().GetContent()
	if got := script.DigestOf(content); got != digest {
		return archive.Item{}, script.Errorf(script.Internal, "", "the registry sent a source with the digest %s as %s: its store is damaged", got, digest)
	}
	return archive.Item{Source: content}, nil
}

// ImportOptions say how to import.
type ImportOptions struct {
	Author string // who asks for it; required
	Note   string // why, for the scripts' histories
	// Overwrite replaces what is there and differs, and gives numbers that a
	// deleted script had to the archive's versions. Both are a Conflict otherwise.
	Overwrite bool
	DryRun    bool // check everything, store nothing
}

// Imported is what became of the scripts of an import, and of what else there was.
type Imported struct {
	Created   int
	Unchanged int // they were there, just so
	Replaced  int
	Values    int // that were stored, not those that were so already
	Tenants   int // whose settings were stored, not those that were so already
}

// Import stores what Export yielded, exact to the version numbers. Each script, value
// and tenant's settings is stored in one transaction: what was stored stays when a
// later one is refused, or the registry cannot be reached any more, and importing the
// same again goes on from there. An error that items yield ends the import, and is
// returned as it is. Only ctx bounds it. It needs the role admin.
func (c *Client) Import(ctx context.Context, o ImportOptions, items iter.Seq2[archive.Item, error]) (Imported, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.registry.Import(ctx)
	if err != nil {
		return Imported{}, c.fault(ctx, err)
	}
	// A Send that fails says io.EOF, and CloseAndRecv says why.
	err = stream.Send(&registryv1.ImportRequest{Item: &registryv1.ImportRequest_Options{Options: &registryv1.ImportOptions{
		Author: o.Author, Note: o.Note, Overwrite: o.Overwrite, DryRun: o.DryRun,
	}}})
	for item, itemErr := range items {
		if err != nil {
			break
		}
		if itemErr != nil {
			return Imported{}, itemErr
		}
		if item.Header == nil {
			err = stream.Send(fromItem(item))
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return Imported{}, c.fault(ctx, err)
	}
	resp, err := stream.CloseAndRecv()
	if err != nil {
		return Imported{}, c.fault(ctx, err)
	}
	return Imported{Created: int(resp.GetCreated()), Unchanged: int(resp.GetUnchanged()), Replaced: int(resp.GetReplaced()), Values: int(resp.GetValues()), Tenants: int(resp.GetTenants())}, nil
}

func fromItem(item archive.Item) *registryv1.ImportRequest {
	switch {
	case item.Script != nil:
		return &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Script{Script: item.Script}}
	case item.Value != nil:
		return &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Value{Value: item.Value}}
	case item.Tenant != nil:
		return &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Tenant{Tenant: item.Tenant}}
	}
	return &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Source{Source: &scriptv1.Source{
		Digest: wire.FromDigest(script.DigestOf(item.Source)), Content: item.Source,
	}}}
}
