package history

import (
	"cmp"
	"slices"
)

// What an agent may answer, and what it may not.
//
// Of each script an agent is in one of the states that the registry's history has,
// and moves through them forwards only, perhaps past some of them; so its answers
// have to fit such a walk. A call sees the state of some moment between its start
// and its end: of two answers the order is known if one call ended before the other
// began. The walk with the lowest revisions is found by giving every answer, in the
// order of their starts, the lowest state that it fits at or above those of all
// answers that ended before it began; if even that one fails there is none. A state
// that was not asked for yet when the answer came cannot have been committed.
//
// That the registry called a release converged is one more answer, "at least there",
// of each agent that it counted; and so is the revision that it says an agent has
// activated, for each script that it does not list as failed there.
//
// A restart is no excuse, nor is a full disk or a clock that jumped: what is live is
// on disk first, and with no room the older release stays. There is one excuse. An
// agent whose files were damaged may have lost a release, or its source, and cannot
// know it: until it has converged again it may answer that there is no such script,
// or that its source cannot be had. It may not answer with an older version.
//
// An agent that is killed or paused answers nobody; calls that fail while it is are
// no violation, whatever else is one.

// answers checks that calls were answered.
func (c *checker) answers() {
	reported := map[string]bool{}
	for _, g := range c.h.Sights {
		if g.State != Failed || reported[g.Agent] || c.down(g) {
			continue
		}
		reported[g.Agent] = true // one of them tells it all
		c.violated(keepsServing, c.timeline(g.Script, g.Agent), "%s", g)
	}
}

// down reports whether the agent was killed, paused or damaged during the call.
func (c *checker) down(g Sight) bool {
	return c.during(g, "kill", "pause", "tear")
}

// during reports whether the call overlaps one of such faults on its agent.
func (c *checker) during(g Sight, kinds ...string) bool {
	return slices.ContainsFunc(c.h.Faults, func(f Fault) bool {
		return f.Target == g.Agent && slices.Contains(kinds, f.Kind) && g.Start <= f.To && g.End >= f.From
	})
}

// sameCode: what sockets say of a revision is what the registry's history says of
// it, and so the same on every agent.
func (c *checker) sameCode() {
	type code struct {
		version uint64
		digest  string
	}
	first := map[int64]Sight{}
	for _, g := range c.h.Sights {
		if g.Revision == 0 || g.State != Runs && g.State != Disabled {
			continue
		}
		other, ok := first[g.Revision]
		if !ok {
			first[g.Revision] = g
			continue
		}
		if (code{g.Version, g.Digest}) != (code{other.Version, other.Digest}) || g.Script != other.Script {
			c.violated(sameCode, nil, "at revision %d: %s; %s", g.Revision, other, g)
		}
	}
}

// proofs: a script returns the ID of the write that published it.
func (c *checker) proofs() {
	published := map[string]string{} // digest to ID
	for _, w := range c.h.Writes {
		if w.Change == "publish" {
			published[w.Digest] = w.ID
		}
	}
	for _, g := range c.h.Sights {
		if g.Proof != "" && published[g.Digest] != g.Proof {
			c.violated(onlyCommitted, c.timeline(g.Script, g.Agent), "%s ran the source of %q under the digest %s of %q", g, g.Proof, g.Digest, published[g.Digest])
		}
	}
}

// witness is an answer, or a claim about an agent.
type witness struct {
	start, end Time
	sight      *Sight
	claim      *Claim
}

// sights checks the answers of each agent for each script.
func (c *checker) sights() {
	walks := map[[2]string][]witness{}
	for i, g := range c.h.Sights {
		if g.State == Failed || g.State == Absent && c.during(g, "tear") {
			continue
		}
		key := [2]string{g.Agent, g.Script}
		walks[key] = append(walks[key], witness{start: g.Start, end: g.End, sight: &c.h.Sights[i]})
	}
	for i, claim := range c.h.Claims {
		for _, agent := range claim.Agents {
			about := Sight{Agent: agent, Start: claim.Start, End: claim.End}
			if !c.during(about, "tear") {
				key := [2]string{agent, claim.Script}
				walks[key] = append(walks[key], witness{start: claim.Start, end: claim.End, claim: &c.h.Claims[i]})
			}
		}
	}
	for _, r := range c.h.Reports {
		c.report(r, func(w witness) {
			key := [2]string{r.Agent, w.claim.Script}
			walks[key] = append(walks[key], w)
		})
	}
	keys := make([][2]string, 0, len(walks))
	for key := range walks {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for _, key := range keys {
		if states := c.truth[key[1]]; states != nil {
			c.walk(key[0], key[1], states, walks[key])
		}
	}
}

// report makes a claim of a report for each script that it covers.
func (c *checker) report(r Report, add func(witness)) {
	if c.during(Sight{Agent: r.Agent, Start: r.Start, End: r.End}, "tear") {
		return
	}
	for name, states := range c.truth {
		i := len(states) - 1
		for states[i].revision > r.Activated {
			i--
		}
		if i > 0 && !slices.Contains(r.Failing, name) {
			add(witness{start: r.Start, end: r.End, claim: &Claim{
				Registry: r.Registry, Script: name, Revision: states[i].revision, Agents: []string{r.Agent}, Start: r.Start, End: r.End,
			}})
		}
	}
}

// floor is the lowest state that an agent may still be in, and why.
type floor struct {
	at    int
	since witness
}

// walk looks for the lowest walk through the states that fits all that was seen,
// and reports the first answer that fits none.
func (c *checker) walk(agent, name string, states []state, seen []witness) {
	slices.SortStableFunc(seen, func(a, b witness) int { return cmp.Compare(a.start, b.start) })
	type placed struct {
		witness
		at int
	}
	var ended []placed // by end, those that count for nobody yet
	low := floor{}
	for _, w := range seen {
		for len(ended) > 0 && ended[0].end < w.start {
			if ended[0].at > low.at {
				low = floor{at: ended[0].at, since: ended[0].witness}
			}
			ended = ended[1:]
		}
		at, ok := place(states, low.at, w)
		if !ok {
			c.misplaced(agent, name, states, low, w)
			return
		}
		p := placed{witness: w, at: at}
		i, _ := slices.BinarySearchFunc(ended, p, func(a, b placed) int { return cmp.Compare(a.end, b.end) })
		ended = slices.Insert(ended, i, p)
	}
}

// place returns the lowest state from low on that fits what was seen.
func place(states []state, low int, w witness) (int, bool) {
	for i := low; i < len(states); i++ {
		if w.claim != nil && states[i].revision >= w.claim.Revision {
			return i, true
		}
		if w.sight != nil && states[i].shows(*w.sight) && states[i].since <= w.end {
			return i, true
		}
	}
	return 0, false
}

// misplaced says what is wrong with an answer that fits no state.
func (c *checker) misplaced(agent, name string, states []state, low floor, w witness) {
	lines := c.timeline(name, agent)
	if w.claim != nil {
		c.violated(truthful, lines, "%s says that revision %d of %s has converged; its history does not have it", w.claim.Registry, w.claim.Revision, name)
		return
	}
	if _, before := place(states[:low.at], 0, w); !before {
		c.violated(onlyCommitted, lines, "%s: that was never committed, or not yet", w.sight)
		return
	}
	if low.since.claim != nil {
		c.violated(truthful, lines, "%s; and until %s %s had said that %v is live on it", w.sight, at(low.since.claim.End), low.since.claim.Registry, states[low.at])
		return
	}
	c.violated(onlyCommitted, lines, "%s; and it had gone past that: %s", w.sight, low.since.sight)
}
