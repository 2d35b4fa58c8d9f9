// Package gateway serves a node's Unix sockets: one socket a protocol, and one
// sub-package a protocol (grpcsock, httpsock, respsock, spopsock). They know nothing of
// scripts but the Executor declared here.
package gateway

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Executor runs scripts and says which there are. It is safe for concurrent use.
type Executor interface {
	// Execute runs call and fills reply. Its errors are *script.Error; reply
	// then holds no results, and names a version only if one was found.
	Execute(ctx context.Context, call *Call, reply *Reply) error

	// Chain appends to dst the scripts of the tenant that run on the event and match the
	// request, in their order: all as they are live at one moment, and each in the version that the key
	// of the call runs. There are none if none matches. Its errors are *script.Error: NotFound if no
	// script has the event, Limit if too many have it or match.
	Chain(dst []Link, tenant, event string, attributes *script.Attributes, call *Call) ([]Link, error)

	// List returns the live scripts in order of tenant and name.
	List() []Script

	// Position says what the agent has activated and how stale it is.
	Position() Position
}

// Call asks for one run of a script. The executor only reads it, and keeps no
// reference to it after Execute returns.
type Call struct {
	// Script is "tenant/name", or "tenant/name@7" for one version, as the
	// caller wrote it.
	Script string
	// OnResponse calls the script's on_response, with a request and the response to it, in place of
	// the entrypoint. A script without one returns nothing.
	OnResponse bool
	// Args are the positional arguments, each a JSON value.
	Args [][]byte
	// Traceparent is the caller's W3C trace context, or "".
	Traceparent string
	// Key is what the call counts as in a rollout by key, as the caller says; "" for none.
	Key string
	// Origin says where the call came from, for records of calls.
	Origin Origin
	// Request is the client's request that the call is about, from which the plan of a rollout may
	// take the key; nil if the agent does not know it.
	Request Keys
	// Edition is what Executor.Chain or an earlier reply returned with the script, whose name alone
	// Script is then; else nil. It runs as it was live then, whatever is live by now.
	Edition Edition
}

// Origin is where a call came from.
type Origin struct {
	// Protocol of the socket: "resp", "http", "grpc", "ext_authz", "ext_proc", "spop" or "embedded".
	Protocol string
	// Caller is Grant.Caller of the connection.
	Caller string
}

// Keys are the parts of a request that can be keys.
type Keys interface {
	// Key returns the part that source names; "" if the request has none, or several.
	Key(source script.KeySource) string
}

// KeyFrom returns the key of the call in a rollout whose plan takes it from source: from the request,
// if that is known and source is not "", or else what the caller says. "" is none.
func (c *Call) KeyFrom(source script.KeySource) string {
	key := c.Key
	if source != "" && c.Request != nil {
		key = c.Request.Key(source)
	}
	if len(key) > script.MaxKeyBytes {
		return ""
	}
	return key
}

// Edition is a script as it was live at one moment. Only the executor knows what it is.
type Edition any

// Link is one script of a chain.
type Link struct {
	Script  script.Name
	Version uint64
	Edition Edition
}

// Reply is the answer to a Call. The zero Reply is ready to use; Reset makes it
// ready for the next call. It is not safe for concurrent use.
type Reply struct {
	engine.Result

	Version  uint64 // that ran
	Digest   script.Digest
	Position Position
	// OnResponse: the version that ran may have an on_response, for a call with OnResponse.
	OnResponse bool
	// Edition is what ran, for such a call; nil if the script's name with Version says that.
	Edition Edition
	// OnError is the onError of the version, also if the call fails, the script is disabled or its first
	// version is untried. It is the default if no version was found that may run.
	OnError script.OnError
}

// Reset empties the reply and keeps its buffers.
func (r *Reply) Reset() {
	r.Result.Reset()
	r.Version, r.Digest, r.Position, r.OnError = 0, script.Digest{}, Position{}, script.OnError{}
	r.OnResponse, r.Edition = false, nil
}

// Position is how far an agent has come.
type Position struct {
	// Revision that the agent has activated.
	Revision script.Revision
	// Staleness is the time since the agent last knew that it was current.
	// Negative: it never did since it started.
	Staleness time.Duration
}

// Script is a live release as the agent runs it.
type Script struct {
	Name     script.Name
	Revision script.Revision
	Active   script.Version // what runs here: the candidate, if the agent is among its share
	Pinned   bool
	Enabled  bool
	Trigger  script.Trigger
}
