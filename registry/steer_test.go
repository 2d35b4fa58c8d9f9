package registry_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

var trial = script.Settings{
	Spec: script.Spec{
		Tests: []script.Test{{Name: "answers"}},
	},
	Rollout: script.Plan{Steps: []script.Step{{Percent: 10}, {Percent: 50}}},
}

// trying is a bench whose script has version 1 active and 2 as a candidate.
func trying(t *testing.T) (*bench, script.Release) {
	t.Helper()
	b := newBench(t)
	b.publish("one")
	return b, b.publish("two", settings(trial)).Release
}

func (b *bench) advance(at script.Revision, m registry.Move) (script.Release, error) {
	b.t.Helper()
	result, err := b.Advance(b.t.Context(), registry.AdvanceRequest{Name: route, At: at, Move: m})
	return result.Release, err
}

func (b *bench) steer(s registry.Steering, w registry.Write) (registry.Result, error) {
	b.t.Helper()
	return b.Steer(b.t.Context(), registry.SteerRequest{Write: w, Steering: s})
}

func TestFromCandidateToActive(t *testing.T) {
	b, r := trying(t)
	wantRelease(t, r, 1, 2, false)
	for step := 1; step <= 2; step++ {
		next, err := b.advance(r.Revision, registry.Move{Step: step, Threshold: uint32(step)})
		if err != nil {
			t.Fatal(err)
		}
		if c := next.Candidate; c == nil || c.Step != step || c.Threshold != uint32(step) || c.Attempt != r.Candidate.Attempt || next.Active.Number != 1 {
			t.Fatalf("step %d: %+v", step, next.Candidate)
		}
		r = next
	}
	r, err := b.advance(r.Revision, registry.Move{Promote: true})
	if err != nil || r.Candidate != nil || fmt.Sprint(retained(r)) != "[1 2]" {
		t.Errorf("promoted: %+v, %v", r, err)
	}
	wantRelease(t, r, 2, 2, false)
	var told []string
	lines, err := b.History(t.Context(), everybody, route)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range lines {
		told = append(told, fmt.Sprintf("%s %d %d %s", e.Change, e.Version, e.Candidate, e.Author))
	}
	want := "promote 2 0 scriptorium,advance 1 2 scriptorium,advance 1 2 scriptorium,publish 1 2 ann,publish 1 0 ann"
	if got := strings.Join(told, ","); got != want {
		t.Errorf("history: %s, want %s", got, want)
	}
	audit, err := b.Audit(t.Context(), registry.AuditRequest{By: everybody, PageSize: 1})
	if err != nil || audit.Entries[0].Change != script.ChangePromote || audit.Entries[0].Identity != registry.SystemAuthor || audit.Entries[0].Forced {
		t.Errorf("audit: %+v, %v", audit.Entries, err)
	}
}

// TestAuditOfACandidate: the trail says of which candidate each change was, and what the
// history says of it.
func TestAuditOfACandidate(t *testing.T) {
	b, r := trying(t)
	r, err := b.advance(r.Revision, registry.Move{Step: 1, Threshold: 9})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.advance(r.Revision, registry.Move{Failed: "n1: no"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.steer(registry.Promote, write(route)); err != nil {
		t.Fatal(err)
	}
	audit, err := b.Audit(t.Context(), registry.AuditRequest{By: everybody})
	if err != nil {
		t.Fatal(err)
	}
	history, err := b.History(t.Context(), everybody, route)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for i, e := range audit.Entries {
		told = append(told, fmt.Sprintf("%s %d %d: %s", e.Change, e.Version, e.Candidate, e.Note))
		digest := script.Digest{}
		if e.Candidate != 0 {
			digest = script.DigestOf([]byte("two"))
		}
		if e.CandidateDigest != digest {
			t.Errorf("%s has the candidate's digest %s, want %s", told[i], e.CandidateDigest, digest)
		}
		if line := history[i]; line.Candidate != e.Candidate || line.Note != e.Note || line.Revision != e.Revision {
			t.Errorf("history %+v, audit %+v", line, e)
		}
	}
	want := "promote 2 0: why,abort 1 2: n1: no,advance 1 2: step 1 of 2: version 2 on 10 % of the agents,publish 1 2: why,publish 1 0: why"
	if got := strings.Join(told, ","); got != want {
		t.Errorf("audit: %s, want %s", got, want)
	}
}

// What was decided on a release that is another now is a Conflict, and nothing comes of
// it; also where a registry remembers the old one.
func TestAdvanceOfWhatIsPast(t *testing.T) {
	moves := []registry.Move{{Step: 1, Threshold: 9}, {Promote: true}, {Failed: "n1: no"}}
	for name, meanwhile := range map[string]func(b *bench){
		"another version": func(b *bench) { b.publish("three") },
		"another setting": func(b *bench) { b.publish("two", settings(script.Settings{Spec: script.Spec{Tests: trial.Tests}})) },
		"aborted":         func(b *bench) { _, _ = b.steer(registry.Abort, write(route)) },
		"retried":         func(b *bench) { _, _ = b.steer(registry.Retry, write(route)) },
		"promoted":        func(b *bench) { _, _ = b.steer(registry.Promote, write(route)) },
		"pinned":          func(b *bench) { b.publish("two", pin(1)) },
		"deleted":         func(b *bench) { b.remove() },
	} {
		t.Run(name, func(t *testing.T) {
			r, other := newRemembering(t)
			before := r.publish("two", settings(trial)).Release
			r.catchUp()
			meanwhile(other)
			head := other.head()
			for _, b := range []*bench{r.bench, other} {
				for _, m := range moves {
					_, err := b.advance(before.Revision, m)
					wantKind(t, err, script.Conflict, "expected_revision")
				}
			}
			if other.head() != head {
				t.Error("something was changed")
			}
		})
	}
	b, _ := trying(t)
	_, err := b.advance(0, moves[1])
	wantKind(t, err, script.Invalid, "at")
}

// TestAdvanceOfWhatIsKnownReadsNothing: the registry that leads remembers what it moves.
func TestAdvanceOfWhatIsKnownReadsNothing(t *testing.T) {
	r, _ := newRemembering(t)
	release := r.publish("two", settings(trial)).Release
	r.catchUp()
	if _, err := r.advance(release.Revision, registry.Move{Step: 1, Threshold: 9}); err != nil || r.counted.reads > 0 {
		t.Errorf("%v, after %d reads", err, r.counted.reads)
	}
}

// TestWritersDuringARollout: whoever writes at once, each release follows from the one
// before, and moves are made of none but the release that they were decided on.
func TestWritersDuringARollout(t *testing.T) {
	b, _ := trying(t)
	var writing, moving sync.WaitGroup
	var published, moved atomic.Uint64
	const least, most = 20, 2000 // that each writer publishes
	for w := range 3 {
		writing.Go(func() {
			for i := 0; i < least || moved.Load() == 0 && i < most; i++ {
				if _, err := b.tryPublish(fmt.Sprint("source ", w, " ", i)); err != nil {
					t.Error(err)
					return
				}
				published.Add(1)
			}
		})
	}
	written := make(chan struct{})
	moving.Go(func() {
		for {
			select {
			case <-written:
				return
			default:
			}
			r, err := b.Get(t.Context(), everybody, route)
			if err != nil {
				t.Error(err)
				return
			}
			if r.Candidate == nil {
				continue
			}
			m := registry.Move{Promote: true}
			if step := r.Candidate.Step + 1; step <= 2 {
				m = registry.Move{Step: step, Threshold: 9}
			}
			switch next, err := b.advance(r.Revision, m); {
			case err == nil:
				moved.Add(1)
				if m.Promote != (next.Candidate == nil) || m.Promote && next.Active.Number != r.Candidate.Version.Number {
					t.Errorf("%+v came of %+v", next, r)
				}
			case script.KindOf(err) != script.Conflict:
				t.Error(err)
			}
		}
	})
	writing.Wait()
	close(written)
	moving.Wait()
	t.Logf("%d moves among %d publishes", moved.Load(), published.Load())
	if moved.Load() == 0 {
		t.Error("no move was made while others wrote")
	}
	attempts := map[string]uint64{}
	var last script.Release
	for tx, err := range b.store.Watch(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		last = tx.Releases[0]
		if c := last.Candidate; c != nil {
			of := fmt.Sprint(c.Attempt)
			if v, ok := attempts[of]; ok && v != c.Version.Number {
				t.Errorf("attempt %s is of the versions %d and %d", of, v, c.Version.Number)
			}
			attempts[of] = c.Version.Number
		}
		if newest := last.Retained[len(last.Retained)-1].Number; last.Active.Number != newest && (last.Candidate == nil || last.Candidate.Version.Number != newest) {
			t.Errorf("revision %d follows no version: %+v", tx.Revision, last)
		}
		if tx.Revision == b.head() {
			break
		}
	}
	if want := 2 + published.Load(); last.Latest != want {
		t.Errorf("latest: %d, want %d", last.Latest, want)
	}
}

func TestAttemptsAreNew(t *testing.T) {
	b, r := trying(t)
	seen := map[uint64]bool{r.Candidate.Attempt: true}
	for i := range 3 {
		if _, err := b.Pin(t.Context(), registry.PinRequest{Write: write(route), Version: 1}); err != nil {
			t.Fatal(err)
		}
		result, err := b.LiftHold(t.Context(), registry.LiftHoldRequest{Write: write(route)})
		if err != nil || result.Release.Candidate == nil || result.Release.Active.Number != 1 {
			t.Fatalf("round %d: %+v, %v; want version 2 to be tested again", i, result.Release, err)
		}
		if seen[result.Release.Candidate.Attempt] {
			t.Errorf("attempt %d was made before", result.Release.Candidate.Attempt)
		}
		seen[result.Release.Candidate.Attempt] = true
		b.steer(registry.Retry, write(route))
		if c := b.get().Candidate; seen[c.Attempt] {
			t.Errorf("attempt %d was made before", c.Attempt)
		} else {
			seen[c.Attempt] = true
		}
	}
}

func TestSteer(t *testing.T) {
	b, r := trying(t)
	abort := write(route)
	abort.Note = "slow"
	abort.RequestID = "abort-0123456789"
	for i := range 2 { // sent again, it happens once
		result, err := b.steer(registry.Abort, abort)
		if err != nil || !result.Changed || result.Release.Candidate.Failed != "aborted by ann: slow" {
			t.Fatalf("abort %d: %+v, %v", i, result, err)
		}
	}
	if b.head() != r.Revision+1 {
		t.Errorf("head %d after revision %d: the abort happened twice", b.head(), r.Revision)
	}
	other := abort
	_, err := b.steer(registry.Promote, other)
	wantKind(t, err, script.Invalid, "request_id")
	late := write(route)
	late.ExpectedRevision = r.Revision
	_, err = b.steer(registry.Promote, late)
	wantKind(t, err, script.Conflict, "expected_revision")
	for _, s := range []registry.Steering{registry.Promote, registry.Abort, registry.Retry} {
		_, err := b.Steer(t.Context(), registry.SteerRequest{Write: write(route), Steering: s, Version: 1})
		wantKind(t, err, script.Conflict, "version")
		if !strings.Contains(err.Error(), "version 2, not 1") {
			t.Errorf("%s of another candidate: %v", s, err)
		}
	}
	if same := b.publish("two"); same.Changed || same.Release.Candidate.Failed == "" || same.Version.Number != 2 {
		t.Errorf("published again: %+v", same)
	}
	named := registry.SteerRequest{Write: write(route), Steering: registry.Promote, Version: 2}
	if result, err := b.Steer(t.Context(), named); err != nil || result.Release.Active.Number != 2 {
		t.Errorf("promote: %+v, %v", result, err)
	}
	_, err = b.steer(registry.Promote, write(route))
	wantKind(t, err, script.NotFound, "candidate")
	b.remove()
	_, err = b.steer(registry.Retry, write(route))
	wantKind(t, err, script.NotFound, "name")
}

// TestOwnersOfCandidates: a person needs the owner's leave, or force; the registry, which
// does what the owner asked for, does not.
func TestOwnersOfCandidates(t *testing.T) {
	b := newBench(t)
	owner := func(r *registry.PublishRequest) { r.Owner = "cr" }
	b.publish("one", owner)
	r := b.publish("two", owner, settings(trial)).Release
	for _, s := range []registry.Steering{registry.Promote, registry.Abort, registry.Retry} {
		_, err := b.steer(s, write(route))
		wantKind(t, err, script.Denied, "owner")
	}
	forced := write(route)
	forced.Force, forced.By = true, who(t, "rel", "acme", access.Release)
	_, err := b.steer(registry.Abort, forced)
	wantKind(t, err, script.Denied, "tenant")
	if _, err := b.advance(r.Revision, registry.Move{Step: 1, Threshold: 9}); err != nil {
		t.Errorf("advance: %v", err)
	}
	forced.By = everybody
	if result, err := b.steer(registry.Abort, forced); err != nil || !result.Changed {
		t.Errorf("forced: %+v, %v", result, err)
	}
}

func TestTestsAreNormalized(t *testing.T) {
	b := newBench(t)
	spaced := script.Settings{
		Spec: script.Spec{
			Tests: []script.Test{{Name: "a", Request: []byte("{ }"), Expect: []byte(" [1,\n 2]")}, {Name: "b", Request: []byte{}, Error: script.Limit}},
		},
		Rollout: script.Plan{Steps: []script.Step{}},
	}
	first := b.publish("one", settings(spaced))
	got := first.Release.Settings
	if got.Tests[0].Request != nil || string(got.Tests[0].Expect) != "[1,2]" || got.Tests[1].Request != nil || got.Tests[1].Expect != nil || got.Rollout.Steps != nil {
		t.Errorf("%+v", got)
	}
	if again := b.publish("one", settings(spaced)); again.Changed {
		t.Errorf("the same settings are a change: %+v", again.Release)
	}
	if !first.Release.Untried() {
		t.Errorf("a first version that has tests: %+v", first.Release)
	}
}

func TestImpossibleTrials(t *testing.T) {
	for field, s := range map[string]script.Settings{
		"settings.tests[0].name":            {Spec: script.Spec{Tests: []script.Test{{}}}},
		"settings.tests[1].name":            {Spec: script.Spec{Tests: []script.Test{{Name: "a"}, {Name: "a"}}}},
		"settings.tests[0].request":         {Spec: script.Spec{Tests: []script.Test{{Name: "a", Request: []byte("{")}}}},
		"settings.tests[1].expect":          {Spec: script.Spec{Tests: []script.Test{{Name: "a"}, {Name: "b", Expect: []byte("\"\xff\"")}}}},
		"settings.tests[0].error":           {Spec: script.Spec{Tests: []script.Test{{Name: "a", Error: script.NotFound}}}},
		"settings.tests":                    {Spec: script.Spec{Tests: make([]script.Test, script.MaxTests+1)}},
		"settings.rollout.steps[1].percent": {Rollout: script.Plan{Steps: []script.Step{{Percent: 5}, {Percent: 5}}}},
		"settings.rollout.steps[0].pause":   {Rollout: script.Plan{Steps: []script.Step{{Percent: 5, Pause: -1}}}},
		"settings.rollout.maxErrorPercent":  {Rollout: script.Plan{MaxErrorPercent: new(101.0)}},
		"settings.rollout.maxErrorPercent#": {Rollout: script.Plan{MaxErrorPercent: new(5.0)}},
		"settings.rollout.steps":            {Rollout: script.Plan{Steps: make([]script.Step, script.MaxSteps+1)}},
		"settings.tests[0].name#":           {Spec: script.Spec{Tests: []script.Test{{Name: "a\x1b[2J"}}}},
	} {
		b := newBench(t)
		_, err := b.tryPublish("one", settings(s))
		wantKind(t, err, script.Invalid, strings.TrimSuffix(field, "#"))
		if b.head() != 0 {
			t.Errorf("%s was stored", field)
		}
	}
}

// An imported candidate begins anew: what it passed, it passed elsewhere.
func TestImportOfACandidate(t *testing.T) {
	b, r := trying(t)
	if _, err := b.advance(r.Revision, registry.Move{Step: 1, Threshold: 9}); err != nil {
		t.Fatal(err)
	}
	whole, err := b.export(everybody, "")
	if err != nil {
		t.Fatal(err)
	}
	fresh := newBench(t)
	if _, err := fresh.Import(t.Context(), importing(everybody), from(whole)); err != nil {
		t.Fatal(err)
	}
	c := fresh.get().Candidate
	if c == nil || c.Version.Number != 2 || c.Step != 0 || c.Threshold != 0 || c.Failed != "" || c.Attempt == 0 {
		t.Errorf("imported: %+v", c)
	}
	if got, err := fresh.Import(t.Context(), importing(everybody), from(whole)); err != nil || got.Unchanged != 1 {
		t.Errorf("imported again: %+v, %v", got, err)
	}
	if _, err := fresh.steer(registry.Abort, write(route)); err != nil {
		t.Fatal(err)
	}
	_, err = fresh.Import(t.Context(), importing(everybody), from(whole))
	wantKind(t, err, script.Conflict, "name")
	over := importing(everybody)
	over.Overwrite = true
	aborted := fresh.get()
	if _, err := fresh.Import(t.Context(), over, from(whole)); err != nil {
		t.Fatal(err)
	}
	if c := fresh.get().Candidate; c.Failed != "" || c.Attempt <= aborted.Candidate.Attempt {
		t.Errorf("imported over what was aborted: %+v, was %+v", c, aborted.Candidate)
	}
	for what, change := range map[string]func(r *script.Release){
		"not retained":   func(r *script.Release) { r.Candidate.Version.Number = 9 },
		"another digest": func(r *script.Release) { r.Candidate.Version.Digest[0] ^= 1 },
		"garbled reason": func(r *script.Release) { r.Candidate.Failed = "\x1b[2J" },
		"gone":           func(r *script.Release) { r.Candidate = nil },
		"deleted": func(r *script.Release) {
			*r = script.Release{Name: r.Name, Latest: r.Latest, Deleted: true, Candidate: r.Candidate}
		},
	} {
		items := altered(whole, func(_ []*registry.Source, rec *registry.Record) {
			candidate := *rec.Release.Candidate
			rec.Release.Candidate = &candidate
			change(&rec.Release)
			if rec.Release.Deleted {
				rec.Versions = nil
			}
		})
		if _, err := newBench(t).Import(t.Context(), importing(everybody), from(items)); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
}

// TestCountsLeaveNoLines: an agent that restarts all the time takes neither the history of a script
// from people, nor fills the audit trail.
func TestCountsLeaveNoLines(t *testing.T) {
	b, r := trying(t)
	r, err := b.advance(r.Revision, registry.Move{Step: 1, Threshold: 1})
	if err != nil {
		t.Fatal(err)
	}
	told := func() (lines, entries int) {
		history, err := b.History(t.Context(), everybody, route)
		audit, auditErr := b.Audit(t.Context(), registry.AuditRequest{By: everybody})
		if err != nil || auditErr != nil {
			t.Fatal(err, auditErr)
		}
		return len(history), len(audit.Entries)
	}
	lines, entries := told()
	for n := range uint64(3) {
		result, err := b.Advance(t.Context(), registry.AdvanceRequest{Name: route, At: r.Revision, Move: registry.Move{Counted: true}, Calls: 10 * (n + 1), FailedCalls: n})
		if err != nil {
			t.Fatal(err)
		}
		r = result.Release
	}
	if c := r.Candidate; c.Calls != 30 || c.FailedCalls != 2 {
		t.Errorf("the candidate is %+v", c)
	}
	if moreLines, moreEntries := told(); moreLines != lines || moreEntries != entries {
		t.Errorf("the history has %d lines more, and the audit trail %d", moreLines-lines, moreEntries-entries)
	}
}
