// Package replay runs the calls of a decision log again, with a version of their script, and
// compares what comes of them: with what the log says, or with what another version returns.
package replay

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/jsonvalue"
)

// Config of a replay.
type Config struct {
	// Script is whose records are replayed; others are counted.
	Script script.Name
	// To is what the records are replayed with, and From what it is compared with: nil means the
	// results in the records.
	To, From *Version
	// Values are what scripts read as the tenant's key-value data.
	Values map[string][]byte
	// Masked replays also records whose input is masked, with the masks in it.
	Masked bool
	// Limit is how many records of the script are looked at; 0 means all.
	Limit int64
	// Workers run calls at once; 0 means GOMAXPROCS.
	Workers int

	// Different is called for each decision that differs, in the order of the records. An error
	// ends the replay.
	Different func(*Different) error
	// Bad is called for each line that is no record; likewise.
	Bad func(Bad)
	// Progress is called every few seconds with what was counted so far, if not nil.
	Progress func(*Counts)
}

// Version is what records are replayed with.
type Version struct {
	Name string // as it is shown
	script.Edition
	program *offline.Program
}

// Compile makes the version ready for a replay. An error is one of the engine's.
func (v *Version) Compile(set *engines.Set) (err error) {
	v.program, err = offline.Compile(set, &v.Edition)
	return err
}

// Counts are what has come of the records.
type Counts struct {
	Lines         int64 // that are not empty
	Bad           int64 // of them that are no records
	Others        int64 // records of other scripts
	Same          int64
	Different     int64
	NotComparable int64
	Why           map[Reason]int64 // how many are not comparable; there are few reasons
	// Partly are those among Same and Different that were compared without their masked results.
	Partly int64
	// Masked are those among Same and Different whose input has masks.
	Masked int64
	// Read says how many of Different used something that the record does not hold.
	Read map[offline.State]int64
}

// Compared returns how many decisions were compared.
func (c *Counts) Compared() int64 { return c.Same + c.Different }

// Bad is a line that is no record.
type Bad struct {
	File    string
	Line    int64 // from 1
	Message string
}

// Different is a decision that is not what it was.
type Different struct {
	File     string
	Line     int64
	ID       string
	Time     time.Time
	Version  uint64 // of the record
	From, To Decision
	// Parts that differ: "/outcome", "/result…"; More says that there are others.
	Parts []jsonvalue.Difference
	More  bool
	// Read is what either call used that the record does not hold.
	Read []offline.State
}

// Decision is what a call has ended with.
type Decision struct {
	Outcome string // decision.OutcomeOK, or the kind of the error
	Error   string // its message
}

// progressEvery is how often Progress is called.
const progressEvery = 2 * time.Second

// errEnough ends the reading of a replay that has seen what it was to see.
var errEnough = errors.New("enough")

// Run replays the records of the files, one after the other, and returns what was counted. The
// counts are of use also with an error.
func Run(ctx context.Context, cfg *Config, files []File) (*Counts, error) {
	workers := cfg.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Each line goes to both: to whoever of the workers takes it, and in order to who counts.
	work, queue := make(chan *job), make(chan *job, 2*workers)
	var all errgroup.Group
	all.Go(func() error {
		defer close(queue)
		defer close(work)
		return readAll(files, func(j *job) error {
			for _, to := range []chan *job{queue, work} {
				select {
				case to <- j:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	})
	for range workers {
		all.Go(func() error {
			r := newRunner(cfg)
			for j := range work {
				j.done <- r.judge(ctx, j)
			}
			return nil
		})
	}
	counts := &Counts{Why: map[Reason]int64{}, Read: map[offline.State]int64{}}
	err := cfg.collect(ctx, counts, queue)
	switch {
	case errors.Is(err, errEnough): // a read that waits for input is not waited for
		return counts, nil
	case err != nil:
		return counts, err
	}
	return counts, all.Wait()
}

// collect counts what comes of the lines, in their order.
func (cfg *Config) collect(ctx context.Context, counts *Counts, queue <-chan *job) error {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case j, ok := <-queue:
			if !ok {
				return nil
			}
			var v verdict
			select {
			case v = <-j.done:
			case <-ctx.Done():
			}
			if ctx.Err() != nil { // which may be how the call ended
				return interrupted(ctx)
			}
			if err := cfg.count(counts, j, &v); err != nil {
				return err
			}
			if cfg.Limit > 0 && counts.Compared()+counts.NotComparable >= cfg.Limit {
				return errEnough
			}
		case <-tick.C:
			if cfg.Progress != nil {
				cfg.Progress(counts)
			}
		case <-ctx.Done():
			return interrupted(ctx)
		}
	}
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("the replay was interrupted: %w", context.Cause(ctx))
}

func (cfg *Config) count(counts *Counts, j *job, v *verdict) error {
	counts.Lines++
	switch {
	case v.bad != "":
		counts.Bad++
		cfg.Bad(Bad{File: j.file, Line: j.line, Message: v.bad})
		return nil
	case v.other:
		counts.Others++
		return nil
	case v.why != "":
		counts.NotComparable++
		counts.Why[v.why]++
		return nil
	}
	if v.partly {
		counts.Partly++
	}
	if v.masked {
		counts.Masked++
	}
	if v.different == nil {
		counts.Same++
		return nil
	}
	counts.Different++
	for _, state := range v.different.Read {
		counts.Read[state]++
	}
	return cfg.Different(v.different)
}
