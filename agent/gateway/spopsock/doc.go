// Package spopsock serves decisions to HAProxy, over the protocol of its stream processing offload
// engine: SPOP 2.0. HAProxy sends a message for a request, and the agent answers with variables.
// docs/gateways/haproxy.md has a configuration that applies them.
//
// # Question
//
// A NOTIFY frame has one message, whose name is "scriptorium" or begins with "scriptorium-". Its
// arguments have names. An unknown one, or one that is there twice, denies the request: a misspelled
// argument must not change a decision. One that is null counts as missing.
//
//	script           "tenant/name" or "tenant/name@7"
//	fail             "closed" (default) or "open": what holds if the script cannot decide
//	timeout          "50ms", or a number of milliseconds
//	method, scheme, host, path, query
//	src, remote_addr the client's address
//	headers          all of them: req.hdrs_bin, or req.hdrs
//	body             req.body
//	cert             the subject of the client's certificate: ssl_c_s_dn
//	route            the gateway's name for the route
//	param.NAME       a parameter of the call
//
// # Answer
//
// The ACK frame sets variables of the transaction. HAProxy puts its var-prefix before their names:
// "allow" is txn.scriptorium.allow. It ignores those that its configuration does not mention.
//
//	allow            whether the request goes on; it is always there
//	version          of the script that ran
//	reason           the kind of the error, if no script decided
//	status, body     of the answer, if the request does not go on
//	upstream, path, query, metadata
//	req.x_user       the value of the header x-user that the upstream gets
//	req.add.x_user   a value that is appended; further ones are req.add.x_user.2 and so on
//	req.del.x_user   true: the header is removed
//	res.…            the same for the headers that the client gets; a redirect is res.location
//	request          the names of all headers of req.…, in order: "-cookie =x-user +via +via"
//	response         the same for res.…
//
// HAProxy has no headers with names from variables, so each header has a variable of its own. Names
// of headers are in lower case, and "_" replaces all but letters and digits. A decision that
// changes two headers with the same variable, such as x-user and x_user, is invalid.
//
// # Failure
//
// HAProxy goes on with a request for which no answer comes: the agent is gone, or too slow, or the
// request does not fit into a frame. Nobody has set "allow" then, so the configuration denies what
// lacks it. A client can set no variable.
//
// # Frames
//
// Fragments are not announced, so HAProxy sends none. A frame has at most 16 KiB, or what HAProxy
// wants at most. Up to 64 questions of a connection run at once; then the agent stops to read.
// Answers come as soon as they are there if HAProxy announces pipelining or async, else in order.
package spopsock
