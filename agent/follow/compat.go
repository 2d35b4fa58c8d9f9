package follow

import (
	"errors"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ErrOldRegistry means that a registry does not know Pull: it speaks the wire
// protocol 1, and its beacons and events are not heard.
var ErrOldRegistry = errors.New("the registry speaks the wire protocol 1")

// pullUnsigned does what pull does with a registry of protocol 1, whose answers
// nobody has signed, and which sends the releases of all tenants.
func (a *applier) pullUnsigned(all *answer, q *question) error {
	if !a.open.trusted.TrustsEverything() {
		return script.Errorf(script.Denied, "", "%w, in which nothing is signed, and this agent asks for signatures: upgrade registries first; until then it keeps what it has", ErrOldRegistry)
	}
	since := Cursor{Fleet: q.request.GetFleet(), Revision: script.Revision(q.request.GetSince())}
	q.silence.heard()
	for resp, err := range a.registry.Sync(q.ctx, since, q.request.GetWithoutSources()) {
		if err != nil {
			return q.silence.explain(err)
		}
		q.silence.pause()
		head := Cursor{Fleet: resp.GetFleet(), Revision: script.Revision(resp.GetHeadRevision())}
		if err := all.begin(head, resp.GetFull(), q.job.cursor); err != nil {
			a.refusals.note("answer of the registry", err)
			return err
		}
		objects, err := a.open.unsigned(head.Fleet, resp.GetObjects())
		if err != nil {
			return err
		}
		a.take(q.ctx, all, objects, resp.GetSources())
		q.silence.heard()
	}
	return nil
}

// unsigned returns the objects that are followed, in envelopes without signatures.
func (o *opener) unsigned(fleet string, objects []*eventv1.Object) ([]object, error) {
	followed := make([]object, 0, len(objects))
	for _, m := range objects {
		obj, ok := o.object(m)
		if !ok {
			continue
		}
		var err error
		if obj.Sealed, err = seal.Unsigned().Seal(&eventv1.Entry{Fleet: fleet, Object: m}); err != nil {
			return nil, err
		}
		followed = append(followed, obj)
	}
	return followed, nil
}
