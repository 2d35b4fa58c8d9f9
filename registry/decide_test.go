package registry

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	decideName  = script.Name{Tenant: "acme", Script: "route"}
	decideWrite = Write{Name: decideName, Author: "ann", Note: "why"}
	decideNow   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// numbered is version n, whose source is its number.
func numbered(n uint64) script.Version {
	return script.Version{Number: n, Digest: script.DigestOf(fmt.Append(nil, n)), Engine: "lua"}
}

// state makes a release at revision 7 of its active version and those retained,
// the last of which is the latest.
func state(active uint64, pinned bool, retained ...uint64) script.Release {
	r := script.Release{Name: decideName, Revision: 7, Active: numbered(active), Pinned: pinned, Enabled: true}
	for _, n := range retained {
		r.Retained = append(r.Retained, numbered(n))
		r.Latest = n
	}
	return r
}

// held is r held at its active version, by bo; publishers declare that version, or the latest
// with 0.
func held(declared uint64, r script.Release) script.Release {
	r.Pinned, r.Hold = true, &script.Hold{Author: "bo", Note: "carts lost", Since: decideNow.Add(-time.Hour), Declared: declared}
	return r
}

// lift has a publish lift the hold.
func lift(p *publication) { p.liftHold = true }

func publishing(source uint64, change func(*publication)) func(script.Release) (decision, error) {
	p := publication{version: numbered(source), source: fmt.Append(nil, source)}
	p.version.Number = 0
	if change != nil {
		change(&p)
	}
	return asRecorded(func(cur script.Release) (decision, error) {
		return decidePublish(cur, p, knownSpecs, decideWrite, moment{now: decideNow})
	})
}

// asRecorded decides as the registry does, which records first what versions run with.
func asRecorded(do func(script.Release) (decision, error)) func(script.Release) (decision, error) {
	return func(cur script.Release) (decision, error) {
		cur, _ = recorded(cur)
		return do(cur)
	}
}

// knownSpecs are those of the tests.
func knownSpecs(cur script.Release, v script.Version) (script.Spec, error) {
	for _, s := range []script.Spec{cur.Settings.Spec, {}, testsOnly.Spec, stepsOnly.Spec, both.Spec} {
		if v.With(s).Spec == v.Spec {
			return s, nil
		}
	}
	return script.Spec{}, fmt.Errorf("nobody knows what version %d runs with", v.Number)
}

func TestDecide(t *testing.T) {
	zero, two := uint64(0), uint64(2)
	off := false
	limit := script.Settings{HistoryLimit: 2}
	pin, release := pinning, releasing
	configure := configuring(3, limit)
	remove := func(cur script.Release) (decision, error) {
		return decideDelete(cur, decideWrite, moment{now: decideNow})
	}
	limited := func(r script.Release) script.Release { r.Settings = limit; return r }
	never := script.Release{Name: decideName}
	gone := script.Release{Name: decideName, Revision: 7, Latest: 4, Deleted: true}

	for _, test := range []struct {
		name string
		cur  script.Release
		do   func(script.Release) (decision, error)
		want string // change, active, pinned, latest, retained, dropped; or the kind of error
	}{
		{"first", never, publishing(1, nil), "publish 1 false 1 [1] []"},
		{"first, pinned elsewhere", never, publishing(1, func(p *publication) { p.pin = &two }), "NOTFOUND"},
		{"next", state(1, false, 1), publishing(2, nil), "publish 2 false 2 [1 2] []"},
		{"same", state(2, false, 1, 2), publishing(2, nil), "unchanged"},
		{"same as an old one", state(2, false, 1, 2), publishing(1, nil), "publish 3 false 3 [1 2 3] []"},
		{"next while pinned", state(1, true, 1, 2), publishing(3, nil), "publish 1 true 3 [1 2 3] []"},
		{"next, pinned to itself", state(1, false, 1), publishing(2, func(p *publication) { p.pin = &two }), "publish 2 true 2 [1 2] []"},
		{"same, unpinned", state(1, true, 1, 2), publishing(2, func(p *publication) { p.pin = &zero }), "unpin 2 false 2 [1 2] []"},
		{"same, disabled", state(2, false, 1, 2), publishing(2, func(p *publication) { p.enabled = &off }), "disable 2 false 2 [1 2] []"},
		{"same, configured", state(2, false, 1, 2), publishing(2, func(p *publication) { p.settings = &limit }), "configure 2 false 2 [1 2] []"},
		{"over the limit", limited(state(2, false, 1, 2)), publishing(3, nil), "publish 3 false 3 [2 3] [1]"},
		{"over the limit, pinned", limited(state(1, true, 1, 2)), publishing(3, nil), "publish 1 true 3 [1 3] [2]"},
		{"after a delete", gone, publishing(4, nil), "publish 5 false 5 [5] []"},

		{"pin", state(3, false, 1, 2, 3), pin(2), "pin 2 true 3 [1 2 3] []"},
		{"pin the active", state(3, false, 1, 2, 3), pin(3), "pin 3 true 3 [1 2 3] []"},
		{"pin what the manifest pins", state(2, true, 1, 2, 3), pin(2), "pin 2 true 3 [1 2 3] []"},
		{"pin what is dropped", state(3, false, 2, 3), pin(1), "NOTFOUND"},
		{"pin what was deleted", gone, pin(1), "NOTFOUND"},
		{"hold", state(3, false, 1, 2, 3), pin(0), "hold 3 true 3 [1 2 3] []"},
		{"hold what the manifest pins", state(2, true, 1, 2, 3), pin(0), "hold 2 true 3 [1 2 3] []"},
		{"hold what was deleted", gone, pin(0), "NOTFOUND"},
		{"pin elsewhere what is held", held(0, state(1, true, 1, 2, 3)), pin(2), "pin 2 true 3 [1 2 3] []"},
		{"next while held", held(0, state(1, true, 1, 2)), publishing(3, nil), "publish 1 true 3 [1 2 3] []"},
		{"next while held, unpinned", held(0, state(1, true, 1, 2)), publishing(3, func(p *publication) { p.pin = &zero }), "publish 1 true 3 [1 2 3] []"},
		{"next while held, pinned", held(0, state(1, true, 1, 2)), publishing(3, func(p *publication) { p.pin = &two }), "publish 1 true 3 [1 2 3] []"},
		{"same while held, unpinned", held(0, state(1, true, 1, 2)), publishing(2, func(p *publication) { p.pin = &zero }), "unchanged"},
		{"same while held, pinned", held(0, state(1, true, 1, 2)), publishing(2, func(p *publication) { p.pin = &two }), "configure 1 true 2 [1 2] []"},
		{"same while held, pinned to what is not there", held(0, state(1, true, 1, 2)), publishing(2, func(p *publication) { p.pin = new(uint64(9)) }), "NOTFOUND"},
		{"same while held, disabled", held(0, state(1, true, 1, 2)), publishing(2, func(p *publication) { p.enabled = &off }), "disable 1 true 2 [1 2] []"},
		{"over the limit while held", limited(held(2, state(1, true, 1, 2, 3))), publishing(4, nil), "publish 1 true 4 [1 2 4] [3]"},
		{"same, lifted", held(0, state(1, true, 1, 2)), publishing(2, lift), "release 2 false 2 [1 2] []"},
		{"same, lifted where nobody holds", state(2, false, 1, 2), publishing(2, lift), "unchanged"},
		{"release", held(0, state(1, true, 1, 2, 3)), release, "release 3 false 3 [1 2 3] []"},
		{"release to the manifest's pin", held(2, state(1, true, 1, 2, 3)), release, "release 2 true 3 [1 2 3] []"},
		{"release again", state(3, false, 1, 2, 3), release, "unchanged"},
		{"release what the manifest pins", state(1, true, 1, 2, 3), release, "NOTFOUND"},
		{"release over the limit", limited(held(0, state(1, true, 1, 2, 3))), release, "release 3 false 3 [2 3] [1]"},
		{"roll back", state(3, false, 1, 2, 3), rollingBack(0), "rollback 2 true 3 [1 2 3] []"},
		{"roll back over a gap", state(9, false, 1, 4, 9), rollingBack(0), "rollback 4 true 9 [1 4 9] []"},
		{"roll back to one", state(3, false, 1, 2, 3), rollingBack(1), "rollback 1 true 3 [1 2 3] []"},
		{"roll back to what the manifest pins", state(1, true, 1, 2, 3), rollingBack(1), "rollback 1 true 3 [1 2 3] []"},
		{"roll back from the first", state(1, true, 1, 2, 3), rollingBack(0), "NOTFOUND"},
		{"roll back forwards", state(1, true, 1, 2, 3), rollingBack(2), "INVALID"},
		{"configure", state(3, false, 1, 2, 3), configure, "configure 3 false 3 [2 3] [1]"},
		{"configure again", limited(state(3, false, 2, 3)), configure, "unchanged"},
		{"delete", state(3, true, 1, 2, 3), remove, "delete 0 false 3 [] [1 2 3]"},
		{"delete again", gone, remove, "NOTFOUND"},
		{"delete what never was", never, remove, "NOTFOUND"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := fmt.Sprintf("%+v", test.cur)
			d, err := test.do(test.cur)
			if got := describe(d, err); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if after := fmt.Sprintf("%+v", test.cur); after != before {
				t.Errorf("the release that was decided on is another now:\n%s\n%s", before, after)
			}
			if err != nil || !d.changed {
				return
			}
			e := d.commit.Entry
			if d.commit.Guard != test.cur.Revision || e.Author != "ann" || e.Note != "why" || e.Version != d.release.Active.Number ||
				e.Digest != d.release.Active.Digest || !d.release.ChangedAt.Equal(decideNow) || !reflect.DeepEqual(d.commit.Release, d.release) {
				t.Errorf("commit: %+v", d.commit)
			}
			if made := e.Change == script.ChangePublish; made != (d.commit.Publish != nil) || made != (d.commit.Source != nil) {
				t.Errorf("%s carries version %v and %d bytes of source", e.Change, d.commit.Publish, len(d.commit.Source))
			}
		})
	}
}

func describe(d decision, err error) string {
	if err != nil {
		return string(script.KindOf(err))
	}
	if !d.changed {
		return "unchanged"
	}
	numbers := []uint64{}
	for _, v := range d.release.Retained {
		numbers = append(numbers, v.Number)
	}
	return fmt.Sprintf("%s %d %v %d %v %v", d.commit.Entry.Change, d.release.Active.Number, d.release.Pinned, d.release.Latest, numbers, d.commit.Drop)
}
