package worker

import (
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what a process may answer: one that was taken over may answer anything.
const (
	// maxResults is more than a script returns.
	maxResults = 10_000
	// answerSlack is what an answer has besides the bytes of its results: the error, and a
	// few bytes for each result.
	answerSlack = 64 << 10
	maxField    = 256 // bytes of an error's field
)

// believe fills reply with what a process answered, as far as it is an answer.
func believe(resp *workerv1.ExecuteResponse, most int, reply *gateway.Reply) error {
	reply.Version, reply.OnResponse = resp.GetVersion(), resp.GetOnResponse()
	if len(resp.GetDigest()) > 0 {
		d, err := wire.ToDigest(resp.GetDigest())
		if err != nil {
			return script.Errorf(script.Internal, "", "the tenant's process answered nonsense: %w", err)
		}
		reply.Digest = d
	}
	if e := wire.ToError(resp.GetError()); e != nil {
		return believed(e)
	}
	size := 0
	for _, result := range resp.GetResults() {
		size += len(result)
	}
	if n := len(resp.GetResults()); n > maxResults || size > most {
		return script.Errorf(script.Internal, "", "the tenant's process answered %d results of %d bytes together, which are more than the script may return", n, size)
	}
	for _, result := range resp.GetResults() {
		if err := reply.Append(func(dst []byte) ([]byte, error) { return append(dst, result...), nil }); err != nil {
			return err
		}
	}
	return nil
}

// believed returns an error that a process sent, as one that may be shown, counted and
// sent on.
func believed(e *script.Error) *script.Error {
	if !e.Kind.Known() {
		e.Kind = script.Internal
	}
	e.Field, e.Message = cut(e.Field, maxField), cut(e.Message, maxSaid)
	e.Line, e.Column = max(e.Line, 0), max(e.Column, 0)
	return e
}
