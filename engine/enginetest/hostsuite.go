package enginetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// RunHost tests what engine.Host promises. newHost returns a host, for one test, that
// has the values by tenant and key, and allows each tenant at most 1,000 counters.
func RunHost(t *testing.T, newHost func(t *testing.T, values map[string]map[string]string) engine.Host) {
	t.Helper()
	values := map[string]map[string]string{
		"acme":  {"flags": `{"beta":true}`, "users/ann": "1", "users/bob": "2", "users/cid": "3"},
		"other": {"secret": "x"},
	}
	t.Run("Value", func(t *testing.T) { testHostValue(t, newHost(t, values)) })
	t.Run("Keys", func(t *testing.T) { testHostKeys(t, newHost(t, values)) })
	t.Run("Count", func(t *testing.T) { testHostCount(t, newHost(t, values)) })
	t.Run("TooManyCounters", func(t *testing.T) { testHostTooManyCounters(t, newHost(t, values)) })
	t.Run("Take", func(t *testing.T) { testHostTake(t, newHost(t, values)) })
}

func testHostValue(t *testing.T, h engine.Host) {
	t.Helper()
	for _, test := range []struct {
		tenant, key, want string
		ok                bool
	}{
		{"acme", "flags", `{"beta":true}`, true},
		{"acme", "users/ann", "1", true},
		{"acme", "users", "", false},
		{"acme", "secret", "", false},
		{"other", "secret", "x", true},
		{"nobody", "flags", "", false},
	} {
		got, ok, err := h.Value(test.tenant, test.key)
		if string(got) != test.want || ok != test.ok || err != nil {
			t.Errorf("Value(%s, %s) = %q, %v, %v, want %q, %v", test.tenant, test.key, got, ok, err, test.want, test.ok)
		}
	}
}

func testHostKeys(t *testing.T, h engine.Host) {
	t.Helper()
	for _, test := range []struct {
		tenant, prefix, after string
		limit                 int
		want                  []string
	}{
		{"acme", "", "", 10, []string{"flags", "users/ann", "users/bob", "users/cid"}},
		{"acme", "users/", "", 10, []string{"users/ann", "users/bob", "users/cid"}},
		{"acme", "users/", "", 2, []string{"users/ann", "users/bob"}},
		{"acme", "users/", "users/bob", 2, []string{"users/cid"}},
		{"acme", "users/", "users/bo", 1, []string{"users/bob"}},
		{"acme", "x", "", 10, nil},
		{"nobody", "", "", 10, nil},
	} {
		if got := h.Keys(test.tenant, test.prefix, test.after, test.limit); !slices.Equal(got, test.want) {
			t.Errorf("Keys(%s, %q, %q, %d) = %q, want %q", test.tenant, test.prefix, test.after, test.limit, got, test.want)
		}
	}
}

func testHostCount(t *testing.T, h engine.Host) {
	t.Helper()
	for i, step := range []struct {
		tenant, counter string
		n, want         float64
	}{
		{"acme", "a", 0, 0},
		{"acme", "a", 1, 1},
		{"acme", "a", 2.5, 3.5},
		{"other", "a", 1, 1},
		{"acme", "b", -1, -1},
		{"acme", "a", 0, 3.5},
	} {
		if got, err := h.Count(step.tenant, step.counter, step.n); got != step.want || err != nil {
			t.Errorf("step %d: Count(%s, %s, %v) = %v, %v, want %v", i, step.tenant, step.counter, step.n, got, err, step.want)
		}
	}
}

func testHostTooManyCounters(t *testing.T, h engine.Host) {
	t.Helper()
	for i := range 1000 {
		if _, err := h.Count("acme", fmt.Sprint("c", i), 1); err != nil {
			t.Fatalf("counter %d: %v", i, err)
		}
	}
	for range 3 {
		if _, err := h.Count("acme", "one more", 1); script.KindOf(err) != script.Limit {
			t.Errorf("one counter more: error = %v, want a Limit", err)
		}
	}
	if got, err := h.Count("acme", "none", 0); got != 0 || err != nil {
		t.Errorf("a counter that is only read: %v, %v", got, err)
	}
	if got, err := h.Count("acme", "c7", 1); got != 2 || err != nil {
		t.Errorf("a counter that was there: %v, %v", got, err)
	}
	if _, err := h.Count("other", "c", 1); err != nil {
		t.Errorf("another tenant's counter: %v", err)
	}
}

func testHostTake(t *testing.T, h engine.Host) {
	t.Helper()
	const rate, burst = 1e-3, 3 // that no token comes in while this runs
	take := func(tenant, bucket string, n float64, want bool) {
		t.Helper()
		ok, wait := h.Take(tenant, bucket, n, rate, burst)
		if ok != want {
			t.Errorf("Take(%s, %s, %v) = %v, want %v", tenant, bucket, n, ok, want)
		}
		if ok && wait != 0 || !ok && (wait <= 0 || wait > time.Duration(n/rate)*time.Second) {
			t.Errorf("Take(%s, %s, %v): wait = %v", tenant, bucket, n, wait)
		}
	}
	take("acme", "a", 1, true)
	take("acme", "a", 3, false) // takes none
	take("acme", "a", 2, true)
	take("acme", "a", 1, false)
	take("acme", "a", 0, true)
	take("acme", "b", 3, true)
	take("other", "a", 3, true)
	if _, wait := h.Take("acme", "a", 2, 1, burst); wait <= time.Second || wait > 2*time.Second {
		t.Errorf("two tokens at one a second: wait = %v", wait)
	}
}

// testHost wants what programs ask of the agent to be asked for the tenant of the call.
func (s *suite) testHost(t *testing.T) {
	e := s.newEngine()
	host := &Host{Values: map[string]map[string]string{"acme": {"k": "mine"}, "other": {"k": "theirs"}}}
	ask := func(source, tenant string, args ...string) []string {
		t.Helper()
		inv := invocation(args...)
		inv.Tenant, inv.Script, inv.Version, inv.Traceparent, inv.Host = tenant, "edge", 7, "trace", host
		got, err := call(t, s.compile(t, e, source, Entrypoint), inv)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		return got
	}
	for _, step := range []struct {
		source, tenant string
		args           []string
		want           string
	}{
		{s.Value, "acme", []string{`"k"`}, `"mine"`},
		{s.Value, "other", []string{`"k"`}, `"theirs"`},
		{s.Value, "nobody", []string{`"k"`}, `null`},
		{s.Value, "acme", []string{`"none"`}, `null`},
		{s.Tally, "acme", nil, `1`},
		{s.Tally, "acme", nil, `2`},
		{s.Tally, "other", nil, `1`},
		{s.Take, "acme", nil, `true`},
		{s.Take, "acme", nil, `true`},
		{s.Take, "acme", nil, `false`},
		{s.Take, "other", nil, `true`},
	} {
		if step.source == "" {
			continue
		}
		if got := ask(step.source, step.tenant, step.args...); !slices.Equal(got, []string{step.want}) {
			t.Errorf("%s %q for %s: %q, want %q", step.source, step.args, step.tenant, got, step.want)
		}
	}
	ask(s.Log, "acme", `"hello"`)
	want := Line{Tenant: "acme", Script: "edge", Version: 7, Traceparent: "trace", Level: engine.Info, Message: "hello"}
	if got := host.Lines(); !slices.Equal(got, []Line{want}) {
		t.Errorf("logged %+v, want %+v", got, want)
	}
}

// testNoHost: what is logged goes nowhere, and what there is not cannot be used.
func (s *suite) testNoHost(t *testing.T) {
	var logged []string
	if s.Declarative {
		logged = []string{`true`}
	}
	wantValues(t, s.program(t, s.Log), invocation(`"hello"`), logged...)
	for _, source := range []string{s.Value, s.Tally, s.Take} {
		if source == "" {
			continue
		}
		_, err := call(t, s.program(t, source), invocation(`"k"`))
		wantError(t, err, script.Script)
	}
}
