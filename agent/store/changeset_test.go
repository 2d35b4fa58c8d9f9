package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestContentsOfAChangeSet: what is staged is kept while the candidate is there, also across a
// restart, and removed with it unless the value has it then.
func TestContentsOfAChangeSet(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	large := strings.Repeat("large ", 20_000) // than what goes into the journal
	version := func(number uint64, src string) script.Version {
		return script.Version{Number: number, Digest: script.DigestOf([]byte(src)), Engine: "lua", Size: len(src)}
	}
	release := func(revision script.Revision, active int, set *script.Membership) script.Object {
		r := &script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: revision, Enabled: true, Latest: 2}
		r.Retained = []script.Version{version(1, "one"), version(2, "two")}
		r.Active = r.Retained[active-1]
		if set != nil {
			r.Candidate = &script.Candidate{Version: r.Retained[1], Attempt: 5, Set: set}
		}
		return script.Object{Release: r}
	}
	set := &script.Membership{Name: "cart-2", Attempt: 5, Scripts: []string{"route"}}
	for i, content := range []string{"small", large} {
		set.Values = append(set.Values, script.StagedValue{Key: string(rune('a' + i)), Digest: script.DigestOf([]byte(content)), Size: len(content)})
	}
	want := func(when string, contents map[string]bool) {
		t.Helper()
		for content, there := range contents {
			got, err := s.Source(script.DigestOf([]byte(content)))
			if (err == nil && string(got) == content) != there || s.Retains(script.DigestOf([]byte(content))) != there {
				t.Errorf("%s: %.10q is there: %v, want %v", when, content, err == nil, there)
			}
		}
	}
	save := func(revision script.Revision) {
		t.Helper()
		must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: revision}))
	}
	must(t, putAll(s, []script.Object{release(10, 1, set)}, "one", "two", "small", large))
	save(10)
	want("on its way", map[string]bool{"small": true, large: true})
	must(t, s.Close())
	s, loaded := open(t, dir)
	if len(loaded.Lost) != 0 || len(loaded.Releases) != 1 || !loaded.Releases[0].Candidate.Is(set) {
		t.Errorf("loaded is %+v, lost %v", loaded.Releases, loaded.Lost)
	}
	save(11)
	want("after a restart", map[string]bool{"small": true, large: true})
	// It goes live: one value has what was staged.
	must(t, putAll(s, []script.Object{release(12, 2, nil), value("acme/a", 12, "small")}))
	save(12)
	want("live", map[string]bool{"small": true, large: false, "two": true})
	// Another comes, and is given up.
	must(t, putAll(s, []script.Object{release(13, 1, set)}, large))
	save(13)
	want("the next one", map[string]bool{"small": true, large: true})
	must(t, putAll(s, []script.Object{release(14, 1, nil)}))
	save(14)
	want("given up", map[string]bool{"small": true, large: false})
	must(t, s.Close())
}

// TestAChangeSetIsWholeAfterACrash: wherever the process ends while it stores a large change set,
// the next one finds all of it, or nothing. Without a registry, it serves what it finds.
func TestAChangeSetIsWholeAfterACrash(t *testing.T) {
	t.Parallel()
	config := []byte(`{"a":"` + strings.Repeat("a", 64<<10) + `"}`)
	set := func(revision script.Revision) (list []script.Object) {
		for i := range 4 {
			r := release(fmt.Sprint("s", i), revision, "source")
			r.Settings.Config = config
			list = append(list, script.Object{Release: &r})
		}
		for i := range 2 {
			list = append(list, value(fmt.Sprint("acme/v", i), revision, "content"))
		}
		return list
	}
	before := inMemory(t)
	s, _ := openHastily(t, before)
	must(t, putAll(s, set(10), "source", "content"))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 10}))
	must(t, s.Close())
	for steps, stopped := 0, true; stopped; steps += 1 + skipped(uint64(steps)) {
		dir := inMemory(t)
		must(t, os.CopyFS(dir, os.DirFS(before)))
		disk := &faultyDisk{left: 1 << 30, torn: rand.New(rand.NewPCG(1, uint64(steps)))}
		s, _, err := store.OpenOn(dir, trusted, disk)
		must(t, err)
		disk.left = steps
		err = putAll(s, set(11))
		committed := err == nil
		if committed {
			err = s.SaveCursor(store.Cursor{Fleet: "f", Revision: 11})
		}
		stopped = err != nil
		must(t, s.Abandon())
		after, loaded := openHastily(t, dir)
		at := map[script.Revision]int{}
		for o := range loaded.Objects() {
			at[o.Revision()]++
		}
		if len(at) != 1 || committed && at[11] == 0 {
			t.Errorf("after %d steps, committed %v: so many objects are at each revision: %v", steps, committed, at)
		}
		if len(loaded.Lost) != 0 || loaded.Cursor.Revision < 10 || loaded.Cursor.Revision > 10 && at[11] == 0 {
			t.Errorf("after %d steps: at %v, with the cursor %+v, it lost %v", steps, at, loaded.Cursor, loaded.Lost)
		}
		must(t, after.Close())
		must(t, os.RemoveAll(dir))
	}
}

// TestChangesAfterALargeOne: a large change costs few syncs, and so do those after it. Each is
// there after a crash, with its source, whether the cursor was saved or not.
func TestChangesAfterALargeOne(t *testing.T) {
	for name, size := range map[string]int{"a change set": 1 << 20, "the largest": store.MaxAlone - 4<<10} {
		t.Run(name, func(t *testing.T) {
			dir, disk := filled(t), &countingDisk{}
			s, _, err := store.OpenOn(dir, trusted, disk)
			must(t, err)
			defer func() { must(t, s.Abandon()) }()
			syncsOf := func(what string, most int64, do func() error) {
				t.Helper()
				before := disk.syncs.Load()
				must(t, do())
				if got := disk.syncs.Load() - before; got > most {
					t.Errorf("%s is %d syncs, want %d at most", what, got, most)
				}
			}
			crashed := func(want string, cursor script.Revision, contents ...string) {
				t.Helper()
				dir, copied := t.TempDir(), dir
				must(t, os.CopyFS(dir, os.DirFS(copied)))
				after, loaded := open(t, dir)
				if got := releasesOf(loaded); got != want || loaded.Cursor.Revision != cursor || len(loaded.Lost) != 0 || loaded.Behind {
					t.Errorf("after a crash, %s at %+v, lost %v, behind %v; want %s at %d", got, loaded.Cursor, loaded.Lost, loaded.Behind, want, cursor)
				}
				for _, content := range contents {
					if got, err := after.Source(script.DigestOf([]byte(content))); err != nil || string(got) != content {
						t.Errorf("after a crash, the source is %.20q, %v", got, err)
					}
				}
				must(t, after.Close())
			}
			save := func(revision script.Revision) func() error {
				return func() error { return s.SaveCursor(store.Cursor{Fleet: "f", Revision: revision}) }
			}
			large := release("b", 40, "new b")
			large.Settings.Config = []byte(`"` + strings.Repeat("b", size) + `"`)
			syncsOf("the large change", 2, func() error { return put(large, "new b").to(s) })
			crashed("a@10 b@40 c@30", 30, "new b")
			// Another comes before the cursor: it waits until the files have the large one.
			must(t, put(release("a", 41, "new a"), "new a").to(s))
			crashed("a@41 b@40 c@30", 30, "new a", "new b")
			syncsOf("the cursor", 0, save(41))
			large.Revision = 42
			must(t, put(large).to(s))
			crashed("a@41 b@42 c@30", 41, "new a", "new b")
			must(t, save(42)())
			syncsOf("a small change", 1, func() error { return put(release("c", 43, "new c"), "new c").to(s) })
			syncsOf("its cursor", 0, save(43))
			crashed("a@41 b@42 c@43", 43, "new a", "new b", "new c")
		})
	}
}
