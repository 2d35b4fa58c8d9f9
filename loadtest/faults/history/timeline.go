package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

func at(t Time) string { return fmt.Sprintf("%.3fs", t.Seconds()) }

func (w Write) String() string {
	s := fmt.Sprintf("%s %s of %s by %s", w.ID, w.Change, w.Script, w.Writer)
	if w.Version != 0 {
		s += fmt.Sprintf(" (version %d)", w.Version)
	}
	return s
}

func (g Sight) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s–%s %s (%s) %s: %s", at(g.Start), at(g.End), g.Agent, g.Via, g.Script, g.State)
	if g.Version != 0 {
		fmt.Fprintf(&s, " version %d", g.Version)
	}
	if g.Revision != 0 {
		fmt.Fprintf(&s, " at revision %d", g.Revision)
	}
	if g.Err != "" {
		fmt.Fprintf(&s, ": %s", g.Err)
	}
	return s.String()
}

// line is one of a timeline.
type line struct {
	at   Time
	text string
}

// timeline tells, in order, what was done to a script and to the fleet, what the
// registry said of it, and if agent is not empty what that agent answered. Equal
// answers that follow one another are one line.
func (c *checker) timeline(name, agent string) []string {
	var lines []line
	for _, f := range c.h.Faults {
		lines = append(lines, line{f.From, fmt.Sprintf("fault: %s %s until %s %s", f.Kind, f.Target, at(f.To), f.Detail)})
	}
	for _, w := range c.h.Writes {
		if w.Script == name {
			lines = append(lines, line{w.Start, fmt.Sprintf("write: %s, until %s, attempts %d: %s, changed %v, revision %d, version %d %s",
				w, at(w.End), w.Attempts, w.Outcome, w.Changed, w.Revision, w.Active, w.Err)})
		}
	}
	for _, s := range c.truth[name] {
		if s.revision != 0 {
			lines = append(lines, line{s.since, fmt.Sprintf("truth: %v, by %s of %s, asked for then", s, s.change, s.id)})
		}
	}
	for _, claim := range c.h.Claims {
		if claim.Script == name && agent != "" && slices.Contains(claim.Agents, agent) {
			lines = append(lines, line{claim.Start, fmt.Sprintf("status: %s says until %s that revision %d has converged on %s", claim.Registry, at(claim.End), claim.Revision, strings.Join(claim.Agents, ", "))})
		}
	}
	lines = append(lines, c.told(name, agent)...)
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = at(l.at) + " " + l.text
	}
	return texts
}

// told is what the agent answered for the script.
func (c *checker) told(name, agent string) []line {
	last := map[string]*line{}
	counts := map[string]int{}
	before := map[string]string{}
	var lines []*line
	sights := slices.DeleteFunc(slices.Clone(c.h.Sights), func(g Sight) bool { return g.Script != name || g.Agent != agent })
	slices.SortStableFunc(sights, func(a, b Sight) int { return cmp.Compare(a.Start, b.Start) })
	for _, g := range sights {
		what := fmt.Sprint(g.State, g.Version, g.Revision, g.Err)
		if before[g.Via] == what {
			counts[g.Via]++
			last[g.Via].text = fmt.Sprintf("seen: %s, and %d more times until %s", strings.Split(last[g.Via].text[len("seen: "):], ", and ")[0], counts[g.Via], at(g.End))
			continue
		}
		l := &line{g.Start, fmt.Sprintf("seen: %s", g)}
		before[g.Via], last[g.Via], counts[g.Via] = what, l, 0
		lines = append(lines, l)
	}
	out := make([]line, len(lines))
	for i, l := range lines {
		out[i] = *l
	}
	return out
}
