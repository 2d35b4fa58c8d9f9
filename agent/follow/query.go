package follow

import (
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// maxQueryID bounds the id of a query, in bytes.
const maxQueryID = 64

// query opens a Query.
func (o *opener) query(data []byte) (*eventv1.Query, error) {
	var m eventv1.Query
	if _, err := o.trusted.Open(data, &m); err != nil {
		return nil, refusalOf(data, err)
	}
	id, agents := len(m.GetId()), len(m.GetAgents())
	if id == 0 || id > maxQueryID || agents > wire.MaxQueryAgents || m.GetTimeout().AsDuration() <= 0 || m.GetMaxBytes() <= 0 {
		return nil, refuse(refusedMalformed, "a query has an id of %d bytes, %d agents, a timeout of %v, and room for %d bytes",
			id, agents, m.GetTimeout().AsDuration(), m.GetMaxBytes())
	}
	return &m, nil
}

// query passes on what asks this agent.
func (f *Follower) query(q *eventv1.Query) {
	if f.cfg.Query == nil || f.machine.ofAnotherFleet("query", q.GetFleet()) || !wire.QueryNames(q, f.cfg.Agent) {
		return
	}
	if q.GetTenant() != "" && !f.cfg.Tenants.Matches(q.GetTenant()) {
		return
	}
	f.cfg.Query(q)
}

// content opens a QueryContent.
func (o *opener) content(data []byte) (*eventv1.QueryContent, error) {
	var m eventv1.QueryContent
	if _, err := o.trusted.Open(data, &m); err != nil {
		return nil, refusalOf(data, err)
	}
	if id := len(m.GetId()); id == 0 || id > maxQueryID || len(m.GetData()) == 0 {
		return nil, refuse(refusedMalformed, "a query's content has an id of %d bytes and %d bytes of data", id, len(m.GetData()))
	}
	return &m, nil
}

// content passes on what is for this agent.
func (f *Follower) content(m *eventv1.QueryContent) {
	if f.cfg.Content == nil || f.machine.ofAnotherFleet("query's content", m.GetFleet()) || m.GetAgent() != f.cfg.Agent {
		return
	}
	f.cfg.Content(m)
}

// Incarnation returns what the agent's status names since its start.
func (f *Follower) Incarnation() string { return f.status.base.GetIncarnation() }
