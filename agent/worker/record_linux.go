package worker

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of the records that a process brings.
const (
	maxRecords       = 1000 // of one request
	recordsASecond   = 200  // requests
	keepPatience     = 5 * time.Second
	maxRefusedReason = 1 << 10
)

// Record implements workerv1.HomeServer. The records are of the process's own tenant, whatever it says,
// and those of a strict audit are on disk when it returns.
func (h *home) Record(ctx context.Context, req *workerv1.RecordRequest) (*workerv1.RecordResponse, error) {
	if err := h.asked.WaitN(ctx, asksASecond/recordsASecond); err != nil {
		return nil, err
	}
	t := h.tenant.Load()
	if t == nil || h.cfg.Records == nil {
		return &workerv1.RecordResponse{}, nil
	}
	h.cfg.Records.Lost(req.GetDropped())
	strict := h.cfg.Node.Tenants.Settings(t.name).Audit == script.AuditStrict
	now := time.Now()
	resp := &workerv1.RecordResponse{}
	kept := map[int]*decisionlog.Kept{}
	refuse := func(number int, err error) {
		resp.Refused = append(resp.Refused, int32(number)) //nolint:gosec // at most maxRecords
		resp.Reason = cut(err.Error(), maxRefusedReason)
	}
	for i, m := range req.GetRecords() {
		if i >= maxRecords {
			break
		}
		e := decisionlog.Handed(m, t.name, strict, now)
		k, err := h.cfg.Records.Record(e)
		e.Release()
		if err != nil {
			refuse(i, err)
		} else if k != nil {
			kept[i] = k
		}
	}
	ctx, cancel := context.WithTimeout(ctx, keepPatience)
	defer cancel()
	for i, k := range kept {
		if err := k.Wait(ctx); err != nil {
			refuse(i, err)
		}
	}
	return resp, nil
}
