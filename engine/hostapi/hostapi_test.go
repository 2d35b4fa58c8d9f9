package hostapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// meter is one with a budget.
type meter struct{ left, bytes int }

func (m *meter) Pay(n int) bool {
	m.left -= n
	return m.left >= 0
}

func (m *meter) Make(n int) bool {
	m.bytes -= n
	return m.bytes >= 0
}

// agent is a host with one value and one counter.
type agent struct {
	lines  []string
	bucket string
}

func (a *agent) Log(_ *engine.Invocation, level engine.Level, message string) {
	a.lines = append(a.lines, string(level)+" "+message)
}

func (a *agent) Value(tenant, key string) ([]byte, bool, error) {
	if key == "broken" {
		return nil, false, errors.New("the disk is gone")
	}
	return []byte(tenant), key == "name", nil
}

func (a *agent) Keys(tenant, prefix, after string, limit int) []string {
	return []string{fmt.Sprint(tenant, prefix, after, limit)}
}

func (a *agent) Count(_, _ string, n float64) (float64, error) {
	if n > 100 {
		return 0, script.Errorf(script.Limit, "", "too many counters")
	}
	return n, nil
}

func (a *agent) Take(_, bucket string, n, _, _ float64) (bool, time.Duration) {
	a.bucket = bucket
	return n < 2, time.Second
}

func callWith(a engine.Host, instructions int) *Call {
	return &Call{Invocation: &engine.Invocation{Tenant: "acme", Host: a}, Meter: &meter{instructions, 1 << 20}, StringBytes: 100}
}

// uses are calls of all functions that pay.
var uses = map[string]func(*Call) *script.Error{
	"Value":         func(c *Call) *script.Error { _, _, err := c.Value("kv.json", "name"); return err },
	"Text":          func(c *Call) *script.Error { _, _, err := c.Text("name"); return err },
	"Keys":          func(c *Call) *script.Error { _, err := c.Keys("a", "b"); return err },
	"Add":           func(c *Call) *script.Error { _, err := c.Add("n", 1); return err },
	"Count":         func(c *Call) *script.Error { _, err := c.Count("n"); return err },
	"Take":          func(c *Call) *script.Error { _, _, err := c.Take("n", Rate{1, 1, 1}); return err },
	"Log":           func(c *Call) *script.Error { return c.Log(engine.Info, "hello") },
	"FormatTime":    func(c *Call) *script.Error { _, err := c.FormatTime(0, "http"); return err },
	"ParseTime":     func(c *Call) *script.Error { _, _, err := c.ParseTime("", "http"); return err },
	"ParseDuration": func(c *Call) *script.Error { _, _, err := c.ParseDuration("1s"); return err },
	"Digest":        func(c *Call) *script.Error { _, err := c.Digest("sha256", "a", "hex"); return err },
	"HMAC":          func(c *Call) *script.Error { _, err := c.HMAC("sha256", "k", "a", "hex"); return err },
	"RandomBytes":   func(c *Call) *script.Error { _, err := c.RandomBytes(1, "hex"); return err },
	"UUID":          func(c *Call) *script.Error { _, err := c.UUID(4); return err },
	"Equal":         func(c *Call) *script.Error { _, err := c.Equal("a", "a"); return err },
	"Hex":           func(c *Call) *script.Error { _, err := c.Hex(strings.Repeat("a", BytesPerInstruction/2)); return err },
	"Pattern":       func(c *Call) *script.Error { _, err := c.Pattern(&Patterns{}, "a+"); return err },
}

// TestTheMeterIsAsked has each function meet a meter that is empty, and one that is not.
func TestTheMeterIsAsked(t *testing.T) {
	for name, use := range uses {
		if err := use(callWith(&agent{}, 10_000)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c := callWith(&agent{}, 10_000)
		c.Meter.(*meter).left = -1
		if err := use(c); !Stopped(err) {
			t.Errorf("%s without a budget: %v", name, err)
		}
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	c := callWith(&agent{}, 1<<20)
	errs := map[string]func() *script.Error{
		"name":      func() *script.Error { _, err := c.Count("no name"); return err },
		"n":         func() *script.Error { _, err := c.RandomBytes(0, "hex"); return err },
		"options":   func() *script.Error { _, _, err := c.Take("a", Rate{Rate: -1}); return err },
		"format":    func() *script.Error { _, err := c.FormatTime(0, "rfc822"); return err },
		"t":         func() *script.Error { _, err := c.FormatTime(1e18, "http"); return err },
		"algorithm": func() *script.Error { _, err := c.Digest("sha3", "", "hex"); return err },
		"encoding":  func() *script.Error { _, err := c.Digest("md5", "", "base32"); return err },
		"version":   func() *script.Error { _, err := c.UUID(5); return err },
		"pattern":   func() *script.Error { _, err := c.Pattern(&Patterns{}, "("); return err },
	}
	for parameter, use := range errs {
		if err := use(); err == nil || err.Kind != script.Script || err.Field != parameter {
			t.Errorf("%s: %#v", parameter, err)
		}
	}
	if _, err := c.Add("n", 101); err == nil || err.Kind != script.Limit {
		t.Errorf("the host's refusal is %v", err)
	}
	if _, _, err := c.Text("broken"); err == nil || err.Message != "the value of broken cannot be read: the disk is gone" {
		t.Errorf("a value that cannot be read: %v", err)
	}
	if _, err := callWith(nil, 100).Count("n"); err == nil || err.Message != "counter.get is not available: the script runs without an agent" {
		t.Errorf("without an agent: %v", err)
	}
	if _, err := c.Hex(strings.Repeat("a", 51)); err == nil || err.Kind != script.Limit {
		t.Errorf("a text that is too long: %v", err)
	}
}

func TestLinesAreVisible(t *testing.T) {
	a := &agent{}
	c := callWith(a, 1<<20)
	_ = c.Log(engine.Warn, "a\nb\x1b[31m\xff")
	_ = c.Log(engine.Info, strings.Repeat("x", 2*MaxLine))
	if a.lines[0] != `warn a\nb\x1b[31m`+"\uFFFD" {
		t.Errorf("%q", a.lines[0])
	}
	if line := strings.TrimPrefix(a.lines[1], "info "); len(line) > MaxLine || !strings.HasSuffix(line, "…") {
		t.Errorf("%d bytes are logged", len(line))
	}
	if err := callWith(nil, 100).Log(engine.Info, "to nobody"); err != nil {
		t.Error(err)
	}
}

func TestLongNamesOfBuckets(t *testing.T) {
	a := &agent{}
	if _, _, err := callWith(a, 1000).Take(strings.Repeat("k", 200), Rate{1, 1, 1}); err != nil || len(a.bucket) != 64 {
		t.Errorf("%v, %d bytes", err, len(a.bucket))
	}
}

func TestPairsAreBounded(t *testing.T) {
	pairs := callWith(nil, 1<<20).Pairs()
	n := 0
	for range pairs.Query(strings.Repeat("a=1&", 2*maxPairs)) {
		n++
	}
	if n != maxPairs {
		t.Errorf("%d parameters", n)
	}
	pairs = callWith(nil, 1<<20).Pairs()
	for name, value := range pairs.Cookies(`a=1; b="x y"; c; d[=2; e=` + strings.Repeat("x", maxPairsBytes) + "; f=1") {
		if name != "a" && name != "b" {
			t.Errorf("%s=%s is a cookie", name, value)
		}
	}
}
