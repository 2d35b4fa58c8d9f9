package history_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/history"
)

const s = time.Second

// sound is a history in which all is well: version 1 at revision 10, version 2 at
// 20, back to 1 at 30 by a pin, disabled at 40, deleted at 50, version 3 at 60.
func sound() *history.History {
	h := &history.History{
		Agents: []string{"a", "b"}, Scripts: []string{"t/x"},
		Mended: 70 * s, Converged: 71 * s, Told: 72 * s, Bound: 30 * s,
	}
	for _, w := range []history.Write{
		{ID: "p1", Change: "publish", Digest: "d1", Start: 10 * s, Revision: 10, Active: 1},
		{ID: "p2", Change: "publish", Digest: "d2", Start: 20 * s, Revision: 20, Active: 2},
		{ID: "pin", Change: "pin", Version: 1, Start: 30 * s, Revision: 30, Active: 1},
		{ID: "off", Change: "disable", Start: 40 * s, Revision: 40, Active: 1},
		{ID: "del", Change: "delete", Start: 50 * s, Revision: 50},
		{ID: "p3", Change: "publish", Digest: "d3", Start: 60 * s, Revision: 60, Active: 3},
	} {
		w.Script, w.Writer, w.Outcome, w.Changed, w.Attempts, w.End = "t/x", "w", history.Acked, true, 1, w.Start+s
		h.Writes = append(h.Writes, w)
		e := history.Entry{Script: "t/x", Revision: w.Revision, Change: w.Change, Version: w.Active, ID: w.ID}
		if w.Active != 0 {
			e.Digest = fmt.Sprintf("d%d", w.Active)
		}
		h.Entries = append(h.Entries, e)
	}
	h.Finals = []history.Final{{Registry: "r", Script: "t/x", Revision: 60, Version: 3, Digest: "d3", Enabled: true}}
	for _, agent := range h.Agents {
		h.Sights = append(
			h.Sights,
			absent(agent, 1), runs(agent, 12, 1), runs(agent, 22, 2), listed(agent, 23, 20, 2),
			runs(agent, 32, 1), listed(agent, 33, 30, 1), disabled(agent, 42), absent(agent, 52),
			runs(agent, 62, 3), listed(agent, 63, 60, 3),
		)
	}
	return h
}

func sight(agent string, at int, state history.State) history.Sight {
	start := time.Duration(at) * s
	return history.Sight{Agent: agent, Script: "t/x", Via: "resp", Start: start, End: start + s/2, State: state}
}

func absent(agent string, at int) history.Sight   { return sight(agent, at, history.Absent) }
func disabled(agent string, at int) history.Sight { return sight(agent, at, history.Disabled) }
func failed(agent string, at int) history.Sight   { return sight(agent, at, history.Failed) }

func runs(agent string, at int, version uint64) history.Sight {
	g := sight(agent, at, history.Runs)
	g.Version, g.Digest, g.Proof = version, fmt.Sprintf("d%d", version), fmt.Sprintf("p%d", version)
	return g
}

func listed(agent string, at int, revision int64, version uint64) history.Sight {
	g := runs(agent, at, version)
	g.Via, g.Proof, g.Revision = "list", "", revision
	return g
}

func fault(kind, target string, from, to int) history.Fault {
	return history.Fault{Kind: kind, Target: target, From: time.Duration(from) * s, To: time.Duration(to) * s}
}

func claim(revision int64, at int, agents ...string) history.Claim {
	start := time.Duration(at) * s
	return history.Claim{Registry: "r", Script: "t/x", Revision: revision, Agents: agents, Start: start, End: start + s/2}
}

func see(sights ...history.Sight) func(*history.History) {
	return func(h *history.History) { h.Sights = append(h.Sights, sights...) }
}

func TestSoundHistories(t *testing.T) {
	for name, change := range map[string]func(*history.History){
		"all is well":            func(*history.History) {},
		"an agent is late":       see(runs("a", 21, 1), runs("b", 31, 2), absent("b", 11)),
		"an agent skips a state": func(h *history.History) { h.Sights = []history.Sight{runs("a", 12, 1), runs("a", 61, 3)} },
		"calls that overlap see a change in either order": see(
			history.Sight{Agent: "a", Script: "t/x", Start: 20 * s, End: 22 * s, State: history.Runs, Version: 2, Digest: "d2"},
			history.Sight{Agent: "a", Script: "t/x", Start: 20 * s, End: 22 * s, State: history.Runs, Version: 1, Digest: "d1"}),
		"an agent sees a write before its writer": see(runs("a", 20, 2)),
		"a killed agent does not answer": func(h *history.History) {
			h.Faults = append(h.Faults, fault("kill", "a", 14, 16))
			h.Sights = append(h.Sights, failed("a", 15))
		},
		"a paused agent does not answer": func(h *history.History) {
			h.Faults = append(h.Faults, fault("pause", "a", 14, 16))
			h.Sights = append(h.Sights, failed("a", 15))
		},
		"a torn agent misses a script until it converges": func(h *history.History) {
			h.Faults = append(h.Faults, fault("tear", "a", 14, 19))
			h.Sights = append(h.Sights, absent("a", 15), failed("a", 16))
		},
		"what was converged is": func(h *history.History) {
			h.Claims = append(h.Claims, claim(10, 13, "a", "b"), claim(20, 24, "a", "b"), claim(60, 64, "a", "b"))
		},
		"a claim of the past about a torn agent": func(h *history.History) {
			h.Faults = append(h.Faults, fault("tear", "a", 14, 19))
			h.Claims = append(h.Claims, claim(20, 15, "a"))
			h.Sights = append(h.Sights, runs("a", 19, 1))
		},
		"an error that was a success": func(h *history.History) { h.Writes[2].Outcome = history.Unclear },
		"an error that was none": func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{ID: "lost", Script: "t/x", Change: "pin", Outcome: history.Unclear})
		},
		"a refusal": func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{ID: "no", Script: "t/x", Change: "pin", Outcome: history.Refused})
		},
		"a write that changed nothing": func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{ID: "same", Script: "t/x", Change: "pin", Outcome: history.Acked, Revision: 30, Attempts: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := sound()
			change(h)
			for _, v := range history.Check(h) {
				t.Errorf("%s: %s\n%s", v.Promise, v.What, strings.Join(v.Timeline, "\n"))
			}
		})
	}
}

// TestEachBrokenPromiseIsFound: a checker that cannot fail is worth nothing.
func TestEachBrokenPromiseIsFound(t *testing.T) {
	for name, tt := range map[string]struct {
		promise string
		change  func(*history.History)
	}{
		"an agent goes back":                            {"never goes back", see(runs("a", 25, 1))},
		"an agent goes back to a deleted script":        {"never goes back", see(runs("a", 54, 1))},
		"an agent forgets a script":                     {"never goes back", see(absent("a", 25))},
		"an agent enables a script by itself":           {"never goes back", see(runs("a", 45, 1))},
		"an agent goes back to an older revision":       {"never goes back", see(listed("a", 34, 20, 2))},
		"an agent runs what was never there":            {"only what was committed", see(runs("a", 25, 9))},
		"an agent runs what is not committed yet":       {"only what was committed", see(runs("a", 14, 2))},
		"an agent disables a script by itself":          {"only what was committed", see(disabled("a", 25))},
		"an agent runs another source under the digest": {"only what was committed", see(func() history.Sight { g := runs("a", 25, 2); g.Proof = "p1"; return g }())},
		"an agent runs another source under the number": {"only what was committed", see(func() history.Sight { g := runs("a", 25, 2); g.Digest = "d1"; return g }())},
		"an agent lists another version at a revision":  {"same code", see(listed("b", 25, 20, 1))},
		"a restart is no excuse for going back": {"never goes back", func(h *history.History) {
			h.Faults = []history.Fault{fault("kill", "a", 24, 26)}
			see(runs("a", 25, 1))(h)
		}},
		"a tear is no excuse for going back": {"never goes back", func(h *history.History) {
			h.Faults = []history.Fault{fault("tear", "a", 24, 26)}
			see(runs("a", 25, 1))(h)
		}},
		"a tear is no excuse once it converged": {"never goes back", func(h *history.History) {
			h.Faults = []history.Fault{fault("tear", "a", 22, 24)}
			see(absent("a", 25))(h)
		}},
		"a full disk is no excuse": {"never goes back", func(h *history.History) {
			h.Faults = []history.Fault{fault("fill", "a", 24, 26)}
			see(runs("a", 25, 1))(h)
		}},
		"a call fails": {"calls are served", see(failed("a", 25))},
		"a call fails while another agent is down": {"calls are served", func(h *history.History) {
			h.Faults = []history.Fault{fault("kill", "b", 24, 26)}
			see(failed("a", 25))(h)
		}},
		"a call fails while a registry is down": {"calls are served", func(h *history.History) {
			h.Faults = []history.Fault{fault("kill", "registry-0", 24, 26)}
			see(failed("a", 25))(h)
		}},
		"a call fails after its agent is back": {"calls are served", func(h *history.History) {
			h.Faults = []history.Fault{fault("kill", "a", 22, 24)}
			see(failed("a", 25))(h)
		}},
		"a call fails while its agent's disk is full": {"calls are served", func(h *history.History) {
			h.Faults = []history.Fault{fault("fill", "a", 24, 26)}
			see(failed("a", 25))(h)
		}},
		"status says converged too soon": {"converged means activated", func(h *history.History) {
			h.Claims = []history.Claim{claim(20, 21, "a", "b")}
			see(runs("b", 22, 1))(h)
		}},
		"status says that what was never there converged": {"converged means activated", func(h *history.History) { h.Claims = []history.Claim{claim(99, 65, "a")} }},
		"an acknowledged write is lost":                   {"ever lost", func(h *history.History) { h.Entries = h.Entries[:5]; h.Sights = nil; h.Finals = nil }},
		"a write was acknowledged as another":             {"ever lost", func(h *history.History) { h.Writes[1].Active = 7 }},
		"a retry happens twice":                           {"once or not at all", func(h *history.History) { h.Entries[3].ID = "pin" }},
		"a refused write happens":                         {"once or not at all", func(h *history.History) { h.Writes[2].Outcome = history.Refused }},
		"a write is done to another script":               {"once or not at all", func(h *history.History) { h.Writes[2].Script = "t/y" }},
		"a publish is another source":                     {"once or not at all", func(h *history.History) { h.Writes[1].Digest = "d7" }},
		"a change that nobody asked for":                  {"only what was committed", func(h *history.History) { h.Writes = h.Writes[:5] }},
		"a later write has a lower revision":              {"revisions only grow", func(h *history.History) { h.Writes[1].Revision, h.Writes[2].Revision = 30, 20 }},
		"a version number is used twice":                  {"revisions only grow", func(h *history.History) { h.Entries[5].Version = 2 }},
		"a registry says something else":                  {"every registry", func(h *history.History) { h.Finals[0].Version = 2 }},
		"a registry has what is deleted": {"every registry", func(h *history.History) {
			h.Entries = append(h.Entries, history.Entry{Script: "t/x", Revision: 70, Change: "delete", ID: "p3"})
		}},
		"a registry says nothing":         {"every registry", func(h *history.History) { h.Finals[0].Err = "gone" }},
		"the fleet never converges":       {"every agent converges", func(h *history.History) { h.Converged = 0 }},
		"the fleet converges too late":    {"every agent converges", func(h *history.History) { h.Converged = 101 * s }},
		"no registry says that it did":    {"every agent converges", func(h *history.History) { h.Told = 0 }},
		"a process ends by itself":        {"no process", func(h *history.History) { h.Crashes = []string{"agentd: panic"} }},
		"a process does not come up":      {"no process", func(h *history.History) { h.Crashes = []string{"agentd: not ready"} }},
		"two agents differ at a revision": {"same code", see(listed("a", 26, 21, 2), listed("b", 26, 21, 1))},
	} {
		t.Run(name, func(t *testing.T) {
			h := sound()
			tt.change(h)
			found := history.Check(h)
			for _, v := range found {
				if strings.Contains(v.Promise, tt.promise) {
					return
				}
			}
			t.Errorf("want that %q is broken, found %d violations: %+v", tt.promise, len(found), found)
		})
	}
}

func TestTimelineTellsTheStory(t *testing.T) {
	h := sound()
	h.Faults = append(h.Faults, fault("kill", "b", 24, 26))
	see(runs("a", 13, 1), runs("a", 14, 1), runs("a", 25, 1))(h)
	found := history.Check(h)
	if len(found) == 0 {
		t.Fatal("nothing was found")
	}
	text := strings.Join(found[0].Timeline, "\n")
	for _, part := range []string{"fault: kill b", "write: p2 publish", "truth: revision 20", "seen: 25.000s", "more times"} {
		if !strings.Contains(text, part) {
			t.Errorf("the timeline does not have %q:\n%s", part, text)
		}
	}
}

// TestRandomFleets walks agents through random histories: an honest fleet breaks no
// promise, and one agent that is shifted back in time is found.
func TestRandomFleets(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		h := randomFleet(random)
		if found := history.Check(h); len(found) > 0 {
			t.Fatalf("an honest fleet: %s: %s\n%s", found[0].Promise, found[0].What, strings.Join(found[0].Timeline, "\n"))
		}
		// What ran first, once more at the end: every version is another one.
		first := h.Sights[0]
		for _, g := range h.Sights {
			if g.State == history.Runs && g.Agent == "a" && g.Start < first.Start {
				first = g
			}
		}
		first.Start, first.End = 999*s, 1000*s
		h.Sights = append(h.Sights, first)
		if found := history.Check(h); len(found) == 0 {
			t.Fatalf("an agent that goes back to version %d is not found", first.Version)
		}
	}
}

// randomFleet has only publishes, so that no state comes twice. Each agent takes
// them over at times of its own, in order, and some not at all; answers come from
// calls that overlap.
func randomFleet(random *rand.Rand) *history.History {
	h := &history.History{
		Agents: []string{"a", "b", "c"}, Scripts: []string{"t/x"},
		Mended: 900 * s, Converged: 901 * s, Told: 902 * s, Bound: 30 * s,
	}
	n := 3 + random.IntN(20)
	starts := make([]time.Duration, n)
	for i := range n {
		starts[i] = time.Duration(i*10)*s + time.Duration(random.IntN(5000))*time.Millisecond
		id, digest := fmt.Sprintf("p%d", i+1), fmt.Sprintf("d%d", i+1)
		w := history.Write{
			ID: id, Script: "t/x", Change: "publish", Digest: digest, Start: starts[i], End: starts[i] + 3*s,
			Outcome: history.Acked, Attempts: 1, Changed: true, Revision: int64(10 * (i + 1)), Active: uint64(i + 1),
		}
		h.Writes = append(h.Writes, w)
		h.Entries = append(h.Entries, history.Entry{Script: "t/x", Revision: w.Revision, Change: "publish", Version: w.Active, Digest: digest, ID: id})
	}
	for _, agent := range h.Agents {
		now := starts[0]
		for i := range n {
			if i > 1 && i < n-1 && random.IntN(3) == 0 {
				continue
			}
			now = max(now, starts[i]) + time.Duration(random.IntN(8000))*time.Millisecond
			for range 1 + random.IntN(4) {
				g := runs(agent, 0, uint64(i+1))
				// Every call covers the moment of the change to this version.
				g.Start, g.End = now-time.Duration(random.IntN(3000))*time.Millisecond, now+time.Duration(random.IntN(3000))*time.Millisecond
				h.Sights = append(h.Sights, g)
			}
			h.Claims = append(h.Claims, history.Claim{
				Registry: "r", Script: "t/x", Revision: int64(10 * (i + 1)), Agents: []string{agent}, Start: now, End: now + s,
			})
		}
	}
	random.Shuffle(len(h.Sights), func(i, j int) { h.Sights[i], h.Sights[j] = h.Sights[j], h.Sights[i] })
	return h
}
