package execute_test

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// disk has contents; lost says that none can be read.
type disk struct {
	contents map[script.Digest][]byte
	lost     atomic.Bool
}

// Content implements cache.Reader.
func (d *disk) Content(digest script.Digest) ([]byte, error) {
	if content, ok := d.contents[digest]; ok && !d.lost.Load() {
		return content, nil
	}
	return nil, script.Errorf(script.Unavailable, "", "the value's content was lost")
}

func (d *disk) keep(content string) (script.Digest, int) {
	digest := script.DigestOf([]byte(content))
	d.contents[digest] = []byte(content)
	return digest, len(content)
}

// keys are the tenant's live ones. In place of, or besides them, the change set stages others.
var (
	liveKeys   = []string{"a", "b", "c/1", "c/3"}
	stagedKeys = []string{"a", "aa", "c/0", "c/2", "d"}
)

// staging is a node of acme/route: version 1 is active, version 2 is the candidate, and reads the
// staged values.
func staging(tb testing.TB, budget int64) (*node, *disk) {
	tb.Helper()
	d := &disk{contents: map[script.Digest][]byte{}}
	values := cache.NewValues(d, budget)
	put := func(tenant, key, content string) {
		v := script.Value{Key: script.ValueKey{Tenant: tenant, Key: key}, Revision: 1}
		v.Digest, v.Size = d.keep(content)
		values.Update([]script.Value{v}, nil)
	}
	for _, key := range liveKeys {
		put("acme", key, "live "+key)
	}
	put("shop", "d", "of another tenant")
	lent, err := host.New(host.Config{Values: values, Tenants: func(string) script.TenantSettings { return script.TenantSettings{} }})
	if err != nil {
		tb.Fatal(err)
	}
	n := &node{host: lent, contents: values}
	n.start(tb, lua.New(), 1<<20, 1, 1)
	return n, d
}

// reader is a script that says what it reads: the content of the key, or the keys with the prefix.
const reader = `function handle(key, prefix, after) if prefix then return kv.keys(prefix, after) end return kv.get(key) end`

// stage returns a change set that stages the staged keys.
func (d *disk) stage() *script.Membership {
	set := &script.Membership{Name: "cart-2", Attempt: 2, Scripts: []string{"route"}}
	for _, key := range stagedKeys {
		v := script.StagedValue{Key: key}
		v.Digest, v.Size = d.keep("staged " + key)
		set.Values = append(set.Values, v)
	}
	return set
}

// offer makes acme/route live, with its candidate.
func (n *node) offer(d *disk, change func(*script.Release)) {
	set := d.stage()
	n.publish("route", func(r *script.Release) {
		for i := range r.Retained {
			r.Retained[i].Engine, r.Retained[i].Entrypoint = "fake", "handle"
		}
		r.Active = r.Retained[0]
		r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: r.Settings.Spec, Attempt: 2, Set: set}
		if change != nil {
			change(r)
		}
	}, reader, reader+" ", reader+"  ")
}

// runsHere makes the candidate run on each agent that follows it.
func runsHere(r *script.Release) { r.Candidate.Threshold = everywhere }

func (n *node) reads(t *testing.T, x gateway.Executor, ref, want string, args ...string) {
	t.Helper()
	call := gateway.Call{Script: ref}
	for _, arg := range args {
		call.Args = append(call.Args, []byte(arg))
	}
	var reply gateway.Reply
	var got string
	if err := x.Execute(t.Context(), &call, &reply); err != nil {
		got = string(script.KindOf(err)) + ": " + err.Error()
	} else {
		got = string(reply.Value(0))
	}
	if got != want {
		t.Errorf("%s%q reads %s, want %s", ref, args, got, want)
	}
}

func TestACandidateReadsWhatIsStaged(t *testing.T) {
	n, d := staging(t, 1<<20)
	n.offer(d, nil)
	for _, ref := range []string{"acme/route", "acme/route@1", "acme/route@3"} {
		n.reads(t, n, ref, `"live a"`, `"a"`)
		n.reads(t, n, ref, `null`, `"aa"`)
		n.reads(t, n, ref, `["a","b","c/1","c/3"]`, `""`, `""`)
	}
	for name, x := range map[string]gateway.Executor{"a call": n, "a test": n.Trials()} {
		t.Run(name, func(t *testing.T) {
			n.reads(t, x, "acme/route@2", `"staged a"`, `"a"`)
			n.reads(t, x, "acme/route@2", `"live b"`, `"b"`)
			n.reads(t, x, "acme/route@2", `"staged d"`, `"d"`)
			n.reads(t, x, "acme/route@2", `null`, `"e"`)
			n.reads(t, x, "acme/route@2", `["a","aa","b","c/0","c/1","c/2","c/3","d"]`, `""`, `""`)
		})
	}
	n.offer(d, runsHere)
	n.reads(t, n, "acme/route", `"staged a"`, `"a"`)
	n.reads(t, n, "acme/route@1", `"live a"`, `"a"`)
	// Once the change set is live, or is gone, there is no candidate.
	n.offer(d, func(r *script.Release) { r.Active, r.Candidate = r.Retained[1], nil })
	for _, ref := range []string{"acme/route", "acme/route@2"} {
		n.reads(t, n, ref, `"live a"`, `"a"`)
	}
	// A candidate by itself, and one of a change set without values, read what is live.
	n.offer(d, func(r *script.Release) { r.Candidate.Set = nil })
	n.reads(t, n, "acme/route@2", `"live a"`, `"a"`)
	n.offer(d, func(r *script.Release) { r.Candidate.Set.Values = nil })
	n.reads(t, n, "acme/route@2", `"live a"`, `"a"`)
}

// TestKeysOfACandidate compares with what the keys are together, at all bounds.
func TestKeysOfACandidate(t *testing.T) {
	n, d := staging(t, 1<<20)
	n.offer(d, nil)
	all := slices.Sorted(slices.Values(append(slices.Clone(liveKeys), stagedKeys...)))
	all = slices.Compact(all)
	for _, prefix := range []string{"", "a", "c/", "c/2", "d", "e"} {
		for _, after := range append([]string{"", "A", "b0", "c/", "z"}, all...) {
			want := []string{}
			for _, key := range all {
				if len(key) >= len(prefix) && key[:len(prefix)] == prefix && key > after {
					want = append(want, key)
				}
			}
			text := fmt.Sprintf("%q", want)
			if len(want) > 1 {
				text = `["` + want[0]
				for _, key := range want[1:] {
					text += `","` + key
				}
				text += `"]`
			}
			n.reads(t, n, "acme/route@2", text, `""`, fmt.Sprintf("%q", prefix), fmt.Sprintf("%q", after))
		}
	}
}

func TestAStagedContentThatIsLost(t *testing.T) {
	n, d := staging(t, 1) // keeps the last content alone
	n.offer(d, nil)
	n.reads(t, n, "acme/route@2", `"staged a"`, `"a"`)
	d.lost.Store(true)
	n.reads(t, n, "acme/route@2", `SCRIPT: the value of d cannot be read: the value's content was lost (line 1)`, `"d"`)
	d.lost.Store(false)
	n.reads(t, n, "acme/route@2", `"staged d"`, `"d"`)
}

// TestStagedValuesAllocateNothing: neither does a call that reads one, nor any other.
func TestStagedValuesAllocateNothing(t *testing.T) {
	of, d := staging(t, 1<<20)
	n := &node{host: of.host, contents: of.contents}
	n.start(t, fake{}, 1<<20, 1, 1)
	set := d.stage()
	n.publish("route", func(r *script.Release) {
		r.Active, r.Retained[1].Number = r.Retained[0], 2
		r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: r.Settings.Spec, Attempt: 2, Set: set}
	}, "read", "read")
	for ref, want := range map[string]string{"acme/route": "live a", "acme/route@1": "live a", "acme/route@2": "staged a"} {
		call, reply := &gateway.Call{Script: ref}, &gateway.Reply{}
		allocs := math.Inf(1)
		for range 3 { // other goroutines of the process count, too
			allocs = min(allocs, testing.AllocsPerRun(1000, func() {
				reply.Reset()
				if err := n.Execute(t.Context(), call, reply); err != nil || string(reply.Value(0)) != want {
					t.Errorf("%s reads %q, %v; want %q", ref, reply.Value(0), err, want)
				}
			}))
		}
		if allocs > 0 {
			t.Errorf("%s: %v allocations a call", ref, allocs)
		}
	}
}
