package httpsock

import (
	"net/http"
	"strconv"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
)

// decisionContentType is that of a decision as JSON.
var decisionContentType = []string{"application/vnd.scriptorium.decision+json"}

// tell answers with all of the decision, which the headers of an answer cannot say. Err kept it from being
// the script's.
func (s *Server) tell(w http.ResponseWriter, run *decision.Run, d *decision.Decision, err error) {
	text, err := run.Document(d, err)
	if err != nil {
		s.fail(w, err)
		return
	}
	h := w.Header()
	h["Content-Type"] = decisionContentType
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(text) // a caller that went away needs no answer
}
