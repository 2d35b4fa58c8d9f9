package follow_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

var errDown = script.Errorf(script.Unavailable, "", "the registry is down")

// Pull implements follow.Registry.
func (w *world) Pull(ctx context.Context, req *registryv1.PullRequest) iter.Seq2[*registryv1.PullResponse, error] {
	return func(yield func(*registryv1.PullResponse, error) bool) {
		w.mu.Lock()
		if late := w.faults.late; late > 0 {
			wait := time.After(time.Duration(w.random.Int64N(int64(late))))
			w.mu.Unlock()
			select {
			case <-wait:
			case <-ctx.Done():
			}
			w.mu.Lock()
		}
		w.syncs++
		old, overtake, pages := w.old, w.overtake, w.answer(req)
		w.mu.Unlock()
		if overtake != nil {
			overtake()
		}
		if old {
			yield(nil, follow.ErrOldRegistry)
			return
		}
		stream(ctx, w, pages, yield)
	}
}

// stream yields the responses as faults will have it.
func stream[T any](ctx context.Context, w *world, responses []T, yield func(T, error) bool) {
	w.mu.Lock()
	down, hang, cut, slow := w.faults.down, w.faults.hang, w.chance(w.faults.cut), w.chance(w.faults.slow)
	if cut {
		responses = responses[:w.random.IntN(len(responses))]
	}
	pause := time.Duration(w.random.Int64N(int64(500 * time.Millisecond)))
	w.mu.Unlock()
	var none T
	if down {
		yield(none, errDown)
		return
	}
	if hang {
		<-ctx.Done()
		yield(none, ctx.Err())
		return
	}
	for _, resp := range responses {
		if slow {
			select {
			case <-time.After(pause / time.Duration(len(responses))):
			case <-ctx.Done():
				yield(none, ctx.Err())
				return
			}
		}
		if !yield(resp, nil) {
			return
		}
	}
	if cut {
		yield(none, errors.New("connection reset by peer"))
	}
}

// answer composes the responses to a pull, as of now. w.mu is held.
func (w *world) answer(req *registryv1.PullRequest) []*registryv1.PullResponse {
	tenants, err := script.ParseSelector(req.GetTenants())
	if err != nil || len(req.GetNonce()) < 16 {
		w.t.Errorf("a request that is refused: %v, %v", req, err)
	}
	w.join(tenants)
	objects, full := w.since(req.GetFleet(), script.Revision(req.GetSince()), tenants)
	pages := []*eventv1.Page{{Unreadable: w.lost}}
	var responses []*registryv1.PullResponse
	for _, o := range objects {
		pages = append(pages, &eventv1.Page{Entries: [][]byte{w.seal(wire.FromObjectEntry(w.fleet, o))}})
	}
	for i, p := range pages {
		p.Since, p.SinceFleet = req.GetSince(), req.GetFleet()
		p.Fleet, p.Group, p.Nonce, p.Number, p.HeadRevision, p.Full = w.fleet, tenants.Group(), req.GetNonce(), int32(i), int64(w.head), full
		if !w.uncounted {
			p.Removals, p.AcceptedLoss, p.AcceptedLossRevision = proto.Int64(w.made), w.accepted, int64(w.at)
		}
		if i == 0 && !w.faults.sessionless {
			p.Session, p.SessionKey = w.token(), []byte("key")
		}
		if p.Last = i == len(pages)-1; p.Last {
			p.Checksums = w.checksums(tenants)
		}
		resp := &registryv1.PullResponse{Page: w.seal(p)}
		if i > 0 {
			resp.Sources = w.sourceOf(objects[i-1], req.GetWithoutSources())
		}
		responses = append(responses, resp)
	}
	return responses
}

// token returns a session's token.
func (w *world) token() []byte {
	token, err := proto.Marshal(&eventv1.Session{KeyId: w.sessionKey})
	if err != nil {
		w.t.Error(err)
	}
	return token
}

// since returns what is above a revision. w.mu is held.
func (w *world) since(fleet string, since script.Revision, tenants script.Selector) (objects []script.Object, full bool) {
	full = fleet != w.fleet || since == 0 || since > w.head || w.chance(w.faults.floor)
	if full {
		w.fulls++
	}
	for key, revision := range w.changed {
		o, live := w.now[key]
		if !live {
			o = tombstone(key, revision)
		}
		if w.narrow && o.Release == nil || slices.Contains(w.lost, key) && !w.knows {
			continue
		}
		if tenants.Matches(o.TenantName()) && (!full || live) && (full || revision > since) {
			objects = append(objects, o)
		}
	}
	return objects, full
}

func (w *world) sourceOf(o script.Object, without bool) []*scriptv1.Source {
	var sources []*scriptv1.Source
	for c := range o.Contents {
		if !without && !w.hidden[c.Digest] && !w.chance(w.faults.hide) {
			sources = append(sources, &scriptv1.Source{Digest: wire.FromDigest(c.Digest), Content: w.sources[c.Digest]})
		}
	}
	return sources
}

// Sync implements follow.Registry, as a registry of protocol 1 does.
func (w *world) Sync(ctx context.Context, since follow.Cursor, without bool) iter.Seq2[*registryv1.SyncResponse, error] {
	return func(yield func(*registryv1.SyncResponse, error) bool) {
		w.mu.Lock()
		if !w.old {
			w.t.Error("a registry of protocol 2 was asked as one of protocol 1")
		}
		objects, full := w.since(since.Fleet, since.Revision, script.Selector{})
		base := func() *registryv1.SyncResponse {
			return &registryv1.SyncResponse{Fleet: w.fleet, HeadRevision: int64(w.head), Full: full}
		}
		responses := []*registryv1.SyncResponse{base()}
		for _, o := range objects {
			resp := base()
			resp.Objects = append(resp.Objects, wire.FromObject(o))
			resp.Sources = w.sourceOf(o, without)
			responses = append(responses, resp)
		}
		w.mu.Unlock()
		stream(ctx, w, responses, yield)
	}
}

// FetchSources implements follow.Registry.
func (w *world) FetchSources(ctx context.Context, digests []script.Digest) iter.Seq2[*scriptv1.Source, error] {
	return func(yield func(*scriptv1.Source, error) bool) {
		w.mu.Lock()
		if w.faults.hang {
			w.mu.Unlock()
			<-ctx.Done()
			yield(nil, ctx.Err())
			return
		}
		defer w.mu.Unlock()
		if w.faults.down {
			yield(nil, errDown)
			return
		}
		for _, d := range digests {
			content, ok := w.sources[d]
			if !ok || w.hidden[d] || w.chance(w.faults.hide) {
				continue
			}
			if w.chance(w.faults.cut) {
				content = append([]byte("tampered "), content...)
			}
			if !yield(&scriptv1.Source{Digest: wire.FromDigest(d), Content: content}, nil) {
				return
			}
		}
	}
}
