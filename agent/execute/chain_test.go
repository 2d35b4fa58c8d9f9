package execute_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// on makes a release run on an event.
func on(event string, priority int, match script.Match) func(*script.Release) {
	return func(r *script.Release) {
		r.Settings.Trigger = script.Trigger{Event: event, Priority: priority, Match: match}
	}
}

func attributesOf(path string) *script.Attributes {
	attributes := script.AttributesOf("GET", "shop.example", path, func(string) []string { return nil })
	return &attributes
}

func TestChain(t *testing.T) {
	n := newNode(t, 1<<20, 2, 2)
	chain := func(event, path string) string {
		links, err := n.Chain(nil, "acme", event, attributesOf(path), &gateway.Call{})
		if err != nil {
			return string(script.KindOf(err))
		}
		var names []string
		for _, l := range links {
			names = append(names, fmt.Sprintf("%s@%d", l.Script, l.Version))
		}
		return strings.Join(names, " ")
	}
	if _, err := n.Chain(nil, "acme", "pre", attributesOf("/"), &gateway.Call{}); script.KindOf(err) != script.NotFound || !strings.Contains(err.Error(), "has no scripts") {
		t.Errorf("an agent without scripts: %v", err)
	}
	n.publish("a", on("pre", 0, script.Match{}), "one", "two")
	n.publish("b", on("pre", 5, script.Match{PathPrefixes: []string{"/cart"}}), "one")
	for i := range script.MaxChain {
		n.publish(fmt.Sprint("full-", i), on("full", 0, script.Match{}), "one")
	}
	for i := range script.MaxEventLive + 1 {
		n.publish(fmt.Sprint("over-", i), on("over", 0, script.Match{PathPrefixes: []string{"/never"}}), "one")
	}
	for _, tt := range []struct{ event, path, want string }{
		{"pre", "/cart", "acme/b@1 acme/a@2"},
		{"pre", "/", "acme/a@2"},
		{"post", "/", "NOTFOUND"},
		{"over", "/", "LIMIT"},
	} {
		if got := chain(tt.event, tt.path); got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.event, tt.path, got, tt.want)
		}
	}
	if links, err := n.Chain(nil, "acme", "full", attributesOf("/"), &gateway.Call{}); err != nil || len(links) != script.MaxChain {
		t.Errorf("a full chain: %d, %v", len(links), err)
	}
	n.publish("one-more", on("full", 0, script.Match{PathPrefixes: []string{"/x"}}), "one")
	if got := chain("full", "/"); len(strings.Fields(got)) != script.MaxChain {
		t.Errorf("one that does not match counts: %s", got)
	}
	if got := chain("full", "/x"); got != "LIMIT" {
		t.Errorf("one too many: %s", got)
	}
}

// TestAChainIsOfOneMoment: whatever changes between its scripts, all are those that it began with. In
// each change, the scripts are of one edition, or gone together.
func TestAChainIsOfOneMoment(t *testing.T) {
	n := newNode(t, 1<<20, 2, 1000)
	const scripts, editions, callers = 4, 300, 4
	edition := func(number int) (put []*cache.Release) {
		source := fmt.Sprint("edition ", number)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.sources[script.DigestOf([]byte(source))] = []byte(source)
		for i := range scripts {
			r := script.Release{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: script.Revision(number), Enabled: number%7 != 0}
			r.Active = script.Version{Number: uint64(number), Digest: script.DigestOf([]byte(source)), Engine: "fake"}
			r.Retained = []script.Version{r.Active} // none of before
			on("pre", number%3*i, script.Match{})(&r)
			put = append(put, cache.NewRelease(r))
		}
		return put
	}
	n.publish("other", on("other", 0, script.Match{}), "other")
	n.table.Update(edition(1), nil)
	done := make(chan struct{})
	var calling sync.WaitGroup
	var chains [callers]int
	for c := range callers {
		calling.Go(func() {
			var links []gateway.Link
			for over := false; !over; {
				select {
				case <-done:
					over = true // once more
				default:
				}
				var err error
				links, err = n.Chain(links[:0], "acme", "pre", attributesOf("/"), &gateway.Call{})
				if script.KindOf(err) == script.NotFound {
					continue // all are disabled, or gone
				}
				if err != nil || len(links) != scripts {
					t.Errorf("a chain of %d: %v", len(links), err)
					return
				}
				chains[c]++
				for _, l := range links {
					var reply gateway.Reply
					err := n.Execute(t.Context(), &gateway.Call{Script: l.Script.String(), Edition: l.Edition}, &reply)
					want := fmt.Sprint("edition ", links[0].Version)
					if err != nil || string(reply.Value(0)) != want || reply.Version != links[0].Version {
						t.Errorf("%s: %v, of version %d; want the version for %s", l.Script, err, reply.Version, want)
						return
					}
				}
			}
		})
	}
	for number := 2; number <= editions; number++ {
		if number%5 == 0 {
			var gone []script.Name
			for i := range scripts {
				gone = append(gone, script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)})
			}
			n.table.Update(nil, gone)
		}
		n.table.Update(edition(number), nil)
	}
	close(done)
	calling.Wait()
	for c, ran := range chains {
		if ran == 0 {
			t.Errorf("caller %d ran no chain", c)
		}
	}
}
