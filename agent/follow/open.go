package follow

import (
	"bytes"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// opener takes messages out of their envelopes. What it returns is believed: a
// trusted key has signed it, and it is of the group. Its errors are refusals.
type opener struct {
	trusted *seal.Keyring
	tenants script.Selector
	group   string
}

// object is an entry that came within a message that is believed.
type object struct {
	Item
	// err says why the object cannot go live. If it cannot even be read, the Item has its
	// key and revision alone.
	err error
}

// event is a transaction of the feed, as the group sees it.
type event struct {
	fleet              string
	revision, previous script.Revision
	objects            []object // of kinds and tenants that are followed
	sources            []*scriptv1.Source
	removals           int64 // that the registry had made by then, if the event removes anything
	sealedBy           string
	bytes              int
}

// beacon says where the feed is.
type beacon struct {
	at         time.Time // when it came
	fleet      string
	head       script.Revision
	group      script.Revision // of the group's last event
	term       int64
	sequence   uint64
	sums       sums // as of head
	unreadable keys // objects whose records the registry cannot read
	reportEach time.Duration
	agents     int // of the group, connected; 0: the registry does not say
	sealedBy   string
	loss       script.Revision // at which an administrator accepted a loss last
	sessions   []string        // the key ids of the sessions that the registry knows; empty: it does not say
}

// page is a part of an answer.
type page struct {
	*eventv1.Page
	objects  []object
	sums     sums // on the last page
	sealedBy string
}

func (o *opener) event(data []byte) (*event, error) {
	var m eventv1.Event
	id, err := o.trusted.Open(data, &m)
	if err != nil {
		return nil, refusalOf(data, err)
	}
	if m.GetGroup() != o.group {
		return nil, refuse(refusedOtherGroup, "an event of the group %.80q came to one of %q", m.GetGroup(), o.group)
	}
	if m.GetFleet() == "" || m.GetPreviousRevision() < 0 || m.GetRevision() <= m.GetPreviousRevision() {
		return nil, refuse(refusedMalformed, "an event of fleet %.80q goes from revision %d to %d", m.GetFleet(), m.GetPreviousRevision(), m.GetRevision())
	}
	objects, err := o.entries(m.GetFleet(), m.GetEntries())
	if err != nil {
		return nil, err
	}
	if trace, ok := tracecontext.Parse(m.GetTraceparent()); ok {
		for i := range objects {
			objects[i].Trace = trace
		}
	}
	return &event{
		fleet: m.GetFleet(), revision: script.Revision(m.GetRevision()), previous: script.Revision(m.GetPreviousRevision()),
		objects: objects, sources: m.GetSources(), removals: m.GetRemovals(), sealedBy: id, bytes: len(data),
	}, nil
}

func (o *opener) beacon(data []byte, at time.Time) (*beacon, error) {
	var m eventv1.Beacon
	id, err := o.trusted.Open(data, &m)
	if err != nil {
		return nil, refusalOf(data, err)
	}
	if m.GetGroup() != o.group {
		return nil, refuse(refusedOtherGroup, "a beacon of the group %.80q came to one of %q", m.GetGroup(), o.group)
	}
	if m.GetFleet() == "" || m.GetGroupRevision() < 0 || m.GetHeadRevision() < m.GetGroupRevision() {
		return nil, refuse(refusedMalformed, "a beacon of fleet %.80q has the group at revision %d and the head at %d",
			m.GetFleet(), m.GetGroupRevision(), m.GetHeadRevision())
	}
	sums, err := sumsOf(m.GetChecksums())
	if err != nil {
		return nil, err
	}
	return &beacon{
		at: at, fleet: m.GetFleet(), head: script.Revision(m.GetHeadRevision()), group: script.Revision(m.GetGroupRevision()),
		term: m.GetTerm(), sequence: m.GetSequence(), sums: sums, unreadable: keySet(m.GetUnreadable()), reportEach: m.GetReportInterval().AsDuration(), sealedBy: id,
		loss: script.Revision(m.GetAcceptedLossRevision()), sessions: m.GetSessionKeys(), agents: int(m.GetAgents()),
	}, nil
}

// rollCall returns the fleet that is called.
func (o *opener) rollCall(data []byte) (fleet string, err error) {
	var m eventv1.RollCall
	if _, err := o.trusted.Open(data, &m); err != nil {
		return "", refusalOf(data, err)
	}
	return m.GetFleet(), nil
}

// page opens a page of the answer to the request.
func (o *opener) page(data []byte, to *registryv1.PullRequest) (page, error) {
	m := &eventv1.Page{}
	id, err := o.trusted.Open(data, m)
	switch {
	case err != nil:
		return page{}, refusalOf(data, err)
	case !bytes.Equal(m.GetNonce(), to.GetNonce()):
		return page{}, refuse(refusedReplayed, "a page of the registry's answer belongs to another request")
	case m.GetSince() != to.GetSince() || m.GetSinceFleet() != to.GetFleet():
		return page{}, refuse(refusedReplayed, "a page of the registry's answer is for a follower at revision %d of fleet %.80q; this one asked at %d of %q",
			m.GetSince(), m.GetSinceFleet(), to.GetSince(), to.GetFleet())
	case m.GetGroup() != o.group:
		return page{}, refuse(refusedOtherGroup, "a page of the registry's answer is of the group %.80q, where %q was asked for", m.GetGroup(), o.group)
	case m.GetFleet() == "":
		return page{}, refuse(refusedMalformed, "a page of the registry's answer does not say which fleet it belongs to")
	}
	p := page{Page: m, sealedBy: id}
	if p.objects, err = o.entries(m.GetFleet(), m.GetEntries()); err != nil {
		return page{}, err
	}
	p.sums, err = sumsOf(m.GetChecksums())
	return p, err
}

// entries takes entries out of their envelopes. Their own signatures are not looked
// at: that of the message is theirs too. Those of kinds or tenants that are not
// followed are left out.
func (o *opener) entries(fleet string, sealed [][]byte) ([]object, error) {
	objects := make([]object, 0, len(sealed))
	for _, data := range sealed {
		var e eventv1.Entry
		id, err := seal.Unpack(data, &e)
		if err != nil {
			return nil, refusalOf(data, err)
		}
		if e.GetFleet() != fleet {
			return nil, refuse(refusedOtherFleet, "a message of fleet %.80q has an entry of %.80q", fleet, e.GetFleet())
		}
		if obj, ok := o.object(e.GetObject()); ok {
			obj.Sealed, obj.SealedBy = data, id
			objects = append(objects, obj)
		}
	}
	return objects, nil
}

// object reads an object; ok is false if it is not followed.
func (o *opener) object(m *eventv1.Object) (obj object, ok bool) {
	kind, ok := kindOf(m.GetKey())
	if !ok {
		return object{}, false
	}
	read, known, err := wire.ToObject(m)
	if !known {
		return object{}, false // with something that this software does not know
	}
	if err != nil {
		read = unread(kind, script.Revision(m.GetRevision()))
	} else {
		err = heeded(read)
	}
	if tenant := tenantOf(m.GetKey()); script.ValidateLabel("tenant", tenant) == nil && !o.tenants.Matches(tenant) {
		return object{}, false
	}
	return object{Item: Item{Key: m.GetKey(), Object: read}, err: err}, true
}
