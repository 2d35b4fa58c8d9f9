package callring_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/callring"
	"github.com/scriptorium-dev/scriptorium/script"
)

var route = script.Name{Tenant: "acme", Script: "route"}

func of(text string) func() []byte { return func() []byte { return []byte(text) } }

// TestKeepsTheNewest: in order, not too often, and none that is too large.
func TestKeepsTheNewest(t *testing.T) {
	var r callring.Ring
	now := time.Unix(1, 0)
	for i := range 30 {
		r.Offer(route, now, of(fmt.Sprint(i)))
		r.Offer(route, now.Add(time.Millisecond), of("too soon"))
		now = now.Add(time.Second)
	}
	r.Offer(route, now, of(string(make([]byte, callring.MaxRecord+1))))
	got := r.Of(route)
	if len(got) != callring.PerScript || string(got[0]) != "29" || string(got[19]) != "10" {
		t.Errorf("%q", got)
	}
	if got := r.Of(script.Name{Tenant: "acme", Script: "other"}); got != nil {
		t.Errorf("of another script: %q", got)
	}
}

// TestIsBounded: many scripts with large records take no more memory than some, and the last ones have theirs.
func TestIsBounded(t *testing.T) {
	var r callring.Ring
	name := func(i int) script.Name { return script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)} }
	record := bytes.Repeat([]byte("x"), callring.MaxRecord)
	for i := range 2000 {
		r.Offer(name(i), time.Unix(int64(i), 0), func() []byte { return record })
	}
	total := 0
	for i := range 2000 {
		total += len(r.Of(name(i))) * len(record)
	}
	if total > 8<<20 || total < 7<<20 || len(r.Of(name(1999))) != 1 || len(r.Of(name(0))) != 0 {
		t.Errorf("it keeps %d bytes", total)
	}
}

// TestManyOffer: at once, and each record is whole.
func TestManyOffer(t *testing.T) {
	var r callring.Ring
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 1000 {
				r.Offer(route, time.Unix(int64(n), 0), of(fmt.Sprint(i, "-", n, "-", i)))
				for _, record := range r.Of(route) {
					var first, n, last int
					if _, err := fmt.Sscanf(string(record), "%d-%d-%d", &first, &n, &last); err != nil || first != last {
						t.Errorf("%q", record)
					}
				}
			}
		})
	}
	all.Wait()
}
