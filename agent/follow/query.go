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
