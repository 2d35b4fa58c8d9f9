package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// AcceptLoss is a request to have agents remove objects whose records are lost.
type AcceptLoss struct {
	By           access.Identity
	Objects      int64 // agents that would lose more keep what they have
	Author, Note string
}

// AcceptLoss has agents remove objects whose records the store has lost. It needs the role
// admin for all tenants, and returns the revision of the change.
func (r *Registry) AcceptLoss(ctx context.Context, req AcceptLoss) (script.Revision, error) {
	if err := mayAdminister(req.By, ""); err != nil {
		return 0, err
	}
	if req.Objects <= 0 {
		return 0, script.Errorf(script.Invalid, "objects", "%d is no number of lost objects: agents log how many they keep", req.Objects)
	}
	if err := validateAuthor(req.Author, req.Note); err != nil {
		return 0, err
	}
	if r.checkup == nil {
		return 0, script.Errorf(script.Unavailable, "", "the registry's store cannot be checked")
	}
	freeze, err := r.store.Freeze(ctx)
	if err != nil {
		return 0, err
	}
	if freeze.On(r.now()) { // agents remove what runs
		return 0, freeze.Refusal("accept the loss of objects")
	}
	return r.checkup.AcceptLoss(ctx, req.Objects, freeze.Revision, script.AuditEntry{
		Time: r.now(), Change: script.ChangeAcceptLoss,
		Author: req.Author, Identity: req.By.Name, Peer: req.By.Peer, Note: strings.TrimSpace(fmt.Sprintf("%d objects. %s", req.Objects, req.Note)),
	})
}
