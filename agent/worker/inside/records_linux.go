package inside

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// records brings the records of calls to the agent.
type records struct {
	chooser *decisionlog.Chooser
	home    home
	ready   chan struct{} // has an element when a record waits

	mu      sync.Mutex // guards what follows
	waiting []*pending
	bytes   int
	dropped int64 // since the last request
	sending chan struct{}
}

// pending is a record that waits for the agent.
type pending struct {
	record *workerv1.Record
	size   int
	strict bool
	kept   chan error // has one element once the agent has answered; nil unless it is strict
}

var _ execute.Observer = (*records)(nil)

// Bounds of the records that wait for the agent, and go together.
const (
	maxPendingBytes = 4 << 20
	pendingOverhead = 512
	recordsTogether = 500
	togetherBytes   = 512 << 10
	recordWindow    = 10 * time.Millisecond
	recordPatience  = 10 * time.Second
)

var errNoRoom = errors.New("too many records wait for the agent")

func newRecords(from home, settings func(tenant string) script.TenantSettings) *records {
	return &records{chooser: decisionlog.NewChooser(settings), home: from, ready: make(chan struct{}, 1), sending: make(chan struct{}, 1)}
}

// Ended implements execute.Observer.
func (r *records) Ended(ctx context.Context, e *execute.Ended) error {
	entry := r.chooser.Entry(e)
	if entry == nil {
		return nil
	}
	p := &pending{record: entry.Message(), strict: entry.Strict}
	tenant := entry.Tenant
	entry.Release()
	p.size = proto.Size(p.record) + pendingOverhead
	if p.strict {
		p.kept = make(chan error, 1)
	}
	if !r.add(p) {
		if p.strict {
			return decisionlog.NotKept(tenant, errNoRoom)
		}
		return nil
	}
	if !p.strict {
		return nil
	}
	if ctx.Err() != nil { // the call ended with that, and has its record all the same
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
		defer cancel()
	}
	var err error
	select {
	case err = <-p.kept:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return decisionlog.NotKept(tenant, err)
	}
	return nil
}

// add queues the record, if there is room.
func (r *records) add(p *pending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+p.size > maxPendingBytes {
		r.dropped++
		return false
	}
	r.bytes += p.size
	r.waiting = append(r.waiting, p)
	select {
	case r.ready <- struct{}{}:
	default:
	}
	return true
}

// run brings records, as many together as there are, until ctx is done.
func (r *records) run(ctx context.Context) {
	for {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return
		}
		if !r.urgent() {
			select {
			case <-time.After(recordWindow):
			case <-ctx.Done():
				return
			}
		}
		r.bring(ctx)
	}
}

// urgent reports whether a call waits, or much.
func (r *records) urgent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes >= togetherBytes || len(r.waiting) > 0 && r.waiting[0].strict
}

// bring sends all that waits.
func (r *records) bring(ctx context.Context) {
	r.sending <- struct{}{}
	defer func() { <-r.sending }()
	for {
		batch, req := r.take()
		if len(batch) == 0 {
			return
		}
		r.send(ctx, batch, req)
	}
}

// take takes a batch. Its room is free once it is sent. What was dropped goes with the next one.
func (r *records) take() (batch []*pending, req *workerv1.RecordRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return nil, nil
	}
	req = &workerv1.RecordRequest{Dropped: r.dropped}
	n := 0
	for size := 0; n < len(r.waiting) && n < recordsTogether && size < togetherBytes; n++ {
		size += r.waiting[n].size
		req.Records = append(req.Records, r.waiting[n].record)
	}
	batch = append(batch, r.waiting[:n]...)
	left := copy(r.waiting, r.waiting[n:])
	clear(r.waiting[left:])
	r.waiting, r.dropped = r.waiting[:left], 0
	return batch, req
}

func (r *records) send(ctx context.Context, batch []*pending, req *workerv1.RecordRequest) {
	ctx, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	resp, err := r.home.client.Record(ctx, req)
	if err != nil {
		err = wire.FromStatus(err)
	}
	refused := map[int]error{}
	for _, number := range resp.GetRefused() {
		refused[int(number)] = errors.New(resp.GetReason())
	}
	size := 0
	for i, p := range batch {
		size += p.size
		if p.strict {
			p.kept <- errors.Join(err, refused[i])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= size
	if err != nil {
		r.dropped += req.GetDropped() + int64(len(batch))
	}
}
