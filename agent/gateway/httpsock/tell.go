package httpsock

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// decisionContentType is that of a decision as JSON.
var decisionContentType = []string{"application/vnd.scriptorium.decision+json"}

// told is a decision as a client gets it that asks for JSON: all of it, which the headers of an answer
// cannot say. docs/gateways/README.md has its members.
type told struct {
	Allow           bool            `json:"allow"`
	Status          int             `json:"status,omitempty"`
	Body            string          `json:"body,omitempty"`
	Headers         toldChanges     `json:"headers"`
	ResponseHeaders toldChanges     `json:"response_headers"`
	Upstream        string          `json:"upstream,omitempty"`
	Path            *string         `json:"path,omitempty"`
	Query           *string         `json:"query,omitempty"`
	Metadata        json.RawMessage `json:"metadata,omitempty"`
	Version         uint64          `json:"version,omitempty"`
	Reason          script.Kind     `json:"reason,omitempty"`
}

type toldChanges struct {
	Remove []string    `json:"remove,omitempty"`
	Set    [][2]string `json:"set,omitempty"`
	Append [][2]string `json:"append,omitempty"`
}

func changesOf(c decision.Changes) toldChanges {
	pairs := func(list []decision.Header) (pairs [][2]string) {
		for _, h := range list {
			pairs = append(pairs, [2]string{h.Name, h.Value})
		}
		return pairs
	}
	return toldChanges{Remove: c.Remove, Set: pairs(c.Set), Append: pairs(c.Append)}
}

// tell answers with the decision, which err kept from being the script's.
func (s *Server) tell(w http.ResponseWriter, d *decision.Decision, err error, version uint64) {
	t := told{
		Allow: d.Allow, Status: d.Status, Body: d.Body, Headers: changesOf(d.Request), ResponseHeaders: changesOf(d.Response),
		Upstream: d.Upstream, Path: d.Path, Query: d.Query, Metadata: d.Metadata, Version: version,
	}
	if err != nil {
		t.Reason = script.KindOf(err)
	}
	text, err := json.Marshal(t)
	if err != nil {
		s.fail(w, script.Errorf(script.Internal, "", "the decision cannot be encoded: %w", err))
		return
	}
	h := w.Header()
	h["Content-Type"] = decisionContentType
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(text) // a caller that went away needs no answer
}
