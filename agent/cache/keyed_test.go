package cache_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestKeyBuckets holds what docs/protocol.md says of the bucket of a key: agents of all editions have
// to agree. Another implementation of XXH64 made the figures.
func TestKeyBuckets(t *testing.T) {
	for _, c := range []struct {
		salt, key string
		want      uint32
	}{
		{"acme/route@8", "ann", 2409234937},
		{"acme/route@8", "bob", 828262391},
		{"acme/route@9", "ann", 574320524},
		{"acme/spring#12", "ann", 4080127116},
		{"acme/route@8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", 1182805718},
		{"acme/route@8", "ä", 4024042060},
	} {
		if got := cache.KeyBucket(c.salt, c.key); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.salt, c.key, got, c.want)
		}
	}
}

// TestSharesOfKeys: a step takes about its percentage of the keys, a later step takes them too, and
// another version takes others.
func TestSharesOfKeys(t *testing.T) {
	const keys = 100_000
	in := func(salt string, percent, i int) bool {
		return cache.KeyBucket(salt, fmt.Sprint("user-", i)) < script.KeyThreshold(percent)
	}
	for _, percent := range []int{1, 10, 50, 99} {
		got, both := 0, 0
		for i := range keys {
			if !in("acme/route@8", percent, i) {
				continue
			}
			got++
			if percent < 99 && !in("acme/route@8", percent+1, i) {
				t.Fatalf("user-%d is in at %d %% and not at more", i, percent)
			}
			if in("acme/route@9", percent, i) {
				both++
			}
		}
		expect := func(what string, got int, share float64) {
			t.Helper()
			if want := keys * share; math.Abs(float64(got)-want) > 6*math.Sqrt(want*(1-share)) {
				t.Errorf("%d %%: %d of %d keys are %s, want about %v", percent, got, keys, what, want)
			}
		}
		share := float64(percent) / 100
		expect("in", got, share)
		expect("in with the next version, too", both, share*share)
	}
}

// byKey returns a release whose candidate takes so many percent of the keys.
func byKey(percent int) script.Release {
	r := withCandidate(3, 0)
	r.Settings.Rollout = script.Plan{Key: "request.headers.x-user", MaxErrorIncrease: new(1.0)}
	r.Candidate.Step = 1
	r.Candidate.Select(script.Step{By: script.ByKey}, script.KeyThreshold(percent))
	return r
}

func TestWhatRunsByKey(t *testing.T) {
	r := byKey(10)
	live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
	other := cache.NewReleaseOn(script.Agent{Name: "m"}, r)
	// What a tenant's own process, which gets it from the agent's table, makes of it.
	copied := cache.NewReleaseOn(script.Agent{Name: "n"}, live.Script())
	runs := map[uint64]int{}
	for i := range 1000 {
		key := fmt.Sprint(i)
		got := live.For(key).Runs.Number
		if other.For(key).Runs.Number != got || copied.For(key).Runs.Number != got {
			t.Fatalf("key %d runs version %d here, and another elsewhere", i, got)
		}
		runs[got]++
	}
	if runs[2] < 50 || runs[2] > 150 || runs[1]+runs[2] != 1000 {
		t.Errorf("of 1,000 keys %v run each version", runs)
	}
	if live.For("") != live || live.Runs.Number != 1 || live.KeySource() != "request.headers.x-user" || copied.KeySource() != live.KeySource() {
		t.Errorf("without a key version %d runs, and keys come from %q and %q", live.For("").Runs.Number, live.KeySource(), copied.KeySource())
	}
	if live.Fingerprint() != wire.Fingerprint(r) {
		t.Error("it has another fingerprint than the registry")
	}
	live.Split.Limits.Instructions++
	if live.Fingerprint() == wire.Fingerprint(r) {
		t.Error("a fault in memory of the candidate does not show")
	}
	if n := testing.AllocsPerRun(100, func() { live.For("6ba7b810-9dad-11d1-80b4-00c04fd430c8") }); n > 0 {
		t.Errorf("choosing allocates %v times", n)
	}
	r.Candidate.Failed, r.Candidate.Keys = "no", nil
	if cache.NewReleaseOn(script.Agent{Name: "n"}, r).Split != nil {
		t.Error("a candidate that was given up runs")
	}
}

// TestCountsByKey: both versions are counted, from step to step, also when the agent comes to run the
// candidate for all calls.
func TestCountsByKey(t *testing.T) {
	table := cache.NewTable()
	update := func(r script.Release) *cache.Release {
		live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
		table.Update([]*cache.Release{live}, nil)
		return live
	}
	counted := func(when string, live *cache.Release, want string) {
		t.Helper()
		got := "none"
		if c := live.OfCandidate().Calls; c != nil {
			calls, failed := c.Read()
			got = fmt.Sprintf("%d/%d", failed, calls)
		}
		if n := live.OfCandidate().StepCalls.Read(); n != nil {
			got += fmt.Sprintf(" %d/%d", n.FailedCalls, n.Calls())
		}
		if b := live.Besides(); b != nil {
			if n := b.Read(); n != nil {
				got += fmt.Sprintf(" beside %d/%d", n.FailedCalls, n.Calls())
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	r := byKey(10)
	live := update(r)
	live.Split.Note(script.Script, time.Millisecond)
	live.Note("", time.Millisecond)
	live.Note("", time.Millisecond)
	counted("at first", live, "1/1 1/1 beside 0/2")
	r.Revision++
	live = update(r)
	counted("after a change that is none", live, "1/1 1/1 beside 0/2")
	live.NoteDeath()
	counted("when its process died", live, "2/2 2/2 beside 0/2")

	r.Revision++
	candidate := *r.Candidate
	r.Candidate = &candidate
	r.Candidate.Step = 2
	r.Candidate.Select(script.Step{By: script.ByKey}, script.KeyThreshold(20))
	live = update(r)
	counted("in the next step", live, "2/2")
	live.Split.Note("", time.Millisecond)
	counted("after a call there", live, "2/3 0/1")

	r.Revision++
	candidate.Step, candidate.Threshold = 3, everywhere
	r.Candidate = &candidate
	live = update(r)
	if live.Split != nil || live.Runs.Number != 2 || live.For("x") != live {
		t.Error("an agent of a step by agents does not run the candidate for all keys")
	}
	counted("for all keys", live, "2/3")
}

// TestCountsAfterAShadow: an agent that a step after the shadow does not take goes on with its counts when a later step
// takes it. The registry believes no process that counts less than before.
func TestCountsAfterAShadow(t *testing.T) {
	table := cache.NewTable()
	step := func(step int, take func(c *script.Candidate)) *cache.Release {
		r := withCandidate(3, 0)
		r.Revision += script.Revision(step)
		r.Settings.Rollout = script.Plan{Steps: []script.Step{{By: script.ByShadow, Percent: 5}, {Percent: 10}, {Percent: 50}}}
		r.Candidate.Step = step
		take(r.Candidate)
		live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
		table.Update([]*cache.Release{live}, nil)
		return live
	}
	live := step(1, func(c *script.Candidate) { c.Select(script.Step{By: script.ByShadow}, script.ShadowThreshold(5)) })
	live.Split.Note("", time.Millisecond)
	live.Split.Note(script.Script, time.Millisecond)
	if live = step(2, func(c *script.Candidate) { c.Threshold = 1 }); live.OfCandidate().Calls != nil {
		t.Fatal("the candidate runs in a step that does not take the agent")
	}
	live = step(3, func(c *script.Candidate) { c.Threshold = everywhere })
	live.Note("", time.Millisecond)
	if calls, failed := live.Calls.Read(); calls != 3 || failed != 1 {
		t.Errorf("%d of %d calls failed, want 1 of 3", failed, calls)
	}
}

func BenchmarkFor(b *testing.B) {
	live := cache.NewReleaseOn(script.Agent{Name: "n"}, byKey(10))
	b.ReportAllocs()
	for b.Loop() {
		live.For("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	}
}

// TestManyCandidatesByKey: scripts that nobody calls hold no counts of calls. A tenant may have thousands.
func TestManyCandidatesByKey(t *testing.T) {
	const scripts, most = 2000, 4 << 10
	table := cache.NewTable()
	before := memtest.Heap()
	for i := range scripts {
		candidate := &script.Candidate{Version: script.Version{Number: 2}, Attempt: 1, Step: 1}
		candidate.Select(script.Step{By: script.ByKey}, script.KeyThreshold(10))
		live := cache.NewReleaseOn(script.Agent{Name: "n"}, script.Release{
			Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s-", i)}, Active: script.Version{Number: 1}, Candidate: candidate,
			Settings: script.Settings{Rollout: script.Plan{MaxErrorIncrease: new(1.0)}},
		})
		table.Update([]*cache.Release{live}, nil)
	}
	if got := (memtest.Heap() - before) / scripts; got > most {
		t.Errorf("%d bytes a script, want at most %d", got, most)
	}
	live := table.Get("acme/s-0")
	if live.StepCalls.Read() != nil || live.StepCalls.Take() != nil {
		t.Error("there are calls")
	}
	live.Note("", time.Millisecond)
	live.Note(script.Script, time.Millisecond)
	if got := live.Besides().Take(); got == nil || got.Calls() != 2 || got.FailedCalls != 1 {
		t.Errorf("counted are %+v", got)
	}
}
