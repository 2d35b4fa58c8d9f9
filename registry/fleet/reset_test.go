package fleet_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestResetOfCandidates: after a restore of etcd, revisions may be those of other releases
// than before, with candidates or without.
func TestResetOfCandidates(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after func(*bench) script.Release
		want          int // candidacies
	}{
		{"one where none was", (*bench).plain, (*bench).tested, 1},
		{"none where one was", (*bench).tested, (*bench).plain, 0},
		{"another one", (*bench).tested, (*bench).retested, 1},
	} {
		for _, id := range []string{fleetID, "another"} {
			t.Run(test.name+" of "+id, func(t *testing.T) {
				b := newBench(t)
				b.reset(fleetID, 11, test.before(b))
				b.pass(time.Second)
				r := test.after(b)
				b.reset(id, 11, r)
				if s := b.route(); (s.Trials != nil) != (test.want == 1) {
					t.Errorf("status: %+v", s)
				}
				list := b.Candidacies()
				if len(list) != test.want {
					t.Fatalf("%d candidacies, want %d", len(list), test.want)
				}
				if test.want == 1 && !reflect.DeepEqual(list[0].Release.Candidate, r.Candidate) {
					t.Errorf("candidate %+v, want %+v", *list[0].Release.Candidate, *r.Candidate)
				}
				if n := b.CandidateCounts(); n.Testing != test.want || n.RollingOut+n.Failed != 0 {
					t.Errorf("counts: %+v", n)
				}
			})
		}
	}
}

func (b *bench) plain() script.Release    { return b.release(route, 11) }
func (b *bench) tested() script.Release   { return b.candidate(route, 11, 11, 0) }
func (b *bench) retested() script.Release { return b.candidate(route, 11, 9, 0) }
