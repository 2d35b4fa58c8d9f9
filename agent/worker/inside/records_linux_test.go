package inside

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// recorder is an agent that adds up the records that it gets, unless it is away.
type recorder struct {
	workerv1.HomeClient
	away             bool
	records, dropped int64
}

func (r *recorder) Record(_ context.Context, req *workerv1.RecordRequest, _ ...grpc.CallOption) (*workerv1.RecordResponse, error) {
	if r.away {
		return nil, errors.New("away")
	}
	r.records, r.dropped = r.records+int64(len(req.GetRecords())), r.dropped+req.GetDropped()
	return &workerv1.RecordResponse{}, nil
}

// TestLostRecordsAreCounted: the agent learns of each record that it did not get, also if nothing waited since.
func TestLostRecordsAreCounted(t *testing.T) {
	agent := &recorder{away: true}
	settings := script.TenantSettings{Decisions: &script.Decisions{Sample: 1}}
	r := newRecords(home{client: agent}, func(string) script.TenantSettings { return settings })
	end := func(n int) {
		for range n {
			e := execute.Unrun(&gateway.Call{Script: "acme/route"}, &gateway.Reply{}, nil, time.Now())
			if err := r.Ended(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	end(recordsTogether + 2)
	r.bring(t.Context())
	r.bring(t.Context())
	agent.away = false
	end(3)
	r.bring(t.Context())
	if agent.records != 3 || agent.dropped != recordsTogether+2 {
		t.Errorf("%d records came, and %d were dropped", agent.records, agent.dropped)
	}
}
