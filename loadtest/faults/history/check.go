package history

import (
	"cmp"
	"fmt"
	"slices"
)

// The promises, in the words of violations.
const (
	neverLost     = "no acknowledged write is ever lost"
	onceOrNever   = "a write that errored happened once or not at all, and retrying is safe"
	ordered       = "revisions only grow"
	onlyCommitted = "an agent runs only what was committed, and never goes back"
	sameCode      = "two agents at one revision run the same code"
	truthful      = "converged means activated"
	converges     = "after the faults stop, every agent converges"
	keepsServing  = "calls are served unless their own agent is down"
	staysUp       = "no process ends by itself"
	replicasAgree = "every registry says the same"
)

// Check returns what the history shows to be broken.
func Check(h *History) []Violation {
	c := &checker{h: h, truth: h.truth()}
	c.writes()
	c.order()
	c.finals()
	c.answers()
	c.sameCode()
	c.proofs()
	c.sights()
	c.convergence()
	c.crashes()
	return c.found
}

type checker struct {
	h     *History
	truth truth
	found []Violation
}

func (c *checker) violated(promise string, timeline []string, format string, args ...any) {
	c.found = append(c.found, Violation{Promise: promise, What: fmt.Sprintf(format, args...), Timeline: timeline})
}

// writes compares the answers that writers got with the registry's history.
func (c *checker) writes() {
	entries := map[string][]Entry{}
	for _, e := range c.h.Entries {
		entries[e.ID] = append(entries[e.ID], e)
	}
	known := map[string]bool{}
	for _, w := range c.h.Writes {
		known[w.ID] = true
		done := entries[w.ID]
		switch {
		case len(done) > 1:
			c.violated(onceOrNever, c.timeline(w.Script, ""), "%s happened %d times, at revisions %v", w, len(done), revisions(done))
		case w.Outcome == Refused && len(done) > 0:
			c.violated(onceOrNever, c.timeline(w.Script, ""), "%s was refused (%s), and happened at revision %d", w, w.Err, done[0].Revision)
		case w.Outcome == Acked && w.Changed && len(done) == 0:
			c.violated(neverLost, c.timeline(w.Script, ""), "%s was acknowledged at revision %d, and is not in the registry's history", w, w.Revision)
		}
		if len(done) == 1 {
			c.entry(w, done[0])
		}
	}
	for _, e := range c.h.Entries {
		if !known[e.ID] {
			c.violated(onlyCommitted, c.timeline(e.Script, ""), "revision %d of %s (%s) is a change that no writer asked for: %q", e.Revision, e.Script, e.Change, e.ID)
		}
	}
}

// entry compares a write with the one line that it left.
func (c *checker) entry(w Write, e Entry) {
	if e.Script != w.Script || e.Change != w.Change || w.Change == "publish" && e.Digest != w.Digest && !c.pinned(e) {
		c.violated(onceOrNever, c.timeline(w.Script, ""), "%s is in the history as %s of %s, version %d, %s", w, e.Change, e.Script, e.Version, e.Digest)
	}
	if w.Outcome == Acked && w.Attempts == 1 && w.Changed && (w.Revision != e.Revision || w.Active != e.Version) {
		c.violated(neverLost, c.timeline(w.Script, ""), "%s was acknowledged as revision %d, version %d; the history has revision %d, version %d",
			w, w.Revision, w.Active, e.Revision, e.Version)
	}
}

// pinned reports whether a publish left another version active, as it does while
// one is pinned: the state before has the same version.
func (c *checker) pinned(e Entry) bool {
	states := c.truth[e.Script]
	i := slices.IndexFunc(states, func(s state) bool { return s.revision == e.Revision })
	return i > 0 && states[i-1].version == e.Version && states[i-1].digest == e.Digest
}

func revisions(entries []Entry) []int64 {
	var list []int64
	for _, e := range entries {
		list = append(list, e.Revision)
	}
	slices.Sort(list)
	return list
}

// order: a write that began after another was acknowledged has a higher revision;
// and a script's version numbers are never given twice.
func (c *checker) order() {
	acked := slices.DeleteFunc(slices.Clone(c.h.Writes), func(w Write) bool {
		return w.Outcome != Acked || !w.Changed || w.Attempts > 1
	})
	byEnd := slices.Clone(acked)
	slices.SortFunc(byEnd, func(a, b Write) int { return cmp.Compare(a.End, b.End) })
	slices.SortFunc(acked, func(a, b Write) int { return cmp.Compare(a.Start, b.Start) })
	ended, highest := 0, Write{}
	for _, w := range acked {
		for ; ended < len(byEnd) && byEnd[ended].End < w.Start; ended++ {
			if byEnd[ended].Revision > highest.Revision {
				highest = byEnd[ended]
			}
		}
		if w.Revision <= highest.Revision {
			c.violated(ordered, c.timeline(w.Script, ""), "%s has revision %d, and began after %s had revision %d", w, w.Revision, highest, highest.Revision)
		}
	}
	for name, states := range c.truth {
		digests := map[uint64]string{}
		for _, s := range states {
			if d, ok := digests[s.version]; ok && d != s.digest && s.version != 0 {
				c.violated(ordered, c.timeline(name, ""), "version %d of %s is %s and %s", s.version, name, d, s.digest)
			}
			digests[s.version] = s.digest
		}
	}
}

// finals: every registry ends with the state that its history ends with.
func (c *checker) finals() {
	for _, f := range c.h.Finals {
		states := c.truth[f.Script]
		if len(states) == 0 {
			continue
		}
		last := states[len(states)-1]
		if f.Err != "" {
			c.violated(replicasAgree, nil, "%s does not say what %s is: %s", f.Registry, f.Script, f.Err)
			continue
		}
		same := f.Deleted == last.deleted
		if !last.deleted {
			same = same && f.Revision == last.revision && f.Version == last.version && f.Digest == last.digest && f.Enabled == last.enabled
		}
		if !same {
			c.violated(replicasAgree, c.timeline(f.Script, ""), "%s says that %s is %+v; its history ends with %v", f.Registry, f.Script, f, last)
		}
	}
}

// convergence: it is reached, and within the bound.
func (c *checker) convergence() {
	switch took := c.h.Converged - c.h.Mended; {
	case c.h.Converged == 0:
		c.violated(converges, c.differences(), "it did not within %v", c.h.Bound)
	case took > c.h.Bound:
		c.violated(converges, nil, "it took %v, more than %v", took, c.h.Bound)
	case c.h.Told == 0:
		c.violated(converges, nil, "every agent did, and not every registry said so within %v", c.h.Bound)
	}
}

// differences are the last answers of agents that are not what the registry says.
func (c *checker) differences() []string {
	last := map[[2]string]Sight{}
	for _, g := range c.h.Sights {
		key := [2]string{g.Agent, g.Script}
		if g.End >= last[key].End {
			last[key] = g
		}
	}
	var lines []string
	for _, g := range last {
		if states := c.truth[g.Script]; len(states) > 0 && !states[len(states)-1].shows(g) {
			lines = append(lines, fmt.Sprintf("%s; the registry has %v", g, states[len(states)-1]))
		}
	}
	slices.Sort(lines)
	return lines
}

func (c *checker) crashes() {
	for _, crash := range c.h.Crashes {
		c.violated(staysUp, nil, "%s", crash)
	}
}
