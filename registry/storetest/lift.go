package storetest

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// testChangeSetsLiftHolds: a change set that was rolled back is published again, fixed. Its holds end in the
// transaction that makes the candidates.
func (h Harness) testChangeSetsLiftHolds(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	r, by := rules(s), access.Everybody("unix")
	request := func(source string, plan *script.Plan) registry.ChangeSetRequest {
		req := registry.ChangeSetRequest{Tenant: "acme", Name: "cart", Author: "ann", By: by, Plan: plan}
		for i := range 3 {
			req.Scripts = append(req.Scripts, registry.PublishRequest{Write: registry.Write{Name: named(i)}, Source: []byte(source)})
		}
		return req
	}
	for _, source := range []string{"return 1", "return 2"} {
		if _, err := r.PublishChangeSet(ctx, request(source, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.RollbackChangeSet(ctx, registry.ChangeSetRollback{Tenant: "acme", Name: "cart", Author: "ann", By: by}); err != nil {
		t.Fatal(err)
	}
	plan := &script.Plan{Steps: []script.Step{{Percent: 10}}}
	if _, err := r.PublishChangeSet(ctx, request("return 3", plan)); script.KindOf(err) != script.Denied {
		t.Fatalf("with holds: %v", err)
	}
	before := snapshotOf(t, s).Head
	req := request("return 3", plan)
	req.LiftHold = true
	result, err := r.PublishChangeSet(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	tx := next(t, s, before)
	if tx.Revision != result.Set.Revision || len(tx.Releases) != 3 {
		t.Errorf("the watch yields %d releases of revision %d, want 3 of %d", len(tx.Releases), tx.Revision, result.Set.Revision)
	}
	for i := range 3 {
		now, err := h.Reopen(t, s).Release(ctx, named(i))
		if err != nil || now.Hold != nil || now.Pinned || now.Active.Number != 1 || now.Candidate == nil || now.Candidate.Version.Number != 3 || now.Revision != tx.Revision {
			t.Errorf("%+v, %v", now, err)
		}
	}
}
