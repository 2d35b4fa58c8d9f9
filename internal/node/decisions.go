package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/filesink"
	"github.com/scriptorium-dev/scriptorium/script"
)

// decisionSinks are the kinds of sinks for records of calls.
var decisionSinks = decisionlog.Openers{
	"file":   filesink.Open,
	"stdout": filesink.OpenStdout,
}

// Decisions says where records of calls go, as flags do.
type Decisions struct {
	// Log are the sinks. One text may have several, with semicolons between them.
	Log []string
	// Sinks are kinds of sinks besides those that every agent has.
	Sinks decisionlog.Openers
	// Buffer is how many bytes of records wait for each; 0 means the default.
	Buffer int64
	// Spool is how many bytes of records of tenants with a strict audit are kept on disk; 0 means none.
	Spool int64
}

// maxDecisionSinks is how many there can be.
const maxDecisionSinks = 16

// open opens the sinks. The caller closes them.
func (d *Decisions) open(name string, log *slog.Logger) (opened agent.Decisions, err error) {
	const flag = "--decision-log"
	opened = agent.Decisions{QueueBytes: d.Buffer, SpoolBytes: d.Spool}
	if d.Spool == 0 {
		opened.SpoolBytes = -1
	}
	for flag, n := range map[string]int64{"--decision-log-buffer": d.Buffer, "--decision-spool-bytes": d.Spool} {
		if n < 0 {
			return opened, script.Errorf(script.Invalid, flag, "is %d; it cannot be negative", n)
		}
	}
	defer func() {
		if err != nil {
			err = script.Errorf(script.Invalid, flag, "%w", errors.Join(err, closeSinks(opened.Outputs)))
		}
	}()
	openers := maps.Clone(decisionSinks)
	maps.Copy(openers, d.Sinks)
	kinds := map[string]int{}
	seen := map[string]bool{}
	for _, texts := range d.Log {
		for text := range strings.SplitSeq(texts, ";") {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			t, err := decisionlog.ParseTarget(text)
			if err != nil {
				return opened, err
			}
			sink := t.Kind + ":" + t.Where // also with other options: on disk, it has one name
			if seen[sink] || len(seen) == maxDecisionSinks {
				return opened, fmt.Errorf("%.200q is there twice, or one of more than %d", text, maxDecisionSinks)
			}
			seen[sink] = true
			to, err := openers.Open(t, decisionlog.Env{Agent: name, Log: log})
			if err != nil {
				return opened, err
			}
			kinds[t.Kind]++
			opened.Outputs = append(opened.Outputs, output(t, kinds[t.Kind], to))
		}
	}
	return opened, nil
}

// output names the number-th sink of its kind: "file", "file2". Its name on disk has what it is.
func output(t *decisionlog.Target, number int, sink decisionlog.Sink) decisionlog.Output {
	name := t.Kind
	if number > 1 {
		name = fmt.Sprintf("%s%d", t.Kind, number)
	}
	sum := sha256.Sum256([]byte(t.Kind + ":" + t.Where))
	return decisionlog.Output{Name: name, ID: t.Kind + "-" + hex.EncodeToString(sum[:8]), Sink: sink}
}

func closeSinks(outputs []decisionlog.Output) error {
	var errs []error
	for _, o := range outputs {
		errs = append(errs, o.Sink.Close(context.Background()))
	}
	return errors.Join(errs...)
}
