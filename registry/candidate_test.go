package registry

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	testsOnly = script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "answers"}}}}
	stepsOnly = script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 10, Pause: time.Minute}, {Percent: 50}}}}
	both      = script.Settings{Spec: script.Spec{Tests: testsOnly.Tests}, Rollout: stepsOnly.Rollout}
)

// with is r with the settings.
func with(s script.Settings, r script.Release) script.Release { r.Settings = s; return r }

// trying is r with a candidate in step 1, of which there was a step and an attempt.
func trying(number uint64, r script.Release) script.Release {
	r.Candidate = &script.Candidate{Version: numbered(number), Spec: r.Settings.Spec, Attempt: 3, Step: 1, Threshold: 100, Percent: 10}
	return r
}

// failed is r with a candidate that was given up.
func failed(number uint64, r script.Release) script.Release {
	r.Candidate = &script.Candidate{Version: numbered(number), Spec: r.Settings.Spec, Attempt: 3, Step: 1, Failed: "n1: no"}
	return r
}

// way says where the candidate is: "2@8/0" is version 2 in attempt 8 and step 0.
func way(r script.Release) string {
	c := r.Candidate
	if c == nil {
		return "-"
	}
	s := fmt.Sprintf("%d@%d/%d", c.Version.Number, c.Attempt, c.Step)
	if c.Failed != "" {
		s += " failed"
	}
	return s
}

type deciding func(script.Release) (decision, error)

func pinning(n uint64) deciding {
	return asRecorded(func(cur script.Release) (decision, error) {
		return decidePin(cur, n, knownSpecs, decideWrite, moment{now: decideNow})
	})
}

var releasing deciding = asRecorded(func(cur script.Release) (decision, error) {
	return decideLift(cur, knownSpecs, decideWrite, moment{now: decideNow})
})

// rollingBack is of a script of which all that is retained was live.
func rollingBack(n uint64) deciding {
	return asRecorded(func(cur script.Release) (decision, error) {
		var lines []script.HistoryEntry
		for _, v := range cur.Retained {
			lines = slices.Insert(lines, 0, script.HistoryEntry{Version: v.Number})
		}
		return decideRollback(cur, n, written(lines...), knownSpecs, decideWrite, moment{now: decideNow})
	})
}

// configuring publishes the source again with the settings.
func configuring(source uint64, s script.Settings) deciding {
	return publishing(source, func(p *publication) { p.settings = &s })
}

func steering(s Steering) deciding {
	return func(cur script.Release) (decision, error) {
		return decideSteer(cur, SteerRequest{Write: decideWrite, Steering: s}, moment{now: decideNow})
	}
}

func moving(m Move) deciding {
	return func(cur script.Release) (decision, error) {
		return decideMove(cur, AdvanceRequest{Move: m}, decideWrite, moment{now: decideNow})
	}
}

func TestDecideCandidate(t *testing.T) {
	two, three, zero, off := uint64(2), uint64(3), uint64(0), false
	pin := func(n *uint64) func(*publication) { return func(p *publication) { p.pin = n } }
	set := func(s script.Settings) func(*publication) { return func(p *publication) { p.settings = &s } }
	never := script.Release{Name: decideName}
	untried := trying(1, with(testsOnly, state(1, false, 1)))
	limited := func(s script.Settings) script.Settings { s.HistoryLimit = 1; return s }
	triggered := testsOnly
	triggered.Trigger.Event = "http-request"
	quicker := both
	quicker.Limits.Timeout = time.Second
	asked := both
	asked.Rollout.Steps = slices.Clone(both.Rollout.Steps)
	asked.Rollout.Steps[0].Approval = true
	approved := func(r script.Release) script.Release { r.Candidate.Approved = 1; return r }
	paused := func(r script.Release) script.Release { r.Candidate.Paused = "no progress"; return r }
	reworded := script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "answers", Expect: []byte(`1`)}}}}

	for _, test := range []struct {
		name string
		cur  script.Release
		do   deciding
		want string // as of describe, and where the candidate is
	}{
		{"first, tested", never, publishing(1, set(testsOnly)), "publish 1 false 1 [1] [] 1@1/0"},
		{"first, in steps", never, publishing(1, set(stepsOnly)), "publish 1 false 1 [1] [] -"},
		{"next, tested", state(1, false, 1), publishing(2, set(testsOnly)), "publish 1 false 2 [1 2] [] 2@8/0"},
		{"next, in steps", with(stepsOnly, state(1, false, 1)), publishing(2, nil), "publish 1 false 2 [1 2] [] 2@8/0"},
		{"next, of plain settings", with(both, state(1, false, 1)), publishing(2, set(script.Settings{})), "publish 2 false 2 [1 2] [] -"},
		{"next, while pinned", with(both, state(1, true, 1)), publishing(2, nil), "publish 1 true 2 [1 2] [] -"},
		{"next, pinned to itself", with(both, state(1, false, 1)), publishing(2, pin(&two)), "publish 1 true 2 [1 2] [] 2@8/0"},
		{"the same, pinned to itself", trying(2, with(both, state(1, true, 1, 2))), publishing(2, pin(&two)), "unchanged"},
		{"the same, pinned to itself, failed", failed(2, with(both, state(1, true, 1, 2))), publishing(2, pin(&two)), "unchanged"},
		{"the same, and now pinned", trying(2, with(both, state(1, false, 1, 2))), publishing(2, pin(&two)), "pin 2 true 2 [1 2] [] -"},
		{"the same, and unpinned", trying(2, with(both, state(1, true, 1, 2))), publishing(2, pin(&zero)), "unpin 1 false 2 [1 2] [] 2@3/1"},
		{"another, stored beside a pinned candidate", trying(2, with(both, state(1, true, 1, 2))), publishing(3, nil), "publish 1 true 3 [1 2 3] [] 2@3/1"},
		{"another, pinned in place of a pinned candidate", trying(2, with(both, state(1, true, 1, 2))), publishing(3, pin(&three)), "publish 1 true 3 [1 2 3] [] 3@8/0"},
		{"another pinned candidate, and back", trying(2, with(both, state(1, true, 1, 2))), publishing(2, pin(new(uint64(1)))), "pin 1 true 2 [1 2] [] -"},
		{"the same", trying(2, with(both, state(1, false, 1, 2))), publishing(2, nil), "unchanged"},
		{"the same, failed", failed(2, with(both, state(1, false, 1, 2))), publishing(2, nil), "unchanged"},
		{"the same, untried", untried, publishing(1, nil), "unchanged"},
		{"another", trying(2, with(both, state(1, false, 1, 2))), publishing(3, nil), "publish 1 false 3 [1 2 3] [] 3@8/0"},
		{"over a failed one", failed(2, with(both, state(1, false, 1, 2))), publishing(3, nil), "publish 1 false 3 [1 2 3] [] 3@8/0"},
		{"what is active, over a failed one", failed(2, with(both, state(1, false, 1, 2))), publishing(1, nil), "publish 1 false 3 [1 2 3] [] 3@8/0"},
		{"over one that nothing runs but", untried, publishing(2, nil), "publish 2 false 2 [1 2] [] 2@8/0"},
		{"over one that nothing runs but, untested", untried, publishing(2, set(stepsOnly)), "publish 2 false 2 [1 2] [] -"},
		{"the same, with other tests", failed(2, with(both, state(1, false, 1, 2))), publishing(2, set(testsOnly)), "configure 1 false 2 [1 2] [] 2@8/0"},
		{"the same, disabled", trying(2, with(both, state(1, false, 1, 2))), publishing(2, func(p *publication) { p.enabled = &off }), "disable 1 false 2 [1 2] [] 2@3/1"},

		{"history of one", with(limited(testsOnly), state(2, false, 1, 2)), publishing(3, nil), "publish 2 false 3 [2 3] [1] 3@8/0"},
		{"history of one, promoted", trying(2, with(limited(both), state(1, false, 1, 2))), steering(Promote), "promote 2 false 2 [2] [1] -"},
		{"history of one, stored beside a candidate", trying(2, with(limited(both), state(1, true, 1, 2))), publishing(3, nil), "publish 1 true 3 [1 2 3] [] 2@3/1"},

		{"release", with(testsOnly, held(0, state(1, true, 1, 2))), releasing, "release 1 false 2 [1 2] [] 2@8/0"},
		{"release, untested", held(0, state(1, true, 1, 2)), releasing, "release 2 false 2 [1 2] [] -"},
		{"release what is active", with(both, held(0, state(2, true, 1, 2))), releasing, "release 2 false 2 [1 2] [] -"},
		{"release to the newest, which the manifest pins", with(both, held(2, state(1, true, 1, 2))), releasing, "release 1 true 2 [1 2] [] 2@8/0"},
		{"release to an older one, which the manifest pins", with(both, held(2, state(1, true, 1, 2, 3))), releasing, "release 2 true 3 [1 2 3] [] -"},
		{"next, while held, and lifted", with(both, held(0, state(1, true, 1))), publishing(2, lift), "publish 1 false 2 [1 2] [] 2@8/0"},
		{"what was stored while held, and lifted", with(both, held(2, state(1, true, 1, 2))), publishing(2, lift), "release 1 true 2 [1 2] [] 2@8/0"},
		{"hold beside a candidate", trying(2, with(both, state(1, false, 1, 2))), pinning(0), "hold 1 true 2 [1 2] [] -"},
		{"hold what is untried", untried, pinning(0), "INVALID"},
		{"pin the candidate", trying(2, with(both, state(1, false, 1, 2))), pinning(2), "pin 2 true 2 [1 2] [] -"},
		{"pin a failed one", failed(2, with(both, state(1, false, 1, 2))), pinning(2), "pin 2 true 2 [1 2] [] -"},
		{"pin the active", trying(2, with(both, state(1, false, 1, 2))), pinning(1), "pin 1 true 2 [1 2] [] -"},
		{"pin the active again, with a candidate", trying(2, with(both, state(1, true, 1, 2))), pinning(1), "pin 1 true 2 [1 2] [] -"},
		{"pin what is untried", untried, pinning(1), "pin 1 true 1 [1] [] -"},
		{"pin, tested", with(both, state(3, false, 1, 2, 3)), pinning(1), "pin 1 true 3 [1 2 3] [] -"},
		{"roll back", trying(3, with(both, state(2, false, 1, 2, 3))), rollingBack(0), "rollback 2 true 3 [1 2 3] [] -"},
		{"roll back after a failure", failed(3, with(both, state(2, false, 1, 2, 3))), rollingBack(0), "rollback 2 true 3 [1 2 3] [] -"},
		{"roll back further", trying(3, with(both, state(2, false, 1, 2, 3))), rollingBack(1), "rollback 1 true 3 [1 2 3] [] -"},
		{"roll back forwards", trying(3, with(both, state(2, false, 1, 2, 3))), rollingBack(3), "INVALID"},
		{"roll back what is untried", untried, rollingBack(0), "NOTFOUND"},

		{"configure limits", trying(2, with(both, state(1, false, 1, 2))), configuring(2, quicker), "publish 1 false 3 [1 2 3] [] 3@8/0"},
		{"configure tests of a failed one", failed(2, with(testsOnly, state(1, false, 1, 2))), configuring(2, reworded), "publish 1 false 3 [1 2 3] [] 3@8/0"},
		{"configure the trigger", trying(2, with(testsOnly, state(1, false, 1, 2))), configuring(2, triggered), "publish 1 false 3 [1 2 3] [] 3@8/0"},
		{"configure the history", failed(2, with(testsOnly, state(1, false, 1, 2))), configuring(2, limited(testsOnly)), "configure 1 false 2 [1 2] [] 2@3/1 failed"},
		{"configure tests and steps away", trying(2, with(both, state(1, false, 1, 2))), configuring(2, script.Settings{}), "publish 3 false 3 [1 2 3] [] -"},
		{"configure steps away", trying(2, with(both, state(1, false, 1, 2))), configuring(2, testsOnly), "configure 1 false 2 [1 2] [] 2@8/0"},
		{"configure tests away", untried, configuring(1, stepsOnly), "publish 2 false 2 [1 2] [] -"},
		{"configure tests where there is no candidate", state(1, false, 1), configuring(1, both), "publish 1 false 2 [1 2] [] 2@8/0"},

		{"promote", trying(2, with(both, state(1, false, 1, 2))), steering(Promote), "promote 2 false 2 [1 2] [] -"},
		{"promote a failed one", failed(2, with(both, state(1, false, 1, 2))), steering(Promote), "promote 2 false 2 [1 2] [] -"},
		{"promote a pinned one", trying(2, with(both, state(1, true, 1, 2))), steering(Promote), "promote 2 true 2 [1 2] [] -"},
		{"promote the first", untried, steering(Promote), "promote 1 false 1 [1] [] -"},
		{"promote none", state(1, false, 1), steering(Promote), "NOTFOUND"},
		{"promote what never was", never, steering(Promote), "NOTFOUND"},
		{"abort", trying(2, with(both, state(1, false, 1, 2))), steering(Abort), "abort 1 false 2 [1 2] [] 2@3/1 failed"},
		{"abort again", failed(2, with(both, state(1, false, 1, 2))), steering(Abort), "unchanged"},
		{"retry", failed(2, with(both, state(1, false, 1, 2))), steering(Retry), "retry 1 false 2 [1 2] [] 2@8/0"},
		{"retry at once", trying(2, with(both, state(1, false, 1, 2))), steering(Retry), "retry 1 false 2 [1 2] [] 2@8/0"},
		{"steer nowhere", trying(2, with(both, state(1, false, 1, 2))), steering("up"), "INVALID"},

		{"step", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Step: 2, Threshold: 7}), "advance 1 false 2 [1 2] [] 2@3/2"},
		{"step again", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Step: 1, Threshold: 7}), "INVALID"},
		{"step again, of other agents", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Step: 1, Threshold: 101}), "INVALID"},
		{"approved", trying(2, with(asked, state(1, false, 1, 2))), steering(Approve), "approve 1 false 2 [1 2] [] 2@3/1"},
		{"approved before", approved(trying(2, with(asked, state(1, false, 1, 2)))), steering(Approve), "unchanged"},
		{"paused", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Paused: "no progress"}), "advance 1 false 2 [1 2] [] 2@3/1"},
		{"paused again", paused(trying(2, with(both, state(1, false, 1, 2)))), moving(Move{Paused: "no progress"}), "INVALID"},
		{"paused, and a step", paused(trying(2, with(both, state(1, false, 1, 2)))), moving(Move{Step: 2, Threshold: 7}), "INVALID"},
		{"paused, and promoted by the plan", paused(trying(2, with(both, state(1, false, 1, 2)))), moving(Move{Promote: true}), "INVALID"},
		{"paused, and an agent is lost", paused(trying(2, with(both, state(1, false, 1, 2)))), moving(Move{Lost: "n1"}), "advance 1 false 2 [1 2] [] 2@3/1"},
		{"paused, and approved", paused(trying(2, with(both, state(1, false, 1, 2)))), steering(Approve), "approve 1 false 2 [1 2] [] 2@3/1"},
		{"paused, and promoted", paused(trying(2, with(both, state(1, false, 1, 2)))), steering(Promote), "promote 2 false 2 [1 2] [] -"},
		{"approved, and nobody asked", trying(2, with(both, state(1, false, 1, 2))), steering(Approve), "INVALID"},
		{"approved, and given up", failed(2, with(asked, state(1, false, 1, 2))), steering(Approve), "INVALID"},
		{"approved, and there is none", state(1, false, 1), steering(Approve), "NOTFOUND"},
		{"step runs", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Running: true}), "advance 1 false 2 [1 2] [] 2@3/1"},
		{"an agent is lost", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Lost: "n1"}), "advance 1 false 2 [1 2] [] 2@3/1"},
		{"calls that nobody made", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Counted: true}), "INVALID"},
		{"two at once", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Lost: "n1", Running: true}), "INVALID"},
		{"step again, of the same", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Step: 1, Threshold: 100}), "INVALID"},
		{"step back", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Step: -1, Threshold: 101}), "INVALID"},
		{"step too far", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Step: 3, Threshold: 7}), "INVALID"},
		{"step of none", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Step: 2}), "INVALID"},
		{"step of a first version", trying(1, with(both, state(1, false, 1))), moving(Move{Step: 2, Threshold: 7}), "INVALID"},
		{"move a failed one", failed(2, with(both, state(1, false, 1, 2))), moving(Move{Promote: true}), "INVALID"},
		{"no move", trying(2, with(both, state(1, false, 1, 2))), moving(Move{}), "INVALID"},
		{"two moves", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Promote: true, Failed: "no"}), "INVALID"},
		{"moved to the end", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Promote: true}), "promote 2 false 2 [1 2] [] -"},
		{"failed", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Failed: "n1: no"}), "abort 1 false 2 [1 2] [] 2@3/1 failed"},
		{"failed, the first", untried, moving(Move{Failed: "n1: no"}), "abort 1 false 1 [1] [] 1@3/1 failed"},
		{"move none", state(1, false, 1), moving(Move{Promote: true}), "NOTFOUND"},
		{"delete", trying(2, with(both, state(1, false, 1, 2))), func(cur script.Release) (decision, error) {
			return decideDelete(cur, decideWrite, moment{now: decideNow})
		}, "delete 0 false 2 [] [1 2] -"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := fmt.Sprintf("%+v %+v", test.cur, test.cur.Candidate)
			d, err := test.do(test.cur)
			got := describe(d, err)
			if err == nil && d.changed {
				got += " " + way(d.release)
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if after := fmt.Sprintf("%+v %+v", test.cur, test.cur.Candidate); after != before {
				t.Errorf("the release that was decided on is another now:\n%s\n%s", before, after)
			}
			if err == nil && d.changed {
				wantSound(t, d)
			}
		})
	}
}

// wantSound checks what is so of every release that comes of a decision.
func wantSound(t *testing.T, d decision) {
	t.Helper()
	r := d.release
	if !reflect.DeepEqual(d.commit.Release, r) || d.commit.Entry.Candidate != candidateOf(r) || d.commit.Entry.Version != r.Active.Number {
		t.Errorf("commit %+v of %+v", d.commit, r)
	}
	if r.Deleted {
		return
	}
	if r.Hold != nil && (!r.Pinned || r.Candidate != nil) {
		t.Errorf("held, pinned %v, with the candidate %d", r.Pinned, candidateOf(r))
	}
	if _, ok := r.Retains(r.Declared()); !ok && r.Declared() != 0 {
		t.Errorf("the declared version %d is not retained", r.Declared())
	}
	if last, _ := r.Newest(); !r.Pinned && last.Number != r.Active.Number && last.Number != candidateOf(r) {
		t.Errorf("it follows the latest, %d, and neither runs it, %d, nor will, %d", last.Number, r.Active.Number, candidateOf(r))
	}
	if _, ok := r.Retains(r.Active.Number); !ok {
		t.Errorf("the active version %d is not retained", r.Active.Number)
	}
	if _, ok := r.Retains(candidateOf(r)); !ok && r.Candidate != nil {
		t.Errorf("the candidate %d is not retained", candidateOf(r))
	}
	if c := r.Candidate; c != nil && (c.Failed != "" || c.Step == 0) && c.Threshold != 0 {
		t.Errorf("agents run what they must not: %+v", c)
	}
}

// TestTriesAreCounted: people see attempts counted from 1 for each version that is on its way,
// also of a candidate that began before registries counted.
func TestTriesAreCounted(t *testing.T) {
	cur := failed(2, with(both, state(1, false, 1, 2)))
	begin := with(both, held(0, state(1, true, 1, 2)))
	slower := both
	slower.Rollout.Steps = slower.Rollout.Steps[:1]
	for i, step := range []struct {
		name string
		cur  *script.Release // instead of what the step before has led to
		do   deciding
		want int
	}{
		{"an old one, once more", &cur, steering(Retry), 2},
		{"given up", nil, steering(Abort), 2},
		{"once more", nil, steering(Retry), 3},
		{"a step", nil, moving(Move{Step: 1, Threshold: 7}), 3},
		{"other steps", nil, configuring(2, slower), 4},
		{"released", &begin, releasing, 1},
	} {
		if step.cur != nil {
			cur = *step.cur
		}
		d, err := step.do(cur)
		if err != nil || d.release.Candidate == nil {
			t.Fatalf("%s: %+v, %v", step.name, d.release, err)
		}
		cur = d.release
		cur.Revision = script.Revision(100 + i) // which the store numbers
		if cur.Candidate.Tries != step.want {
			t.Errorf("%s: attempt %d, want %d", step.name, cur.Candidate.Tries, step.want)
		}
	}
}

func TestWhatAStepSays(t *testing.T) {
	d, err := decideMove(trying(2, with(both, state(1, false, 1, 2))), AdvanceRequest{Move: Move{Step: 2, Threshold: 7}}, Write{Name: decideName, Author: SystemAuthor}, moment{now: decideNow})
	if err != nil {
		t.Fatal(err)
	}
	want := script.Candidate{Version: numbered(2), Attempt: 3, Step: 2, Threshold: 7, Percent: 50, Since: decideNow}
	want.Spec = both.Spec
	if c := *d.release.Candidate; !reflect.DeepEqual(c, want) {
		t.Errorf("candidate: %+v", c)
	}
	if note := d.commit.Entry.Note; note != "step 2 of 2: version 2 on 50 % of the agents" {
		t.Errorf("note: %q", note)
	}
}

// TestWhatAStepWithASelectorSays: the candidate keeps what the step before selected, until it is
// given up.
func TestWhatAStepWithASelectorSays(t *testing.T) {
	zones := stepsOnly
	zones.Rollout.Steps = []script.Step{{Percent: 10}, {Selector: "zone=a"}, {Selector: "zone=b", Percent: 50}}
	cur := trying(2, with(zones, state(1, false, 1, 2)))
	for step, want := range map[int]string{2: "step 2 of 3: version 2 on the agents with zone=a", 3: "step 3 of 3: version 2 on 50 % of the agents with zone=b"} {
		d, err := decideMove(cur, AdvanceRequest{Move: Move{Step: step, Threshold: 7}}, Write{Name: decideName, Author: SystemAuthor}, moment{now: decideNow})
		if err != nil {
			t.Fatal(err)
		}
		of := zones.Rollout.Steps[step-1]
		c := d.release.Candidate
		if c.Threshold != 100 || c.Percent != of.Percent || !slices.Equal(c.Selections, []script.Selection{{Selector: of.Selector, Threshold: 7}}) || cur.Candidate.Selections != nil {
			t.Errorf("candidate: %+v, after %+v", c, cur.Candidate)
		}
		if note := d.commit.Entry.Note; note != want {
			t.Errorf("note: %q, want %q", note, want)
		}
		if c := givenUp(d.release, "no", decideNow).Candidate; c.SelectsAny() {
			t.Errorf("given up: %+v", c)
		}
	}
}

func TestWhyItWasGivenUp(t *testing.T) {
	cur := trying(2, with(both, state(1, false, 1, 2)))
	d, err := decideSteer(cur, SteerRequest{Write: Write{Name: decideName, Author: "ann", Note: "slow"}, Steering: Abort}, moment{now: decideNow})
	if err != nil || d.release.Candidate.Failed != "aborted by ann: slow" {
		t.Errorf("aborted: %+v, %v", d.release.Candidate, err)
	}
	// What an agent says may be long, and written to garble.
	d, err = decideMove(cur, AdvanceRequest{Move: Move{Failed: "n1: \x1b[2J\n\xff" + strings.Repeat("ü", script.MaxFailedBytes)}}, decideWrite, moment{now: decideNow})
	if err != nil {
		t.Fatal(err)
	}
	why, note := d.release.Candidate.Failed, d.commit.Entry.Note
	for _, s := range []string{why, note} {
		if !utf8.ValidString(s) || strings.ContainsAny(s, "\x1b\n") || !strings.HasPrefix(s, "n1:  [2J ") || !strings.HasSuffix(s, "ü…") {
			t.Errorf("%q", s)
		}
	}
	if len(why) > script.MaxFailedBytes || len(note) > MaxNoteBytes {
		t.Errorf("%d and %d bytes", len(why), len(note))
	}
}

func TestRolesForCandidates(t *testing.T) {
	two := uint64(2)
	for _, test := range []struct {
		name string
		cur  script.Release
		do   deciding
		want string
	}{
		{"publish", with(both, state(1, false, 1)), publishing(2, nil), "[publish]"},
		{"publish what is pinned to itself", with(both, state(1, true, 1)), publishing(2, func(p *publication) { p.pin = &two }), "[publish release]"},
		{"publish over a pinned candidate", trying(2, with(both, state(1, true, 1, 2))), publishing(3, func(p *publication) { p.pin = new(uint64(3)) }), "[publish release]"},
		{"configure anew", trying(2, with(both, state(1, false, 1, 2))), configuring(2, testsOnly), "[publish]"},
		{"configure away", trying(2, with(both, state(1, false, 1, 2))), configuring(2, script.Settings{}), "[publish]"},
		{"pin where it is pinned", trying(2, with(both, state(1, true, 1, 2))), pinning(1), "[release]"},
		{"promote", trying(2, with(both, state(1, false, 1, 2))), steering(Promote), "[release]"},
		{"abort", trying(2, with(both, state(1, false, 1, 2))), steering(Abort), "[release]"},
		{"retry", trying(2, with(both, state(1, false, 1, 2))), steering(Retry), "[release]"},
		{"advance", trying(2, with(both, state(1, false, 1, 2))), moving(Move{Step: 2, Threshold: 7}), "[release]"},
		{"abort again", failed(2, with(both, state(1, false, 1, 2))), steering(Abort), "[]"},
	} {
		d, err := test.do(test.cur)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := fmt.Sprint(append([]access.Role{}, rolesFor(test.cur, d)...)); got != test.want {
			t.Errorf("%s takes %s, want %s", test.name, got, test.want)
		}
	}
}

// TestRefusalNamesThePin: a publisher whose publish would end a pin reads that, and what to do.
func TestRefusalNamesThePin(t *testing.T) {
	cur := state(1, true, 1, 2)
	publisher := access.Identity{Name: "ci", Grants: []access.Grant{{Roles: []access.Role{access.Publish}}}}
	d, err := publishing(3, func(p *publication) { p.pin = new(uint64(0)) })(cur) // a manifest without a version
	if err != nil {
		t.Fatal(err)
	}
	err = Write{Name: cur.Name, By: publisher}.mayMake(cur, d)
	want := "acme/route is pinned to version 1, and this ends the pin: to keep it, publish with spec.version: 1"
	if script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), `ci has no role release for the tenant "acme"`) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	held := state(1, true, 1, 2)
	held.Hold = &script.Hold{Author: "ann", Note: "carts lost"}
	if d, err = publishing(3, func(p *publication) { p.liftHold = true })(held); err != nil {
		t.Fatal(err)
	}
	err = Write{Name: held.Name, By: publisher}.mayMake(held, d)
	want = `acme/route is held by ann ("carts lost"): to store the version only, leave out --lift-hold`
	if script.KindOf(err) != script.Denied || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if d, err = steering(Promote)(trying(2, with(both, state(1, true, 1, 2)))); err != nil {
		t.Fatal(err)
	}
	if err := (Write{Name: cur.Name, By: publisher}).mayMake(cur, d); script.KindOf(err) != script.Denied || strings.Contains(err.Error(), "ends the pin") {
		t.Errorf("a promotion: %v", err)
	}
}

// TestAnyWayOfACandidate: whatever is done in whatever order, each release is sound, no
// attempt is made twice, and nothing but a person's choice, a plan's end or settings
// without tests and steps changes what is active.
func TestAnyWayOfACandidate(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := []script.Settings{{}, testsOnly, stepsOnly, both}
	for range 200 {
		cur := script.Release{Name: decideName}
		attempts, wasLive := map[uint64]uint64{}, map[uint64]bool{}
		var lines []script.HistoryEntry
		for revision := script.Revision(1); revision < 60; revision++ {
			number := random.Uint64N(cur.Latest + 2)
			settings := kinds[random.IntN(len(kinds))]
			settings.HistoryLimit = random.IntN(4)
			rollback := asRecorded(func(cur script.Release) (decision, error) {
				return decideRollback(cur, number, written(lines...), knownSpecs, decideWrite, moment{now: decideNow})
			})
			const lifting = 5
			choices := []deciding{
				publishing(100+random.Uint64N(8), nil),
				publishing(100+random.Uint64N(8), func(p *publication) { p.pin = &number }),
				publishing(100+random.Uint64N(8), func(p *publication) { p.settings = &settings }),
				configuring(100, settings), releasing, // lifting:
				publishing(100+random.Uint64N(8), lift),
				pinning(number), rollback, steering(Abort), steering(Retry), steering(Promote),
				moving(Move{Step: 1, Threshold: 1}), moving(Move{Step: 2, Threshold: 2}), moving(Move{Failed: "no"}), moving(Move{Promote: true}),
				func(cur script.Release) (decision, error) {
					return decideDelete(cur, decideWrite, moment{now: decideNow})
				},
			}
			which := random.IntN(len(choices))
			if which == len(choices)-1 && random.IntN(10) > 0 {
				continue
			}
			d, err := choices[which](cur)
			if err != nil || !d.changed {
				continue
			}
			wantSound(t, d)
			next := d.release
			next.Revision = revision
			_, existed := cur.Retains(next.Active.Number)
			explicit := (which == 1 || which == lifting) && next.Pinned && existed // a publish that pins a version that there was
			tried := len(next.Settings.Tests) > 0 || len(next.Settings.Rollout.Steps) > 0
			switch change := d.commit.Entry.Change; {
			case !live(cur) || next.Deleted || cur.Untried() || !tried || explicit || next.Active.Number == cur.Active.Number:
			case change == script.ChangePublish || change == script.ChangeConfigure || change == script.ChangeUnpin || change == script.ChangeRelease && next.Active.Number == next.Latest || change == script.ChangeAdvance:
				t.Errorf("%s made version %d active in place of %d, untested", change, next.Active.Number, cur.Active.Number)
			}
			if d.commit.Entry.Change == script.ChangeRollback && number == 0 && !wasLive[next.Active.Number] {
				t.Errorf("rolled back to version %d, which never was live", next.Active.Number)
			}
			if c := next.Candidate; c != nil {
				if d.commit.Entry.Change == script.ChangeRetry && c.Attempt <= cur.Candidate.Attempt {
					t.Errorf("a retry of attempt %d is attempt %d", cur.Candidate.Attempt, c.Attempt)
				}
				if v, ok := attempts[c.Attempt]; ok && v != c.Version.Number {
					t.Errorf("attempt %d is of the versions %d and %d", c.Attempt, v, c.Version.Number)
				}
				attempts[c.Attempt] = c.Version.Number
			}
			wasLive[next.Active.Number] = wasLive[next.Active.Number] || !next.Untried()
			d.commit.Entry.Revision = revision
			lines = slices.Insert(lines, 0, d.commit.Entry)
			cur = next
		}
	}
}
