package registryclient

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// maxPage is the largest page that a registry sends.
const maxPage = 1000

// AuditFilter says which entries of the audit trail.
type AuditFilter struct {
	// Name: the zero Name selects all scripts, one without Script all of the tenant.
	Name  script.Name
	Since time.Time // the zero Time: all that are kept
	Limit int       // at most this many; 0: all
}

// Audit yields the writes that the registry has on record, newest first. It asks
// for them page by page as they are consumed; an error ends the sequence.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[script.AuditEntry, error] {
	return func(yield func(script.AuditEntry, error) bool) {
		req := &registryv1.AuditRequest{Tenant: f.Name.Tenant, Name: f.Name.Script, PageSize: maxPage}
		if !f.Since.IsZero() {
			req.Since = timestamppb.New(f.Since)
		}
		for seen := 0; ; req.PageSize = maxPage {
			if f.Limit > 0 {
				req.PageSize = int32(min(f.Limit-seen, maxPage))
			}
			resp, err := call(ctx, c, c.registry.Audit, req)
			if err != nil {
				yield(script.AuditEntry{}, err)
				return
			}
			for _, m := range resp.GetEntries() {
				entry, err := wire.ToAuditEntry(m)
				if err != nil {
					yield(script.AuditEntry{}, malformed(err))
					return
				}
				if seen++; !yield(entry, nil) || seen == f.Limit {
					return
				}
			}
			if resp.GetNextPageToken() == "" {
				return
			}
			req.PageToken = resp.GetNextPageToken()
		}
	}
}
