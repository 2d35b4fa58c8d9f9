package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// recording is a recorder that runs.
type recording struct {
	*timeline.Recorder
	t     *testing.T
	store *counted
	stop  func()
}

func startRecording(t *testing.T) *recording {
	t.Helper()
	r := &recording{t: t, store: &counted{Store: memstore.New()}}
	r.Recorder = timeline.NewRecorder(timeline.Config{Store: r.store, Log: quiet()})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	r.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

// records returns all that are stored, newest first.
func (r *recording) records() (all []timeline.Record) {
	r.t.Helper()
	page, err := r.store.Records(r.t.Context(), timeline.Query[timeline.Record]{Limit: 100_000, Wants: func(*timeline.Record) bool { return true }})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range page.Items {
		all = append(all, page.Items[i].Of)
	}
	return all
}

// happened is how many notes the record stands for.
func happenedIn(r *timeline.Record) uint64 { return max(1, r.Count) }

func lost(agent string) timeline.Note {
	return timeline.Note{Type: script.EventAgent, What: "lost", Subject: agent}
}

func refused(tenant string) timeline.Note {
	return timeline.Note{Type: script.EventQuota, What: "refused", Tenant: tenant, About: "writes", Text: "writes: 20 a second"}
}

// TestOneNote is a record within seconds.
func TestOneNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began := startRecording(t), time.Now()
		r.Note(timeline.Note{Type: script.EventAgent, What: "lost", Subject: "edge-1\x1b[2J", Text: strings.Repeat("x", 10_000)})
		<-time.After(3 * time.Second)
		all := r.records()
		if len(all) != 1 {
			t.Fatalf("%d records, want 1", len(all))
		}
		e := all[0]
		if !e.Time.Equal(began) || !e.Since.IsZero() || e.Count != 0 || fmt.Sprint(e.Subjects) != "[edge-1 [2J]" || len(e.Text) > 1024 || e.What != "lost" {
			t.Errorf("%+v", e)
		}
	})
}

// TestAPartition: of 10,000 agents that are lost within ten seconds there are a few records, with how many and
// the names of the first.
func TestAPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRecording(t)
		for i := range 10_000 {
			r.Note(lost(fmt.Sprint("edge-", i)))
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Minute)
		all, n := r.records(), uint64(0)
		for i := range all {
			n += happenedIn(&all[i])
			if len(all[i].Subjects) != script.MaxEventSubjects || all[i].Since.After(all[i].Time) {
				t.Errorf("%+v", all[i])
			}
		}
		if n != 10_000 || len(all) > 3 {
			t.Errorf("%d records of %d agents, want 3 at most of 10000", len(all), n)
		}
		if first := all[len(all)-1]; first.Subjects[0] != "edge-0" {
			t.Errorf("the first names are %v", first.Subjects)
		}
	})
}

// TestFloods: however much happens for however long, the store gets a bounded number of writes, each note is
// counted in a record, and what is rare is told soon.
func TestFloods(t *testing.T) {
	const lasts = 20 * time.Minute
	for name, flood := range map[string]func(i int) []timeline.Note{
		"an agent flaps":                  func(int) []timeline.Note { return []timeline.Note{lost("edge-1")} },
		"a tenant meets its quota":        func(int) []timeline.Note { return []timeline.Note{refused("acme"), refused("acme")} },
		"five thousand tenants meet them": func(i int) []timeline.Note { return []timeline.Note{refused(fmt.Sprint("t", i%5000))} },
		"agents with ever new names":      func(i int) []timeline.Note { return []timeline.Note{lost(fmt.Sprint("edge-", i))} },
		"all at once": func(i int) []timeline.Note {
			return []timeline.Note{lost(fmt.Sprint("edge-", i)), refused(fmt.Sprint("t", i%300)), {Type: script.EventDrift, What: "found", Subject: "edge-1"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, notes := startRecording(t), uint64(0)
				for i := range int(lasts / (10 * time.Millisecond)) {
					for _, n := range flood(i) {
						r.Note(n)
						notes++
					}
					<-time.After(10 * time.Millisecond)
				}
				r.Note(timeline.Note{Type: script.EventKey, What: "signing", Text: "rare"})
				<-time.After(10 * time.Second)
				if all := r.records(); !strings.Contains(texts(eventsOf(all)), "rare") {
					t.Error("what is rare is not told in ten seconds")
				}
				r.stop()
				stats := r.Stats()
				records, noted, merged := uint64(0), uint64(0), uint64(0)
				for _, of := range timeline.Recorded() {
					records, noted, merged = records+stats.Records[of], noted+stats.Notes[of], merged+stats.Merged[of]
					// A burst, one each four seconds, and what is left at the end.
					if most := uint64(64 + (lasts+10*time.Second)/(4*time.Second) + 129); stats.Records[of] > most {
						t.Errorf("%d records of %s in 20 minutes, want %d at most", stats.Records[of], of, most)
					}
				}
				if puts := r.store.writes(); puts > int(lasts/time.Second)+20 {
					t.Errorf("%d writes in 20 minutes", puts)
				}
				if noted != notes+1 {
					t.Errorf("%d notes are counted, want %d", noted, notes+1)
				}
				if records < timelineKept { // else some are removed again
					n := uint64(0)
					all := r.records()
					for i := range all {
						n += happenedIn(&all[i])
					}
					if n != notes+1 {
						t.Errorf("records have %d notes, want %d", n, notes+1)
					}
				}
				t.Logf("%d notes: %d records in %d writes, %d merged", notes, records, r.store.writes(), merged)
			})
		})
	}
}

const timelineKept = 1000

func eventsOf(records []timeline.Record) (events []script.Event) {
	for i := range records {
		events = append(events, records[i].Event)
	}
	return events
}

// TestAStoreThatFails: while nothing can be stored, notes are counted together, and the store is not asked all the
// time. What is left at the end is counted as dropped.
func TestAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRecording(t)
		r.store.breaks(errors.New("etcd is full"))
		began := time.Now()
		for i := range 10_000 {
			r.Note(lost(fmt.Sprint("edge-", i)))
			<-time.After(100 * time.Millisecond)
		}
		if puts := r.store.writes(); puts > 60 {
			t.Errorf("%d attempts in 1000 seconds", puts)
		}
		r.store.breaks(nil)
		<-time.After(2 * time.Minute)
		all := r.records()
		if len(all) != 1 || all[0].Count != 10_000 || all[0].Subjects[0] != "edge-0" || !all[0].Since.Equal(began) {
			t.Errorf("%d records, the first of %d: %v", len(all), all[0].Count, all[0].Subjects)
		}
		r.store.breaks(errors.New("etcd is full"))
		for range 7 {
			r.Note(lost("edge-1"))
		}
		r.stop()
		if dropped := r.Stats().Dropped[script.EventAgent]; dropped != 7 {
			t.Errorf("%d are dropped, want 7", dropped)
		}
	})
}

// TestTheLastNotes are stored when the registry stops.
func TestTheLastNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRecording(t)
		for i := range 100 {
			r.Note(refused(fmt.Sprint("t", i)))
		}
		r.stop()
		if all := r.records(); len(all) != 100 {
			t.Errorf("%d records, want 100", len(all))
		}
	})
}

// TestKeyRecord: keys are recorded when they are others than those on record, whoever recorded those.
func TestKeyRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRecording(t)
		want := func(when string, want ...string) {
			t.Helper()
			var got []string
			for _, e := range r.records() {
				got = append(got, e.Text)
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		look := func(k *timeline.KeyRecord, keys timeline.Keys) {
			t.Helper()
			<-time.After(time.Second)
			if err := k.Look(t.Context(), keys); err != nil {
				t.Fatal(err)
			}
		}
		none := timeline.NewKeyRecord(r.Recorder, "publishers")
		look(none, timeline.Keys{})
		want("there never were any")
		k := timeline.NewKeyRecord(r.Recorder, "signing")
		look(k, timeline.Keys{"signing key": "one"})
		look(k, timeline.Keys{"signing key": "one"})
		first := "signing key: one (none was on record)"
		want("the first", first)
		next := timeline.NewKeyRecord(r.Recorder, "signing") // of another replica, or after a restart
		look(next, timeline.Keys{"signing key": "one"})
		want("the same", first)
		look(next, timeline.Keys{"signing key": "two", "former keys": "one"})
		second := "former keys: one, before none; signing key: two, before one"
		want("another", second, first)
		look(next, timeline.Keys{})
		third := "former keys: none, before one; signing key: none, before two"
		want("none any more", third, second, first)

		many := timeline.Keys{}
		for i := range 1000 {
			many[fmt.Sprint("tenant-", i)] = "SHA256:abc"
		}
		look(none, many)
		if e := r.records()[0]; e.Count != 1000 || len(e.Subjects) != script.MaxEventSubjects || len(e.Text) > 1024 || len(e.State) > 2048 {
			t.Errorf("many keys: %+v", e)
		}
		many["tenant-7"] = "SHA256:def"
		look(none, many)
		if e := r.records()[0]; e.Text != "tenant-7: SHA256:def, before SHA256:abc" {
			t.Errorf("one of many: %+v", e)
		}
		later := timeline.NewKeyRecord(r.Recorder, "publishers")
		many["tenant-7"] = "SHA256:ghi"
		look(later, many)
		if e := r.records()[0]; e.Text != "they are not those on record, which are too many to compare" {
			t.Errorf("one of many, after a restart: %+v", e)
		}
	})
}
