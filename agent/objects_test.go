package agent_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/script"
)

// has waits until the value "tenant/key" has the content; "" means that there is none.
func (n *node) has(t *testing.T, r *registry, name, want string) {
	t.Helper()
	eventually(t, r, name+" is "+want, func() bool { return n.value(name) == want })
}

// value returns the content of "tenant/key", "" if there is none, or the kind of the
// error.
func (n *node) value(name string) string {
	tenant, key, _ := strings.Cut(name, "/")
	content, ok, err := n.Values().Value(tenant, key)
	switch {
	case err != nil:
		return string(script.KindOf(err))
	case !ok:
		return ""
	}
	return string(content)
}

func gauge(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestValuesOnOneNode(t *testing.T) {
	r := newRegistry(t)
	r.put("acme/flags", "before the agent")
	r.start()
	dir := t.TempDir()
	metrics := prometheus.NewRegistry()
	n := startNode(t, r, dir, func(cfg *agent.Config) { cfg.Metrics = metrics })
	n.has(t, r, "acme/flags", "before the agent")
	r.put("acme/flags", "on")
	r.put("acme/prices/eu.json", `{"a":1}`)
	r.put("acme/prices/us.json", `{"a":2}`)
	r.configure("acme", script.TenantSettings{Concurrency: 3})
	n.has(t, r, "acme/flags", "on")
	n.has(t, r, "acme/prices/us.json", `{"a":2}`)
	eventually(t, r, "the settings", func() bool { return n.Tenants().Settings("acme").Concurrency == 3 })
	if got := n.Tenants().Settings("acme").LogBytes; got != script.DefaultTenantSettings().LogBytes {
		t.Errorf("what is not set is %d", got)
	}
	r.delete("acme/prices/us.json")
	n.has(t, r, "acme/prices/us.json", "")
	if got := n.Values().Keys("acme", "prices/", "", 10); !slices.Equal(got, []string{"prices/eu.json"}) {
		t.Errorf("keys %v", got)
	}
	head := script.Revision(r.head)
	eventually(t, r, "the position covers it", func() bool { return n.Executor().Position().Revision >= head })
	if got := gauge(t, metrics, "scriptorium_agent_values"); got != 2 {
		t.Errorf("%v values are counted", got)
	}
	if got := gauge(t, metrics, "scriptorium_agent_value_cache_bytes"); got == 0 {
		t.Error("no contents are counted")
	}
	n.stop()

	// Everything down: from disk.
	r.stop()
	n = startNode(t, r, dir)
	for name, want := range map[string]string{"acme/flags": "on", "acme/prices/eu.json": `{"a":1}`, "acme/prices/us.json": ""} {
		if got := n.value(name); got != want {
			t.Errorf("%s from disk is %q", name, got)
		}
	}
	if got := n.Tenants().Settings("acme").Concurrency; got != 3 {
		t.Errorf("the settings from disk say %d", got)
	}
	r.mute = true
	r.put("acme/flags", "off")
	r.delete("acme/prices/eu.json")
	r.mute = false
	r.start()
	n.has(t, r, "acme/flags", "off")
	n.has(t, r, "acme/prices/eu.json", "")
}

// A content that rots on disk, before a start or while the agent runs, is fetched again,
// and nobody waits for that.
func TestAContentThatRots(t *testing.T) {
	r := newRegistry(t)
	r.put("acme/a", "content of a")
	r.put("acme/b", "content of b")
	r.start()
	dir := t.TempDir()
	n := startNode(t, r, dir)
	n.has(t, r, "acme/a", "content of a")
	eventually(t, r, "the cursor is kept", func() bool {
		_, err := os.Stat(filepath.Join(dir, "cursor"))
		return err == nil
	})
	spoil := func(content string) {
		t.Helper()
		digits := strings.TrimPrefix(script.DigestOf([]byte(content)).String(), "sha256:")
		if err := os.WriteFile(filepath.Join(dir, "blobs", digits[:2], digits), []byte("rotten"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil("content of a")
	spoil("content of b") // which nobody has read yet
	if got := n.value("acme/a"); got != "content of a" {
		t.Errorf("what is in memory is %q", got)
	}
	if got := n.value("acme/b"); got != string(script.Unavailable) {
		t.Errorf("what is rotten is %q", got)
	}
	n.has(t, r, "acme/b", "content of b")
	n.stop()

	r.stop()
	spoil("content of b")
	n = startNode(t, r, dir)
	if got := n.value("acme/b"); got != string(script.Unavailable) {
		t.Errorf("what is rotten is %q", got)
	}
	r.start()
	n.has(t, r, "acme/a", "content of a")
	n.has(t, r, "acme/b", "content of b")
}

func TestValuesOfTenantsThatAreNotFollowed(t *testing.T) {
	r := newRegistry(t)
	r.put("acme/k", "one")
	r.put("shop/k", "two")
	r.configure("acme", script.TenantSettings{CPU: 1})
	r.configure("shop", script.TenantSettings{CPU: 2})
	r.start()
	dir := t.TempDir()
	n := startNode(t, r, dir)
	n.has(t, r, "acme/k", "one")
	n.has(t, r, "shop/k", "two")
	n.stop()
	only, err := script.ParseSelector([]string{"shop"})
	if err != nil {
		t.Fatal(err)
	}
	n = startNode(t, r, dir, func(cfg *agent.Config) { cfg.Tenants = only })
	if n.value("acme/k") != "" || n.value("shop/k") != "two" || n.Tenants().Settings("acme").CPU != 0 || n.Tenants().Settings("shop").CPU != 2 {
		t.Errorf("acme's is %q, shop's %q", n.value("acme/k"), n.value("shop/k"))
	}
	r.put("acme/k", "three")
	r.put("shop/k", "four")
	n.has(t, r, "shop/k", "four")
	n.stop()
	for _, path := range []string{"values/acme/k", "tenants/acme"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s is still on disk", path)
		}
	}
	n = startNode(t, r, dir)
	n.has(t, r, "acme/k", "three")
	eventually(t, r, "the settings are back", func() bool { return n.Tenants().Settings("acme").CPU == 1 })
}

// The cursor of software that kept releases alone has passed values: they are fetched.
func TestAfterSoftwareThatKeptReleasesAlone(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", "one")
	r.put("acme/k", "passed over")
	r.start()
	dir := t.TempDir()
	n := startNode(t, r, dir)
	n.answers(t, r, "acme/route", "one")
	n.has(t, r, "acme/k", "passed over")
	n.stop()
	asIfOfReleasesAlone(t, dir)
	n = startNode(t, r, dir)
	if got, err := n.call(t, "acme/route"); err != nil || got != "one" {
		t.Errorf("the script answers %q, %v", got, err)
	}
	n.has(t, r, "acme/k", "passed over")
}

// asIfOfReleasesAlone leaves of a state folder what such software has.
func asIfOfReleasesAlone(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "cursor")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const magic, header = 8, 8 + 4 + sha256.Size // of a record: see package store
	var cursor map[string]json.RawMessage
	if err := json.Unmarshal(data[header:], &cursor); err != nil {
		t.Fatal(err)
	}
	delete(cursor, "others")
	payload, err := json.Marshal(cursor)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(payload)
	record := binary.BigEndian.AppendUint32(data[:magic:magic], uint32(len(payload)))
	record = append(append(record, sum[:]...), payload...)
	if err := os.WriteFile(path, record, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"values", "tenants"} {
		if err := os.RemoveAll(filepath.Join(dir, folder)); err != nil {
			t.Fatal(err)
		}
	}
}

// commits notes what Committed gets, and what was live then.
type commits struct {
	mu    sync.Mutex
	noted []string
	node  *node
}

// Committed is called before the commit is live.
func (c *commits) Committed(put []script.Object, removed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range put {
		note := "put " + o.Key()
		if o.Value != nil {
			note += ", which was " + c.node.value(o.Value.Key.String())
		}
		c.noted = append(c.noted, note)
	}
	for _, key := range removed {
		note := "removed " + key
		if name, ok := strings.CutPrefix(key, "values/"); ok {
			note += ", which was " + c.node.value(name)
		}
		c.noted = append(c.noted, note)
	}
}

func TestObserversAreToldBeforeItIsLive(t *testing.T) {
	r := newRegistry(t)
	r.start()
	a := openNode(t, r, t.TempDir())
	c := &commits{node: &node{Agent: a}}
	a.Observe(c)
	n := runNode(t, a)
	r.put("acme/k", "one")
	n.has(t, r, "acme/k", "one")
	r.put("acme/k", "two")
	n.has(t, r, "acme/k", "two")
	r.publish("route", "source")
	n.answers(t, r, "acme/route", "source")
	r.delete("acme/k")
	n.has(t, r, "acme/k", "")
	want := []string{
		"put values/acme/k, which was ", "put values/acme/k, which was one", "put releases/acme/route",
		"removed values/acme/k, which was two",
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.noted, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(c.noted, "\n"), strings.Join(want, "\n"))
	}
}
