package worker

import (
	"context"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// live returns what is live of the tenant in the agent.
func (t *tenant) live() *change {
	node := t.pool.cfg.Node
	objects := []script.Object{{Tenant: &script.Tenant{Name: t.name, Revision: node.Tenants.Revision(t.name), Settings: node.Tenants.Settings(t.name)}}}
	for r := range node.Table.All() {
		if r.Name.Tenant == t.name {
			release := r.Script()
			objects = append(objects, script.Object{Release: &release})
		}
	}
	for v := range node.Values.All() {
		if v.Key.Tenant == t.name {
			objects = append(objects, script.Object{Value: &v})
		}
	}
	return &change{put: objects, again: true}
}

// sayDropped reports whether it is time to say again that lines were left out.
func (t *tenant) sayDropped() (yes bool) {
	t.said.Do(func() { yes = true })
	return yes
}

// manyDigests are still few enough to be kept for no need.
const manyDigests = 10_000

// retain notes the digests that the tenant's process may ask for: those of the objects,
// and of those before unless they are all.
func (t *tenant) retain(objects []script.Object, all bool) {
	t.digests.Lock()
	defer t.digests.Unlock()
	if all {
		t.retained = map[script.Digest]struct{}{}
	}
	for _, o := range objects {
		for d := range o.Retained {
			t.retained[d] = struct{}{}
		}
		for c := range o.Contents {
			t.retained[c.Digest] = struct{}{}
		}
	}
}

// retains reports whether something of the tenant has the digest.
func (t *tenant) retains(d script.Digest) bool {
	t.digests.RLock()
	defer t.digests.RUnlock()
	_, ok := t.retained[d]
	return ok
}

// How many bytes of objects go into one message, about: of a change, and of all that is live.
// Of the latter there may be much, and the process has to take each message in time.
const (
	together    = link.MaxMessage / 4
	ofAllAtOnce = together / 8
)

// signed returns the change without the retained versions that their publisher has not signed,
// if that has to be. t.mu is held.
func (t *tenant) signed(c *change) *change {
	trust := t.pool.cfg.Node.Publishers.Trust()
	may := *c
	may.signed = trust.Requires(t.name)
	t.filtered = t.filtered || may.signed
	may.put = slices.Clone(c.put)
	for i, o := range may.put {
		if o.Release != nil {
			may.put[i].Release = new(trust.Signed(*o.Release))
		}
	}
	return &may
}

// parts yields the messages that make a change live: one, unless it is a very large one. Then it
// goes live in parts, in the order in which one message does.
func parts(c *change) iter.Seq[*workerv1.ApplyRequest] {
	most := together
	if c.again {
		most = ofAllAtOnce
	}
	return func(yield func(*workerv1.ApplyRequest) bool) {
		req, size := &workerv1.ApplyRequest{Signed: c.signed}, 0
		for _, o := range inOrder(c.put) {
			m := wire.FromObject(o)
			if size += proto.Size(m); size > most && len(req.GetPut()) > 0 {
				if !yield(req) {
					return
				}
				req, size = &workerv1.ApplyRequest{Signed: c.signed}, proto.Size(m)
			}
			req.Put = append(req.Put, m)
		}
		req.Gone = c.gone
		yield(req)
	}
}

// tell makes a part of a change live in the process.
func tell(ctx context.Context, p *process, part *workerv1.ApplyRequest) error {
	_, err := p.client.Apply(ctx, part)
	return wire.FromStatus(err)
}

// tellPatience is how long one tenant's process may take to make a part of a change live. One
// that takes longer is replaced by one that starts from the change.
const tellPatience = 2 * time.Second

// apply makes a change live in the tenant's process, unless there is none just now:
// the next one then starts from it. It reports whether the process has it. t.mu is held.
func (t *tenant) apply(c *change) bool {
	before := t.settings
	lifted := t.note(c)
	if before.MemoryBytes != t.settings.MemoryBytes || before.CPU != t.settings.CPU {
		select {
		case t.another <- struct{}{}:
		default: // it is on its way
		}
	}
	if len(t.retained) > t.enough { // most of them are of the past
		t.retain(t.live().put, true)
		t.enough = 2*len(t.retained) + manyDigests
	}
	t.retain(c.put, false)
	p := t.state.Load().process
	if p == nil {
		return false
	}
	next := t.signed(c)
	if c.again && t.filtered { // otherwise it has all there is
		live, last := t.takeUp()
		live.gone = c.gone
		next = t.handed(live, last)
	}
	for part := range parts(next) {
		if !t.ask(p, func(ctx context.Context) error { return tell(ctx, p, part) }) {
			return false
		}
	}
	if lifted {
		t.tellBlame(p)
	}
	return true
}

// note says what a change makes of what the agent keeps of the tenant itself, and reports
// whether a quarantine has ended. t.mu is held.
func (t *tenant) note(c *change) (lifted bool) {
	if c.settings != nil {
		t.settings = *c.settings
	}
	return t.released(c)
}

// handed returns what is live, with the last change, as the process gets it. It may ask for what
// is in them, and for nothing else. t.mu is held.
func (t *tenant) handed(live, last *change) *change {
	t.filtered = false
	t.retain(live.put, true)
	if last != nil {
		t.retain(last.put, false)
		live = union([]*told{{change: live}, {change: last}})
	}
	return t.signed(live)
}

// ask has the process do something that calls may wait for, and reports whether it did. The
// agent kills a process that does not, and sends it no more calls. The next process gets the
// last change before its first call. t.mu is held.
func (t *tenant) ask(p *process, do func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(t.ctx, tellPatience)
	defer cancel()
	err := do(ctx)
	if err == nil {
		return true
	}
	t.drop(p)
	if t.ctx.Err() != nil { // it leaves, and is drained
		return false
	}
	if ctx.Err() == nil { // most likely it died of something else
		select {
		case <-p.ended:
			return false
		case <-time.After(unreachableFor):
		case <-t.ctx.Done():
		}
	}
	t.pool.cfg.Log.Warn("the process of a tenant does not take a change; it is replaced by one that has it", "tenant", t.name, "error", cut(err.Error(), maxSaid))
	p.kill(reasonSlow)
	return false
}
