package registryclient_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// writes are all writes there are, of a script that has three versions, and a candidate, or is
// held at the second.
var writes = map[string]func(context.Context, *registryclient.Client, registryclient.Write) error{
	"Publish": func(ctx context.Context, c *registryclient.Client, w registryclient.Write) error {
		_, err := c.Publish(ctx, registryclient.PublishRequest{Name: route, Source: []byte("x"), Write: w})
		return err
	},
	"Pin": func(ctx context.Context, c *registryclient.Client, w registryclient.Write) error {
		_, _, err := c.Pin(ctx, route, 1, w)
		return err
	},
	"LiftHold": func(ctx context.Context, c *registryclient.Client, w registryclient.Write) error {
		_, _, err := c.LiftHold(ctx, route, w)
		return err
	},
	"Rollback": func(ctx context.Context, c *registryclient.Client, w registryclient.Write) error {
		_, _, err := c.Rollback(ctx, route, 0, w)
		return err
	},
	"SetEnabled": func(ctx context.Context, c *registryclient.Client, w registryclient.Write) error {
		_, _, err := c.SetEnabled(ctx, route, false, w)
		return err
	},
	"SetOwner": func(ctx context.Context, c *registryclient.Client, w registryclient.Write) error {
		_, _, err := c.SetOwner(ctx, route, "another", w)
		return err
	},
	"Steer": func(ctx context.Context, c *registryclient.Client, w registryclient.Write) error {
		_, _, err := c.Steer(ctx, route, registryclient.Promote, 0, w)
		return err
	},
	"Delete": func(ctx context.Context, c *registryclient.Client, w registryclient.Write) error {
		_, err := c.Delete(ctx, route, w)
		return err
	},
}

// Whatever is asked of a registry that cannot be reached is asked again.
func TestRetries(t *testing.T) {
	f := &fakeRegistry{}
	c := dial(t, serveTest(t, f))
	publish(t, c, route, "return 1")
	f.failures = 1
	if _, err := c.Get(t.Context(), route); err != nil || f.calls["Get"] != 2 {
		t.Errorf("Get: %d calls and %v, want two and no error", f.calls["Get"], err)
	}
	f.failures = 100
	if _, err := c.Get(t.Context(), route); script.KindOf(err) != script.Unavailable || f.calls["Get"] != 6 {
		t.Errorf("Get: %d more calls and %v, want four and Unavailable", f.calls["Get"]-2, err)
	}
}

// A write whose answers are lost happens once, and says that it did.
func TestWritesHappenOnce(t *testing.T) {
	for name, write := range writes {
		for _, guarded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, guarded %t", name, guarded), func(t *testing.T) {
				t.Parallel() // each waits before it sends again
				store := newTruth(t)
				if name != "LiftHold" { // a script that has a candidate is not held
					store.candidate(t)
				}
				w := ada
				if guarded {
					w.ExpectedRevision = store.release(t).Revision
				}
				before := store.revision(t)
				store.lose(2)
				if err := write(t.Context(), store.client, w); err != nil {
					t.Error(err)
				}
				if got := store.sent.Load(); got != 3 {
					t.Errorf("was sent %d times, want 3", got)
				}
				if got := store.revision(t); got != before+1 {
					t.Errorf("made %d changes, want 1", got-before)
				}
			})
		}
	}
}

// A write that the caller sends again itself happens once as well; two writes of
// two calls are two.
func TestRequestIDs(t *testing.T) {
	f := &fakeRegistry{}
	c := dial(t, serveTest(t, f))
	for range 4 {
		publish(t, c, route, "return 1")
	}
	again := ada
	again.RequestID = registryclient.NewRequestID()
	for range 3 {
		if r, _, err := c.Rollback(t.Context(), route, 0, again); err != nil || r.Active.Number != 3 {
			t.Fatalf("the same rollback: v%d, %v", r.Active.Number, err)
		}
	}
	for want := uint64(2); want > 0; want-- {
		if r, _, err := c.Rollback(t.Context(), route, want, ada); err != nil || r.Active.Number != want {
			t.Fatalf("another rollback: v%d, %v", r.Active.Number, err)
		}
	}
	again.RequestID = "short"
	if _, _, err := c.Rollback(t.Context(), route, 0, again); script.KindOf(err) != script.Invalid {
		t.Errorf("a short id: %v, want Invalid", err)
	}
}

// What stores nothing is not remembered.
func TestDryRunHasNoID(t *testing.T) {
	f := &fakeRegistry{}
	c := dial(t, serveTest(t, f))
	if _, err := c.Publish(t.Context(), registryclient.PublishRequest{Name: route, Source: []byte("x"), DryRun: true, Write: ada}); err != nil {
		t.Fatal(err)
	}
	if len(f.answers) != 0 {
		t.Errorf("the registry remembers %v", f.answers)
	}
}

// Every write says who it acts for.
func TestOwnerIsSent(t *testing.T) {
	for name, write := range writes {
		f := &fakeRegistry{}
		c := dial(t, serveTest(t, f))
		_ = write(t.Context(), c, registryclient.Write{Author: "ada", Owner: "team", Force: true, Note: "why", ExpectedRevision: 9})
		m, ok := f.last.(interface {
			GetOwner() string
			GetForce() bool
			GetRequestId() string
			GetNote() string
			GetExpectedRevision() int64
		})
		if !ok || m.GetOwner() != "team" || !m.GetForce() || len(m.GetRequestId()) < 16 || m.GetNote() != "why" || m.GetExpectedRevision() != 9 {
			t.Errorf("%s: sent %v", name, f.last)
		}
	}
}

func TestSetOwner(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{}))
	publish(t, c, route, "return 1")
	r, changed, err := c.SetOwner(t.Context(), route, "operator:acme/route", ada)
	if err != nil || !changed || r.Owner != "operator:acme/route" {
		t.Errorf("%+v, %t, %v", r, changed, err)
	}
	if _, _, err := c.SetOwner(t.Context(), route, "", ada); script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), "operator:acme/route") {
		t.Errorf("by a stranger: %v, want Denied", err)
	}
	forced := ada
	forced.Force = true
	if r, _, err := c.SetOwner(t.Context(), route, "", forced); err != nil || r.Owner != "" {
		t.Errorf("forced: %q, %v", r.Owner, err)
	}
}

func TestSteer(t *testing.T) {
	s := newTruth(t)
	if _, _, err := s.client.Steer(t.Context(), route, registryclient.Abort, 0, ada); script.KindOf(err) != script.NotFound {
		t.Errorf("without a candidate: %v, want NotFound", err)
	}
	s.candidate(t)
	if _, _, err := s.client.Steer(t.Context(), route, 0, 0, ada); script.KindOf(err) != script.Invalid {
		t.Errorf("nowhere: %v, want Invalid", err)
	}
	if _, _, err := s.client.Steer(t.Context(), route, registryclient.Promote, 3, ada); script.KindOf(err) != script.Conflict || !strings.Contains(err.Error(), "version 4, not 3") {
		t.Errorf("another candidate: %v, want a Conflict that names the one that there is", err)
	}
	why := ada
	why.Note = "slow"
	r, changed, err := s.client.Steer(t.Context(), route, registryclient.Abort, 4, why)
	if err != nil || !changed || !strings.HasSuffix(r.Candidate.Failed, ": slow") || r.Active.Number != 2 {
		t.Errorf("abort: %+v, %t, %v", r.Candidate, changed, err)
	}
	r, changed, err = s.client.Steer(t.Context(), route, registryclient.Retry, 0, ada)
	if err != nil || !changed || r.Candidate.Failed != "" || r.Candidate.Version.Number != 4 {
		t.Errorf("retry: %+v, %t, %v", r.Candidate, changed, err)
	}
	r, changed, err = s.client.Steer(t.Context(), route, registryclient.Promote, 0, ada)
	if err != nil || !changed || r.Candidate != nil || r.Active.Number != 4 {
		t.Errorf("promote: %+v, %t, %v", r, changed, err)
	}
	if lines, err := s.client.History(t.Context(), route); err != nil || lines[0].Change != script.ChangePromote || lines[0].Candidate != 0 || lines[1].Candidate != 4 {
		t.Errorf("history: %+v, %v", lines, err)
	}
}
