package agent

import (
	"context"
	"path/filepath"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
)

// Decisions says where records of calls go.
type Decisions struct {
	// Outputs are the sinks, which the agent closes. Without any, the calls of tenants with a strict audit
	// are refused.
	Outputs []decisionlog.Output
	// QueueBytes of records wait for each of them; 0 means decisionlog.DefaultQueueBytes.
	QueueBytes int64
	// SpoolBytes of records of tenants with a strict audit are kept in the state folder until the sinks
	// have them; 0 means decisionlog.DefaultSpoolBytes, less means none.
	SpoolBytes int64
}

// record makes what records calls.
func (a *Agent) record() (err error) {
	d := a.cfg.Decisions
	if d.SpoolBytes == 0 {
		d.SpoolBytes = decisionlog.DefaultSpoolBytes
	}
	a.recorder, err = decisionlog.New(decisionlog.Config{
		Agent: a.cfg.Name, Outputs: d.Outputs, QueueBytes: d.QueueBytes,
		Spool: filepath.Join(a.cfg.Dir, "decisions"), SpoolBytes: d.SpoolBytes,
		Tenants: a.state.tenants.Settings, Log: a.log, Metrics: a.cfg.Metrics,
	})
	return err
}

// EndRecords takes no more records of calls, and brings those that wait to the sinks until ctx is done.
func (a *Agent) EndRecords(ctx context.Context) error {
	if a.recorder == nil { // Open has failed
		return nil
	}
	return a.recorder.Close(ctx)
}

func (a *Agent) endRecords() {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // EndRecords has waited already
	_ = a.EndRecords(ended)
}
