package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// maxNamed is how many of the scripts that ran at a death are named in the log.
const maxNamed = 16

// reap logs why the process died, and finds the script to blame. If a test ran, it blames no
// script: the test may have killed the process, and the error of the test's own call says so.
// If candidates ran in the shadow of calls, it blames these, and no live script.
func (t *tenant) reap(p *process) {
	why, marks := p.reason(), p.ranAtTheEnd()
	p.end.why, p.end.ran = why, marks
	close(p.end.known)
	t.pool.metrics.restarts.WithLabelValues(string(why)).Inc()
	first, more := p.output.crash()
	pid, state := p.cmd.Process.Pid, p.state()
	p.close()

	t.mu.Lock()
	defer t.mu.Unlock()
	running, trial := t.ranAtTheEnd(marks)
	t.pool.cfg.Log.Error("the process of a tenant died", "tenant", t.name, "pid", pid, "reason", string(why),
		"state", state, "scripts", len(running), "running", some(maps.Keys(running)), "test", trial, "error", errors.New(first), "output", more)
	if t.shadowEnded(marks, why.blames(1), len(running) == 0 && !trial) || trial {
		return
	}
	if why.blames(1) {
		t.noteEnd(running)
	}
	if why.blames(len(running)) {
		t.died(running)
	}
}

// shadowEnded reports whether a candidate ran in the shadow of calls. If its process ended for a reason of
// the scripts', it has lost that; alone, also a call. t.mu is held.
func (t *tenant) shadowEnded(marks map[link.Mark]bool, blames, alone bool) (ran bool) {
	if len(marks) == 0 {
		return false
	}
	for r := range t.pool.cfg.Node.Table.All() {
		if r.Name.Tenant != t.name || !marks[link.MarkShadow(r.Name)] {
			continue
		}
		ran = true
		if r.Shadow == nil || !blames {
			continue // it is given up already
		}
		r.OfCandidate().Calls.End()
		if alone { // shadows run one at a time
			r.NoteDeath()
		}
	}
	return ran
}

// noteEnd notes that the candidates which run here have lost their process: the one to blame, or
// else those that ran, or all if none did. t.mu is held.
func (t *tenant) noteEnd(running map[script.Name]script.Revision) {
	culprit, found := t.blame.culprit(running)
	for r := range t.pool.cfg.Node.Table.All() {
		if r = r.OfCandidate(); r.Name.Tenant != t.name || r.Calls == nil {
			continue
		}
		if _, ran := running[r.Name]; found && r.Name == culprit || !found && (ran || len(running) == 0) {
			r.Calls.End()
		}
	}
}

// died puts a death down to the scripts that ran. What is replaced already, by what no
// process has yet, does not come into quarantine. t.mu is held.
func (t *tenant) died(running map[script.Name]script.Revision) {
	if culprit, found := t.blame.culprit(running); found && !t.telling.renews(culprit) {
		t.countDeath(culprit)
	}
	q, changed := t.blame.died(time.Now(), running)
	switch {
	case q != nil && t.telling.renews(q.Script):
		t.blame.released(q.Script, 0)
	case q != nil:
		t.pool.cfg.Log.Error("a script is in quarantine", "script", q.Script.String(), "until", q.Until, "error", q.Err)
		t.list()
	case changed:
		t.pool.cfg.Log.Warn("several scripts may be what kills the process of a tenant: they run one at a time from now on",
			"tenant", t.name, "scripts", some(maps.Keys(t.blame.suspects)))
	}
}

// countDeath counts the call that the process died of, if a candidate's calls are counted here.
func (t *tenant) countDeath(name script.Name) {
	if r := t.pool.cfg.Node.Table.Get(name.String()); r != nil {
		r.NoteDeath()
	}
}

// some returns names for the log.
func some(all iter.Seq[script.Name]) []string {
	names := make([]string, 0, maxNamed)
	for name := range all {
		if len(names) == maxNamed {
			break
		}
		names = append(names, name.String())
	}
	slices.Sort(names)
	return names
}

// ranAtTheEnd returns the scripts that the marks stand for, with their revisions: those
// that are live, and those of the last change, which may not be. Of those that have the
// same source, which was being compiled, it returns one: what becomes of it becomes of
// all. trial reports whether a script's test ran, which is no call of that script, or a script that
// is not published. t.mu is held.
func (t *tenant) ranAtTheEnd(marks map[link.Mark]bool) (running map[script.Name]script.Revision, trial bool) {
	running = map[script.Name]script.Revision{}
	compiled := map[link.Mark]*script.Release{}
	see := func(r *script.Release) {
		if marks[link.MarkScript(r.Name)] {
			running[r.Name] = r.Revision
		}
		trial = trial || marks[link.MarkTrial(r.Name.String())]
		for d := range sources(r) {
			if m := link.MarkSource(d); marks[m] && rather(r, compiled[m], d) {
				compiled[m] = r
			}
		}
	}
	if len(marks) == 0 {
		return running, false
	}
	trial = marks[link.MarkUnpublished()]
	for r := range t.pool.cfg.Node.Table.All() {
		if r.Name.Tenant == t.name {
			release := r.Script()
			see(&release)
		}
	}
	if last := t.last.Load(); last != nil {
		for _, o := range last.put {
			if o.Release != nil && !o.Release.Deleted {
				see(o.Release)
			}
		}
	}
	for _, r := range compiled {
		running[r.Name] = max(running[r.Name], r.Revision)
	}
	return running, trial
}

// sources yields the digests of what of a release can be compiled.
func sources(r *script.Release) iter.Seq[script.Digest] {
	return func(yield func(script.Digest) bool) {
		if yield(r.Active.Digest) {
			script.Object{Release: r}.Retained(yield)
		}
	}
}

// rather reports whether a is to stand for the source rather than b, which may be nil:
// the one that runs it now, or the first by its name, or the newer.
func rather(a, b *script.Release, d script.Digest) bool {
	if b == nil {
		return true
	}
	if runs := a.Active.Digest == d; runs != (b.Active.Digest == d) {
		return runs
	}
	return cmp.Or(cmp.Compare(a.Name.Script, b.Name.Script), cmp.Compare(b.Revision, a.Revision)) < 0
}

// renewed returns the scripts of which, with the change, something else is to run here than
// what is live, with their revisions. A release that brings a candidate which does not run
// here yet changes nothing: what has killed the process would do so again. So does one that
// is only disabled.
func (t *tenant) renewed(c *change) map[script.Name]script.Revision {
	renewed := map[script.Name]script.Revision{}
	for _, o := range c.put {
		if o.Release != nil && !t.runsAlready(o.Release) {
			renewed[o.Release.Name] = o.Release.Revision
		}
	}
	return renewed
}

// released ends the quarantine of scripts that the change renews, or that are gone, and
// reports whether it ended one. t.mu is held.
func (t *tenant) released(c *change) bool {
	if len(t.blame.quarantined) == 0 {
		return false
	}
	lifted := false
	for name, revision := range c.renewed {
		lifted = t.blame.released(name, revision) || lifted
	}
	for _, q := range t.blame.list() {
		for _, key := range c.gone {
			if key == wire.ReleaseKey(q.Script) && t.blame.released(q.Script, 0) {
				lifted = true
			}
		}
	}
	if lifted {
		t.list()
	}
	return lifted
}

// runsAlready reports whether what is live runs the same program as the release does here,
// within the same limits and with the same config.
func (t *tenant) runsAlready(r *script.Release) bool {
	live := t.pool.cfg.Node.Table.Get(r.Name.String())
	if live == nil || r.Deleted {
		return false
	}
	agent := t.pool.cfg.Node.Agent
	if was, is := live.Split, r.SplitsOn(agent); (was != nil) != is || is && !was.Runs.SameProgram(r.Candidate.Version) {
		return false
	}
	spec := r.SpecOn(agent)
	return live.Runs.SameProgram(r.RunsOn(agent)) && live.Limits == spec.Limits.OrDefaults() && bytes.Equal(live.Config, spec.Config)
}

// tellBlame tells the process who is in quarantine. t.mu is held.
func (t *tenant) tellBlame(p *process) {
	t.ask(p, func(ctx context.Context) error {
		_, err := p.client.Quarantine(ctx, t.blame.request())
		return wire.FromStatus(err)
	})
}

// quarantined returns who is in quarantine, without waiting for what holds t.mu.
func (t *tenant) quarantined() []Quarantined {
	if list := t.listed.Load(); list != nil {
		return *list
	}
	return nil
}

// list says who is in quarantine from now on. t.mu is held.
func (t *tenant) list() {
	list := t.blame.list()
	t.listed.Store(&list)
	t.pool.cfg.Changed()
}
