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

// blame finds out which script of a tenant kills its process. A script to which enough
// deaths can be put down comes into quarantine. One that ran at as many, but beside
// others, is a suspect: from then on one suspect runs at a time, so that the next deaths
// tell. It is not safe for concurrent use.
type blame struct {
	policy QuarantinePolicy

	deaths      []death // within the policy's time
	suspects    map[script.Name]bool
	quarantined map[script.Name]Quarantined
}

// death of a process, and the scripts that ran then, with their revisions.
type death struct {
	at      time.Time
	running map[script.Name]script.Revision
	culprit script.Name // the only one that ran, or the only suspect that did; or none
}

func newBlame(policy QuarantinePolicy) *blame {
	return &blame{policy: policy, suspects: map[script.Name]bool{}, quarantined: map[script.Name]Quarantined{}}
}

// died notes a death, and returns who comes into quarantine for it, if anybody does.
// changed reports whether there is somebody new in quarantine or under suspicion.
func (b *blame) died(now time.Time, running map[script.Name]script.Revision) (q *Quarantined, changed bool) {
	b.forget(now)
	culprit, found := b.culprit(running)
	b.deaths = append(b.deaths, death{now, running, culprit})
	if found && b.putDownTo(culprit) >= b.policy.Deaths {
		q = b.quarantine(now, culprit, running[culprit])
		// Whoever ran beside it is cleared of these deaths.
		b.deaths = slices.DeleteFunc(b.deaths, func(d death) bool { _, ran := d.running[culprit]; return ran })
	}
	before := b.suspects
	b.suspect()
	for name := range b.suspects {
		changed = changed || !before[name]
	}
	return q, changed || q != nil
}

// culprit returns the one of those that ran to whom a death can be put down. Suspects do
// not run together, so a death while one of them ran is not another's.
func (b *blame) culprit(running map[script.Name]script.Revision) (culprit script.Name, found bool) {
	candidates := 0
	for name := range running {
		if len(running) == 1 || b.suspects[name] {
			culprit = name
			candidates++
		}
	}
	if candidates != 1 {
		return script.Name{}, false
	}
	return culprit, true
}

// putDownTo returns how many deaths are put down to the script.
func (b *blame) putDownTo(name script.Name) (n int) {
	for _, d := range b.deaths {
		if d.culprit == name {
			n++
		}
	}
	return n
}

// suspect finds who ran at too many deaths.
func (b *blame) suspect() {
	ran := map[script.Name]int{}
	for _, d := range b.deaths {
		for name := range d.running {
			ran[name]++
		}
	}
	b.suspects = map[script.Name]bool{}
	for name, n := range ran {
		if n >= b.policy.Deaths {
			b.suspects[name] = true
		}
	}
}

func (b *blame) quarantine(now time.Time, name script.Name, revision script.Revision) *Quarantined {
	until := now.Add(b.policy.For)
	q := Quarantined{
		Script: name, Revision: revision, Since: now, Until: until,
		Err: script.Errorf(script.Unavailable, "script",
			"%s is in quarantine on this agent until %s: the process of its tenant died %d times within %v while it ran; publish a version that does not exhaust the process: the quarantine ends as soon as that runs here",
			name, until.UTC().Format(time.RFC3339), b.policy.Deaths, b.policy.Within),
	}
	b.quarantined[name] = q
	return &q
}

// forget drops deaths that are too long ago to count.
func (b *blame) forget(now time.Time) {
	b.deaths = slices.DeleteFunc(b.deaths, func(d death) bool { return now.Sub(d.at) > b.policy.Within })
}

// released says that something else of a script is to run here, as of that revision, or
// that it is gone, and reports whether that ends its quarantine. One that is only disabled
// stays in quarantine.
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
	suspected := len(b.suspects)
	if suspected > 0 {
		b.suspect() // deaths that were forgotten do not count
	}
	return len(b.quarantined) < before || len(b.suspects) < suspected
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
