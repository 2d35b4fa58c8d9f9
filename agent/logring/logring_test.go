package logring_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/agent/logring"
	"github.com/scriptorium-dev/scriptorium/script"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func name(tenant, of string) script.Name { return script.Name{Tenant: tenant, Script: of} }

// texts returns the messages that are kept, in the order of the scripts' names.
func texts(r *logring.Ring, of script.Name) (all []string) {
	kept := r.Of(of)
	slices.SortFunc(kept, func(a, b logring.Kept) int { return strings.Compare(a.Script.Script, b.Script.Script) })
	for _, k := range kept {
		for _, l := range k.Lines {
			all = append(all, l.Message)
		}
	}
	return all
}

func TestRing(t *testing.T) {
	r := logring.New(0)
	r.Add(name("acme", "route"), logring.Line{Time: start, Version: 7, Level: "warn", Message: "one", TraceID: "t"})
	r.Add(name("acme", "cart"), logring.Line{Time: start, Message: "two"})
	r.Add(name("acme", "route"), logring.Line{Time: start, Message: "three"})
	r.Add(name("shop", "route"), logring.Line{Time: start, Message: strings.Repeat("ü", 10_000)})
	if got := texts(r, name("acme", "")); !slices.Equal(got, []string{"two", "one", "three"}) {
		t.Errorf("%q", got)
	}
	if got := texts(r, name("acme", "route")); !slices.Equal(got, []string{"one", "three"}) {
		t.Errorf("of a script: %q", got)
	}
	if got := append(r.Of(name("acme", "none")), r.Of(name("none", ""))...); len(got) > 0 {
		t.Errorf("of nobody: %v", got)
	}
	kept := r.Of(name("acme", "route"))[0]
	if l := kept.Lines[0]; kept.Script != name("acme", "route") || !l.Time.Equal(start) || l.Version != 7 || l.Level != "warn" || l.TraceID != "t" || !kept.Lost.IsZero() {
		t.Errorf("%+v", kept)
	}
	if long := texts(r, name("shop", ""))[0]; len(long) > 4200 || !utf8.ValidString(long) || !strings.HasSuffix(long, "ü…") {
		t.Errorf("a long message has %d bytes: %q", len(long), long[len(long)-10:])
	}
	// What is returned is the caller's.
	kept.Lines[0].Message = "changed"
	if got := texts(r, name("acme", "route")); got[0] != "one" {
		t.Error("a caller changes what is kept")
	}
}

// TestANoisyNeighbour: neither a noisy script nor a noisy tenant evicts lines of those that say little.
func TestANoisyNeighbour(t *testing.T) {
	const bytes = 1 << 20
	r := logring.New(bytes)
	for i := range 20 {
		r.Add(name("quiet", "route"), logring.Line{Time: start, Message: fmt.Sprint("quiet ", i)})
		r.Add(name("noisy", "calm"), logring.Line{Time: start, Message: fmt.Sprint("calm ", i)})
	}
	for i := range 100_000 {
		r.Add(name("noisy", "loud"), logring.Line{Time: start.Add(time.Duration(i)), Message: fmt.Sprint("loud ", i)})
	}
	// So do many tenants together, of which each says more.
	for tenant := range 30 {
		for i := range 1000 {
			r.Add(name(fmt.Sprint("t", tenant), "loud"), logring.Line{Time: start, Message: fmt.Sprint("loud ", i)})
		}
	}
	if n := len(texts(r, name("quiet", ""))); n != 20 {
		t.Errorf("%d of 20 lines of a quiet tenant are left", n)
	}
	if n := len(texts(r, name("noisy", "calm"))); n != 20 {
		t.Errorf("%d of 20 lines of a calm script are left", n)
	}
	kept := r.Of(name("noisy", "loud"))[0]
	last := kept.Lines[len(kept.Lines)-1]
	if last.Message != "loud 99999" || !kept.Lost.Equal(kept.Lines[0].Time.Add(-1)) {
		t.Errorf("the newest line is %q, and lines up to %v are lost; the oldest is of %v", last.Message, kept.Lost, kept.Lines[0].Time)
	}
	if r.Bytes() > bytes {
		t.Errorf("%d bytes are kept, at most %d are allowed", r.Bytes(), bytes)
	}
}

// TestManyNames: names that are used once take no more room than lines do.
func TestManyNames(t *testing.T) {
	const bytes = 1 << 20
	r := logring.New(bytes)
	for i := range 100_000 {
		r.Add(name("one", fmt.Sprint("script-", i)), logring.Line{Time: start, Message: "x"})
	}
	if n := len(r.Of(name("one", ""))); n < 100 || r.Bytes() > bytes/4 {
		t.Errorf("%d scripts of one tenant take %d bytes", n, r.Bytes())
	}
	for i := range 100_000 {
		r.Add(name(fmt.Sprint("tenant-", i), "s"), logring.Line{Time: start, Message: "x"})
	}
	if r.Bytes() > bytes {
		t.Errorf("many tenants take %d bytes", r.Bytes())
	}
	if got := texts(r, name("tenant-99999", "")); !slices.Equal(got, []string{"x"}) {
		t.Errorf("the last of them has %q", got)
	}
}

// TestRandomLines: whatever comes, the ring keeps its bounds, and each script has its newest lines in
// order. Nothing is left once all is old.
func TestRandomLines(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, bytes := range []int{1 << 10, 16 << 10, 1 << 20} {
		r, newest := logring.New(bytes), map[script.Name]int{}
		for i := range 20_000 {
			of := name(fmt.Sprint("t", int(random.ExpFloat64()*3)), fmt.Sprint("s", int(random.ExpFloat64()*3)))
			r.Add(of, logring.Line{Time: start.Add(time.Duration(i) * time.Second), Version: uint64(i), Message: strings.Repeat("x", random.IntN(300))})
			newest[of] = i
			if r.Bytes() > bytes {
				t.Fatalf("line %d: %d bytes are kept, at most %d are allowed", i, r.Bytes(), bytes)
			}
		}
		for of, last := range newest {
			for _, kept := range r.Of(of) {
				if !slices.IsSortedFunc(kept.Lines, func(a, b logring.Line) int { return a.Time.Compare(b.Time) }) || int(kept.Lines[len(kept.Lines)-1].Version) != last {
					t.Errorf("%s: %v, want them in order up to %d", of, kept.Lines, last)
				}
			}
		}
		r.Forget(start.Add(15_000*time.Second + logring.MaxAge))
		for of := range newest {
			for _, kept := range r.Of(of) {
				if kept.Lines[0].Version < 15_000 {
					t.Errorf("%s: line %d is old", of, kept.Lines[0].Version)
				}
			}
		}
		r.Forget(start.Add(time.Hour * 1000))
		if r.Bytes() != 0 {
			t.Errorf("%d bytes are left when nothing is", r.Bytes())
		}
	}
}

func TestConcurrently(t *testing.T) {
	r := logring.New(64 << 10)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 2000 {
				r.Add(name(fmt.Sprint("t", n%7), fmt.Sprint("s", i)), logring.Line{Time: start.Add(time.Duration(n)), Message: "x"})
				if n%50 == 0 {
					r.Of(name(fmt.Sprint("t", n%7), ""))
					r.Forget(start.Add(logring.MaxAge + 1000))
				}
			}
		})
	}
	all.Wait()
	if r.Bytes() > 64<<10 {
		t.Errorf("%d bytes are kept", r.Bytes())
	}
}

// TestRun drops lines when they are a day old.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := logring.New(0)
		go func() {
			if err := r.Run(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		r.Add(name("acme", "route"), logring.Line{Time: time.Now(), Message: "one"})
		<-time.After(23 * time.Hour)
		if r.Bytes() == 0 {
			t.Error("a line is gone after 23 hours")
		}
		<-time.After(62 * time.Minute)
		synctest.Wait()
		if r.Bytes() != 0 {
			t.Error("a line is there after 24 hours")
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	r := logring.New(0)
	of := make([]script.Name, 1000)
	for i := range of {
		of[i] = name(fmt.Sprint("t", i%100), fmt.Sprint("s", i))
	}
	message := strings.Repeat("x", 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Add(of[i%len(of)], logring.Line{Time: start, Message: message})
	}
}
