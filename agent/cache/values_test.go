package cache_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// depot is where the contents of values come from.
type depot struct {
	mu       sync.Mutex
	contents map[script.Digest][]byte
	err      error
	reads    int
	enter    func()
}

// Content implements cache.Reader.
func (d *depot) Content(digest script.Digest) ([]byte, error) {
	if d.enter != nil {
		d.enter()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	return d.contents[digest], d.err
}

func (d *depot) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

// value adds a content and returns the value that has it.
func (d *depot) value(tenant, key, content string, revision script.Revision) script.Value {
	digest := script.DigestOf([]byte(content))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.contents == nil {
		d.contents = map[script.Digest][]byte{}
	}
	d.contents[digest] = []byte(content)
	return script.Value{Key: keyOf(tenant, key), Revision: revision, Digest: digest, Size: len(content)}
}

func keyOf(tenant, key string) script.ValueKey { return script.ValueKey{Tenant: tenant, Key: key} }

// wants fails the test if the value is not what it should be; "" means none.
func wants(t *testing.T, v *cache.Values, tenant, key, want string) {
	t.Helper()
	got, ok, err := v.Value(tenant, key)
	if err != nil || ok != (want != "") || string(got) != want {
		t.Errorf("%s/%s is %.40q, %v, %v; want %.40q", tenant, key, got, ok, err, want)
	}
}

func TestValues(t *testing.T) {
	var d depot
	v := cache.NewValues(&d, 1<<20)
	wants(t, v, "acme", "k", "")
	v.Update([]script.Value{d.value("acme", "k", "one", 1), d.value("acme", "deep/k", "two", 2), d.value("shop", "k", "three", 3)}, nil)
	wants(t, v, "acme", "k", "one")
	wants(t, v, "acme", "deep/k", "two")
	wants(t, v, "shop", "k", "three")
	wants(t, v, "shop", "deep/k", "")
	if v.Len() != 3 || v.Revision("acme/deep/k") != 2 || v.Revision("acme/other") != 0 {
		t.Errorf("%d values, deep/k at %d", v.Len(), v.Revision("acme/deep/k"))
	}
	held, _, _ := v.Value("acme", "k")
	v.Update([]script.Value{d.value("acme", "k", "newer", 4)}, []script.ValueKey{keyOf("acme", "deep/k"), keyOf("acme", "never"), keyOf("nobody", "k")})
	wants(t, v, "acme", "k", "newer")
	wants(t, v, "acme", "deep/k", "")
	if string(held) != "one" {
		t.Errorf("what a call holds became %q", held)
	}
	if got, ok := v.Get(keyOf("acme", "k")); !ok || got != d.value("acme", "k", "newer", 4) {
		t.Errorf("got %+v, %v", got, ok)
	}
	v.Update(nil, []script.ValueKey{keyOf("acme", "k"), keyOf("shop", "k")})
	if names := slices.Collect(v.Names()); v.Len() != 0 || len(names) != 0 || v.Checksum(0) != (wire.Sum{}) {
		t.Errorf("%d are left: %v", v.Len(), names)
	}
	empty := d.value("acme", "empty", "", 5)
	v.Update([]script.Value{empty}, nil)
	if content, ok, err := v.Value("acme", "empty"); !ok || err != nil || len(content) != 0 {
		t.Errorf("an empty value is %q, %v, %v", content, ok, err)
	}
}

func TestKeysOfValues(t *testing.T) {
	var d depot
	v := cache.NewValues(&d, 1<<20)
	var put []script.Value
	for i, key := range []string{"b/2", "a", "b/1", "b", "c", "b/10", "b0", "Z"} {
		put = append(put, d.value("acme", key, key, script.Revision(i+1)))
	}
	v.Update(put, nil)
	v.Update([]script.Value{d.value("shop", "b/x", "x", 20)}, nil)
	for _, tt := range []struct {
		prefix, after string
		limit         int
		want          string
	}{
		{"", "", 100, "Z a b b/1 b/10 b/2 b0 c"},
		{"b", "", 100, "b b/1 b/10 b/2 b0"},
		{"b/", "", 100, "b/1 b/10 b/2"},
		{"b/", "b/1", 100, "b/10 b/2"},
		{"b/", "b/100", 100, "b/2"},
		{"b/", "a", 100, "b/1 b/10 b/2"},
		{"b/", "c", 100, ""},
		{"b/", "b/2", 100, ""},
		{"", "a", 2, "b b/1"},
		{"x", "", 100, ""},
		{"", "zzz", 100, ""},
		{"", "", 0, ""},
		{"", "", -1, ""},
		{"\xff", "", 10, ""},
	} {
		if got := strings.Join(v.Keys("acme", tt.prefix, tt.after, tt.limit), " "); got != tt.want {
			t.Errorf("keys with %q after %q, at most %d: %q, want %q", tt.prefix, tt.after, tt.limit, got, tt.want)
		}
	}
	mine := v.Keys("acme", "", "", 100)
	mine[0] = "spoiled" // a caller owns what it gets
	if got := v.Keys("acme", "", "", 1); got[0] != "Z" {
		t.Errorf("keys now begin with %q", got[0])
	}
	if got := v.Keys("nobody", "", "", 10); len(got) != 0 {
		t.Errorf("a tenant without values has %v", got)
	}
}

// TestContentsKeepTheirBudget: what is read most stays, and one is kept though it is larger.
func TestContentsKeepTheirBudget(t *testing.T) {
	const each, budget = 10 << 10, 100 << 10
	var d depot
	v := cache.NewValues(&d, budget)
	filler := strings.Repeat("x", each)
	var put []script.Value
	for i := range 100 {
		put = append(put, d.value("acme", fmt.Sprint("k", i), fmt.Sprint(i, filler), script.Revision(i+1)))
	}
	v.Update(put, nil)
	for i := range 100 {
		wants(t, v, "acme", fmt.Sprint("k", i), fmt.Sprint(i, filler))
		wants(t, v, "acme", "k0", fmt.Sprint(0, filler))
		if got := v.Bytes(); got > budget {
			t.Fatalf("%d bytes are held", got)
		}
	}
	if got := d.count(); got != 100 {
		t.Errorf("%d reads: the one in use had to give way", got)
	}
	large := strings.Repeat("y", 2*budget)
	v.Update([]script.Value{d.value("acme", "large", large, 200)}, nil)
	for range 3 {
		wants(t, v, "acme", "large", large)
	}
	if got := d.count(); got != 101 {
		t.Errorf("%d reads: the large one is not kept", got)
	}
	wants(t, v, "acme", "k5", fmt.Sprint(5, filler))
	if got := v.Bytes(); got > budget {
		t.Errorf("%d bytes are held after the large one", got)
	}
}

func TestEqualContentsAreOne(t *testing.T) {
	var d depot
	v := cache.NewValues(&d, 1<<20)
	v.Update([]script.Value{d.value("acme", "a", "same", 1), d.value("shop", "b", "same", 2)}, nil)
	a, _, _ := v.Value("acme", "a")
	b, _, _ := v.Value("shop", "b")
	v.Update([]script.Value{d.value("acme", "a", "same", 3)}, nil) // another revision
	c, _, _ := v.Value("acme", "a")
	if &a[0] != &b[0] || &a[0] != &c[0] || d.count() != 1 {
		t.Errorf("read %d times", d.count())
	}
}

func TestAContentThatCannotBeRead(t *testing.T) {
	var d depot
	v := cache.NewValues(&d, 1<<20)
	v.Update([]script.Value{d.value("acme", "a", "content", 1)}, nil)
	d.err = script.Errorf(script.Unavailable, "disk", "cannot be read")
	for range 2 {
		if content, ok, err := v.Value("acme", "a"); script.KindOf(err) != script.Unavailable || ok || content != nil {
			t.Errorf("got %q, %v, %v", content, ok, err)
		}
	}
	d.err = nil
	wants(t, v, "acme", "a", "content")
}

// Who asks for a content that is being read does not read it again.
func TestAContentIsReadOnce(t *testing.T) {
	var d depot
	var entered atomic.Int64
	release := make(chan struct{})
	d.enter = func() {
		entered.Add(1)
		<-release
	}
	v := cache.NewValues(&d, 1<<20)
	v.Update([]script.Value{d.value("acme", "a", "content", 1)}, nil)
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() { wants(t, v, "acme", "a", "content") })
	}
	close(release)
	readers.Wait()
	if entered.Load() != 1 {
		t.Errorf("read %d times", entered.Load())
	}
}

// TestATenantsValuesAreSwappedTogether: a reader sees all keys of a change or none.
func TestATenantsValuesAreSwappedTogether(t *testing.T) {
	var d depot
	v := cache.NewValues(&d, 8<<10) // so that contents give way all the time
	keys := []string{"a", "b", "c", "d"}
	edition := func(n int) (put []script.Value) {
		for _, key := range keys[:1+n%len(keys)] {
			put = append(put, d.value("acme", key, strings.Repeat(fmt.Sprint(n%10), 1000), script.Revision(n)))
		}
		return put
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got := v.Keys("acme", "", "", 10)
				if !slices.Equal(got, keys[:len(got)]) {
					t.Errorf("keys %v", got)
				}
				if content, ok, err := v.Value("acme", "a"); err != nil || ok && (len(content) != 1000 || bytes.Count(content, content[:1]) != 1000) {
					t.Errorf("read %.20q, %v", content, err)
				}
				_ = v.Checksum(2)
			}
		})
	}
	const editions = 400
	for n := range editions {
		before := v.Keys("acme", "", "", 10)
		var gone []script.ValueKey
		for _, key := range before {
			if !slices.Contains(keys[:1+n%len(keys)], key) {
				gone = append(gone, keyOf("acme", key))
			}
		}
		v.Update(edition(n), gone)
	}
	close(stop)
	readers.Wait()
	var want wire.Sum
	for _, e := range edition(editions - 1) {
		want.Add(wire.FingerprintObject(script.Object{Value: &e}))
	}
	if got := v.Checksum(0); got != want {
		t.Errorf("the checksum is %v, want %v", got, want)
	}
}

func TestChecksumOfValues(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	var d depot
	v := cache.NewValues(&d, 1<<20)
	live := map[string]script.Value{}
	sum := func(leftOut ...string) (sum wire.Sum) {
		for name, e := range live {
			if !slices.Contains(leftOut, name) {
				sum.Add(wire.FingerprintObject(script.Object{Value: &e}))
			}
		}
		return sum
	}
	for n := range 500 {
		value := d.value([]string{"acme", "shop"}[random.IntN(2)], fmt.Sprint("k", random.IntN(50)), fmt.Sprint("content ", n), script.Revision(n+1))
		if random.IntN(4) == 0 {
			v.Update(nil, []script.ValueKey{value.Key})
			delete(live, value.Key.String())
		} else {
			v.Update([]script.Value{value}, nil)
			live[value.Key.String()] = value
		}
		if got := v.Checksum(random.IntN(120)); got != sum() {
			t.Fatalf("step %d: %v, want %v", n, got, sum())
		}
		out := []string{value.Key.String(), "acme/never", "nobody/k"}
		if got := v.Checksum(0, out...); got != sum(out...) {
			t.Fatalf("step %d: with some left out %v, want %v", n, got, sum(out...))
		}
	}
	names := slices.Sorted(v.Names())
	if len(names) != len(live) || v.Len() != len(live) {
		t.Errorf("%d names, %d values, want %d", len(names), v.Len(), len(live))
	}
	for _, name := range names {
		e := live[name]
		if got, sound := v.Check(name); !sound || got != wire.FingerprintObject(script.Object{Value: &e}) {
			t.Errorf("%s is %v, sound: %v", name, got, sound)
		}
	}
}

// TestABitThatFlipsInAValue shows in the sum after as many looks as there are values.
func TestABitThatFlipsInAValue(t *testing.T) {
	var d depot
	v := cache.NewValues(&d, 1<<20)
	var put []script.Value
	for i := range 100 {
		put = append(put, d.value("acme", fmt.Sprint("k", i), "content", script.Revision(i+1)))
	}
	v.Update(put, nil)
	before := v.Checksum(10)
	cache.SpoilValue(v, "acme/k42")
	if _, sound := v.Check("acme/k42"); sound {
		t.Error("it is said to be sound")
	}
	looks := 0
	for v.Checksum(10) == before {
		if looks++; looks > 20 {
			t.Fatal("it is never seen")
		}
	}
}

func TestTenants(t *testing.T) {
	tenants := cache.NewTenants()
	if got := tenants.Settings("acme"); got != script.DefaultTenantSettings() {
		t.Errorf("a tenant without settings has %+v", got)
	}
	acme := script.Tenant{Name: "acme", Revision: 3, Settings: script.TenantSettings{Isolation: script.IsolationProcess, Concurrency: 4}}
	shop := script.Tenant{Name: "shop", Revision: 4, Settings: script.TenantSettings{CPU: 500, Limits: script.Limits{Instructions: 9}}}
	tenants.Update([]script.Tenant{acme, shop}, nil)
	want := script.DefaultTenantSettings()
	want.Isolation, want.Concurrency = script.IsolationProcess, 4
	if diff := cmp.Diff(want, tenants.Settings("acme")); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if tenants.Revision("acme") != 3 || tenants.Revision("other") != 0 {
		t.Errorf("acme is at %d", tenants.Revision("acme"))
	}
	sumOf := func(all ...script.Tenant) (sum wire.Sum) {
		for _, t := range all {
			sum.Add(wire.FingerprintObject(script.Object{Tenant: &t}))
		}
		return sum
	}
	for _, again := range []int{0, 1, 10} {
		if got := tenants.Checksum(again); got != sumOf(acme, shop) {
			t.Errorf("the checksum is %v", got)
		}
	}
	if got := tenants.Checksum(0, "acme", "nobody"); got != sumOf(shop) {
		t.Errorf("without acme it is %v", got)
	}
	if got, sound := tenants.Check("shop"); !sound || got != sumOf(shop) {
		t.Errorf("shop is %v, sound: %v", got, sound)
	}
	if _, sound := tenants.Check("nobody"); sound {
		t.Error("nobody is sound")
	}
	tenants.Update(nil, []string{"acme", "nobody"})
	if got := tenants.Settings("acme"); got != script.DefaultTenantSettings() {
		t.Errorf("without its settings it has %+v", got)
	}
	if got := slices.Collect(tenants.Names()); !slices.Equal(got, []string{"shop"}) || tenants.Checksum(0) != sumOf(shop) {
		t.Errorf("left: %v", got)
	}
}

// What is read at each call allocates nothing.
func TestReadingAllocatesNothing(t *testing.T) {
	var d depot
	v := cache.NewValues(&d, 1<<20)
	v.Update([]script.Value{d.value("acme", "a", "content", 1)}, nil)
	tenants := cache.NewTenants()
	tenants.Update([]script.Tenant{{Name: "acme", Revision: 1}}, nil)
	wants(t, v, "acme", "a", "content")
	if got := testing.AllocsPerRun(100, func() {
		_, _, _ = v.Value("acme", "a")
		_, _, _ = v.Value("acme", "none")
		_ = tenants.Settings("acme")
		_ = tenants.Settings("other")
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
