package worker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// blame finds out which script of a tenant kills its process. A script that ran at
// each of the last few deaths is to blame. Where several did, they are suspects: from
// then on one of them runs at a time, and the next death tells. It is not safe for
// concurrent use.
type blame struct {
	policy QuarantinePolicy

	deaths      []death // the last, within the policy's time
	suspects    map[script.Name]bool
	quarantined map[script.Name]Quarantined
}

// death of a process, and the scripts that ran then, with their revisions.
type death struct {
	at      time.Time
	running map[script.Name]script.Revision
}

func newBlame(policy QuarantinePolicy) *blame {
	return &blame{policy: policy, suspects: map[script.Name]bool{}, quarantined: map[script.Name]Quarantined{}}
}

// died notes a death, and reports whether there is somebody new in quarantine or under
// suspicion.
func (b *blame) died(now time.Time, running map[script.Name]script.Revision) bool {
	b.forget(now)
	b.deaths = append(b.deaths, death{now, running})
	if len(b.deaths) < b.policy.Deaths {
		return false
	}
	last := b.deaths[len(b.deaths)-b.policy.Deaths:]
	common := maps.Clone(running)
	for _, d := range last {
		maps.DeleteFunc(common, func(name script.Name, _ script.Revision) bool {
			_, ran := d.running[name]
			return !ran
		})
	}
	switch len(common) {
	case 0:
		return false
	case 1:
		for name, revision := range common {
			b.quarantine(now, name, revision)
		}
		clear(b.suspects)
		b.deaths = nil
		return true
	}
	before := len(b.suspects)
	for name := range common {
		b.suspects[name] = true
	}
	return len(b.suspects) > before
}

func (b *blame) quarantine(now time.Time, name script.Name, revision script.Revision) {
	until := now.Add(b.policy.For)
	b.quarantined[name] = Quarantined{
		Script: name, Revision: revision, Since: now, Until: until,
		Err: script.Errorf(script.Unavailable, "script",
			"%s is in quarantine on this agent until %s: the process of its tenant died %d times within %v while it ran; publish a version that does not exhaust the process, which ends the quarantine at once",
			name, until.UTC().Format(time.RFC3339), b.policy.Deaths, b.policy.Within),
	}
}

// forget drops deaths that are too long ago to count.
func (b *blame) forget(now time.Time) {
	b.deaths = slices.DeleteFunc(b.deaths, func(d death) bool { return now.Sub(d.at) > b.policy.Within })
}

// released says that a script has another release, or none, and reports whether that
// ends its quarantine.
func (b *blame) released(name script.Name, revision script.Revision) bool {
	q, ok := b.quarantined[name]
	if !ok || q.Revision == revision {
		return false
	}
	delete(b.quarantined, name)
	return true
}

// expire ends what has lasted long enough, and reports whether anything did.
func (b *blame) expire(now time.Time) bool {
	b.forget(now)
	before := len(b.quarantined)
	maps.DeleteFunc(b.quarantined, func(_ script.Name, q Quarantined) bool { return !now.Before(q.Until) })
	expired := len(b.quarantined) < before
	if len(b.deaths) == 0 && len(b.suspects) > 0 {
		clear(b.suspects)
		expired = true
	}
	return expired
}

// list returns who is in quarantine.
func (b *blame) list() []Quarantined {
	return slices.SortedFunc(maps.Values(b.quarantined), func(x, y Quarantined) int {
		return cmp.Compare(x.Script.Script, y.Script.Script)
	})
}

// request tells a process.
func (b *blame) request() *workerv1.QuarantineRequest {
	req := &workerv1.QuarantineRequest{}
	for _, q := range b.list() {
		req.Scripts = append(req.Scripts, &workerv1.Quarantined{Script: q.Script.String(), Error: wire.FromError(q.Err)})
	}
	for name := range b.suspects {
		req.Suspects = append(req.Suspects, name.String())
	}
	return req
}
