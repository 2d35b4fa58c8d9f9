package wire

import (
	"path"
	"slices"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// MaxQueryAgents is how many agents, or patterns of agents, a Query has at most.
const MaxQueryAgents = 64

// QueryNames reports whether the query is for the agent.
func QueryNames(q *eventv1.Query, agent string) bool {
	return len(q.GetAgents()) == 0 || slices.ContainsFunc(q.GetAgents(), func(pattern string) bool {
		matches, _ := path.Match(pattern, agent) // a pattern that is none matches nothing
		return matches
	})
}

// partBytes is what each part of an answer counts for besides what it says, so that the bytes of an
// answer bound the number of its parts, too.
const partBytes = 64

// AnswerBytes returns what a part takes of Query.max_bytes. Agents and registries count alike.
func AnswerBytes(m *eventv1.Answer) int64 {
	head := &eventv1.Answer{Fleet: m.GetFleet(), Id: m.GetId(), Agent: m.GetAgent(), Number: m.GetNumber(), Last: m.GetLast(), Error: m.GetError(), UnknownKind: m.GetUnknownKind()}
	return int64(proto.Size(m)-proto.Size(head)) + partBytes
}
