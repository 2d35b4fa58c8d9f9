package agentclient

import (
	"encoding/json"
	"time"

	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Result is what a script returned, and which version it was. It belongs to the
// caller.
type Result struct {
	// Values that the script returned, in order, each as JSON.
	Values []json.RawMessage
	// Version that ran, and its digest.
	Version uint64
	Digest  script.Digest
	// Staleness is the time since the agent last knew that it was current;
	// negative if it never did since it started.
	Staleness time.Duration
}

// Decode decodes the i-th value into v, as json.Unmarshal does. It returns an
// Invalid error if there is none or it does not fit.
func (r *Result) Decode(i int, v any) error {
	if i < 0 || i >= len(r.Values) {
		return script.Errorf(script.Invalid, "result", "there is no value %d: the script returned %d", i, len(r.Values))
	}
	if err := json.Unmarshal(r.Values[i], v); err != nil {
		return script.Errorf(script.Invalid, "result", "value %d: %w", i, err)
	}
	return nil
}

func resultOf(resp *agentv1.ExecuteResponse) (*Result, error) {
	digest, err := wire.ToDigest(resp.GetDigest())
	if err != nil {
		return nil, err
	}
	r := &Result{
		Values:    make([]json.RawMessage, len(resp.GetResults())),
		Version:   resp.GetVersion(),
		Digest:    digest,
		Staleness: -1,
	}
	for i, value := range resp.GetResults() {
		r.Values[i] = value
	}
	if staleness := resp.GetStaleness(); staleness != nil {
		r.Staleness = staleness.AsDuration()
	}
	return r, nil
}

// Encode returns the arguments of a call as JSON: see Client.Call. Its errors are Invalid.
func Encode(args []any) ([][]byte, error) {
	encoded := make([][]byte, len(args))
	for i, arg := range args {
		if raw, ok := arg.(json.RawMessage); ok {
			encoded[i] = raw
			continue
		}
		data, err := json.Marshal(arg)
		if err != nil {
			return nil, script.Errorf(script.Invalid, "args", "argument %d is not JSON: %w", i+1, err)
		}
		encoded[i] = data
	}
	return encoded, nil
}
