package decision

import (
	"encoding/json"
	"net/http"
)

// Decision is what a gateway does with a request. It is valid as it is: adapters check nothing.
type Decision struct {
	// Allow lets the request go on, with the changes below. Else the gateway answers with
	// Status and Body.
	Allow  bool
	Status int
	Body   string

	// Request has the changes of the headers that the upstream gets, and Response of those that the
	// client gets, also if Allow is false.
	Request, Response Changes

	// Upstream is where the request goes, by a name that the gateway knows; "" leaves it.
	Upstream string
	// Path and Query replace those of the request; nil leaves them.
	Path, Query *string
	// Metadata is a JSON object for the gateway's own use, or nil.
	Metadata json.RawMessage
}

// Changes of headers. Remove comes first, then Set, then Append.
type Changes struct {
	Remove []string // names in lower case
	Set    []Header
	Append []Header
}

// Header is one line of a head. Its name is in lower case.
type Header struct{ Name, Value string }

// Allowed is the decision of a script that returns nothing.
var Allowed = Decision{Allow: true}

// ReasonHeader says, on the answer that a client gets if no script decided, why: it has the kind
// of the error.
const ReasonHeader = "scriptorium-reason"

// Closed is the decision if none can be made, for the reason: to deny.
func Closed(reason string) Decision {
	return Decision{Status: http.StatusServiceUnavailable, Body: "no decision\n", Response: Changes{Set: []Header{{ReasonHeader, reason}}}}
}

// Open is the decision if none can be made, and the gateway prefers to go on.
func Open(reason string) Decision {
	return Decision{Allow: true, Response: Changes{Set: []Header{{ReasonHeader, reason}}}}
}
