package tryout_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/tryout"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

func parts(id string, all ...string) (list []*eventv1.QueryContent) {
	for i, data := range all {
		list = append(list, &eventv1.QueryContent{Id: id, Number: uint32(i), Last: i == len(all)-1, Data: []byte(data)}) //nolint:gosec // few
	}
	return list
}

func query(data string) *eventv1.TryQuery {
	digest := sha256.Sum256([]byte(data))
	return &eventv1.TryQuery{Digest: digest[:], Size: int64(len(data))}
}

// TestContents: a query gets what came before it, or comes while it waits, whole and once.
func TestContents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tryout.Contents
		take := func(id string, q *eventv1.TryQuery, want string) {
			t.Helper()
			data, err := c.Take(t.Context(), id, q)
			if string(data) != want || (err == nil) != (want != "") || err != nil && script.KindOf(err) != script.Unavailable {
				t.Errorf("%s: %q, %v; want %q", id, data, err, want)
			}
		}
		for _, p := range parts("whole", "one ", "two") {
			c.Add(p)
			c.Add(p) // again
		}
		take("whole", query("one two"), "one two")
		take("whole", query("one two"), "") // it is gone

		list := parts("gap", "one ", "two ", "three")
		c.Add(list[0])
		c.Add(list[2])
		take("gap", query("one two three"), "")
		c.Add(parts("other", "evil")[0])
		take("other", query("good"), "")

		go func() {
			<-time.After(time.Second)
			c.Add(parts("late", "late")[0])
		}()
		take("late", query("late"), "late")
	})
}

// TestContentsAreBounded: contents whose queries never come go, and are few.
func TestContentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tryout.Contents
		for i := range 100 {
			c.Add(parts(fmt.Sprint(i), "x")[0])
		}
		if _, err := c.Take(t.Context(), "50", query("x")); script.KindOf(err) != script.Overloaded {
			t.Errorf("one that there was no room for: %v", err)
		}
		<-time.After(time.Minute)
		c.Add(parts("fresh", "x")[0])
		if data, err := c.Take(t.Context(), "fresh", query("x")); string(data) != "x" {
			t.Errorf("after the others have gone: %q, %v", data, err)
		}
		large := bytes.Repeat([]byte("x"), 1<<20)
		for n := range uint32(20) {
			c.Add(&eventv1.QueryContent{Id: "large", Number: n, Last: n == 19, Data: large})
		}
		if _, err := c.Take(t.Context(), "large", &eventv1.TryQuery{Size: 20 << 20}); script.KindOf(err) != script.Unavailable {
			t.Errorf("one that is too large: %v", err)
		}
	})
}

// TestPlaces: two tenants try a script at a time, and others wait for a moment.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p tryout.Places
		enter := func(tenant string) func() {
			t.Helper()
			leave, err := p.Enter(t.Context(), tenant)
			if err != nil {
				t.Fatalf("%s: %v", tenant, err)
			}
			return leave
		}
		refused := func(tenant string) {
			t.Helper()
			if _, err := p.Enter(t.Context(), tenant); script.KindOf(err) != script.Overloaded {
				t.Errorf("%s: %v", tenant, err)
			}
		}
		acme := enter("acme")
		refused("acme")
		shop := enter("shop")
		refused("other")
		go func() {
			<-time.After(time.Second)
			acme()
		}()
		other := enter("other")
		shop()
		other()
		enter("acme")()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if leave, err := p.Enter(ctx, "acme"); err != nil { // a free place needs no time
			t.Error(err)
		} else {
			leave()
		}
	})
}
