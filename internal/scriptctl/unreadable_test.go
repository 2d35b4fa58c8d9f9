package scriptctl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
)

// spoil puts garbage in place of records in etcd, and waits until status names them.
func (p person) spoil(stack *local.Stack, keys ...string) {
	p.t.Helper()
	c := etcdtest.Client(p.t, stack.EtcdEndpoint())
	for _, key := range keys {
		if _, err := c.Put(p.t.Context(), etcdstore.DefaultPrefix+key, "garbage"); err != nil {
			p.t.Fatal(err)
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); ; {
		out := p.must("status", "-o", "json")
		if strings.Count(out, `"record"`) >= len(keys) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			p.t.Fatalf("the status is %s", out)
		}
	}
}

// TestRecordsThatCannotBeRead: commands print all others and name these; they can be replaced,
// and doctor repairs them.
func TestRecordsThatCannotBeRead(t *testing.T) {
	stack, dir := startStack(t, 1)
	p := person{t, dir}
	const spec = "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: %s}\nspec: {tenantId: acme, source: \"return '%s'\", entrypoint: \"\"}\n"
	for _, name := range []string{"a", "b"} {
		if out, code := p.publish(fmt.Sprintf(spec, name, name), "--wait"); code != 0 {
			t.Fatal(code, out)
		}
	}
	p.must("kv", "put", "acme/flag", "on")
	p.must("kv", "put", "acme/other", "on")
	p.must("tenant", "set", "acme", "--concurrency", "3")
	p.spoil(stack, "releases/acme/a", "values/acme/flag", "tenants/acme")
	file := filepath.Join(t.TempDir(), "all.tar")
	declared := filepath.Join(t.TempDir(), "b.yaml")
	if err := os.WriteFile(declared, fmt.Appendf(nil, spec, "b", "b"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string][]string{
		"list":         {"acme/a   -", "unreadable", "acme/b   v1", "error: the registry cannot read releases/acme/a (revision "},
		"list -o json": {`"script": "acme/a"`, `"unreadable": {`, `"record": "releases/acme/a"`, `"exitCode":8`},
		"kv list acme": {"other", "cannot read values/acme/flag"},
		"tenant list":  {"cannot read tenants/acme"},
		"apply --project p --prune --dry-run " + declared: {"cannot read releases/acme/a"},
		"export -f " + file:     {"1 script with 1 source", "cannot read releases/acme/a", "cannot read values/acme/flag", "cannot read tenants/acme"},
		"doctor":                {"releases/acme/a", "restore it as it was at revision", "3 records cannot be read"},
		"doctor acme/a -o json": {`"record": "releases/acme/a"`, `"repairable": true`, `"repaired": false`},
	} {
		out, code := p.run("", strings.Fields(args)...)
		for _, text := range want {
			if code != 8 || !strings.Contains(out, text) {
				t.Errorf("%s: exit code %d, without %q:\n%s", args, code, text, out)
			}
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if out := p.must("status"); !strings.Contains(out, "unreadable") || !strings.Contains(out, "warning: the registry cannot read values/acme/flag") {
		t.Error(out)
	}
	for _, args := range []string{"get acme/a", "disable acme/a", "kv get acme/flag", "tenant get acme"} {
		if out, code := p.run("", strings.Fields(args)...); code == 0 || !strings.Contains(out, "cannot be read") || !strings.Contains(out, "scriptctl doctor") {
			t.Errorf("%s: exit code %d, %s", args, code, out)
		}
	}

	if out := p.must("doctor", "--repair", "--note", "garbage"); strings.Count(out, " repaired ") != 3 {
		t.Error(out)
	}
	if out := p.must("doctor"); !strings.Contains(out, "all records can be read") {
		t.Error(out)
	}
	if out := p.must("history", "acme/a"); !strings.Contains(out, " repair ") || !strings.Contains(out, " garbage") {
		t.Error(out)
	}
	p.spoil(stack, "releases/acme/a", "releases/acme/b")
	if out, code := p.publish(fmt.Sprintf(spec, "a", "changed")); code == 0 || !strings.Contains(out, "--force") {
		t.Errorf("exit code %d, %s", code, out)
	}
	if out, code := p.publish(fmt.Sprintf(spec, "a", "changed"), "--force", "--wait"); code != 0 {
		t.Errorf("exit code %d, %s", code, out)
	}
	p.must("delete", "acme/b", "--yes")
	if out := p.must("list"); strings.Contains(out, "acme/b") || !strings.Contains(out, "acme/a   v2") {
		t.Error(out)
	}

	// What etcd has forgotten.
	p.spoil(stack, "values/acme/other")
	c := etcdtest.Client(t, stack.EtcdEndpoint())
	now, err := c.Get(t.Context(), "none")
	if err == nil {
		_, err = c.Compact(t.Context(), now.Header.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"doctor": "agents may have it: run scriptctl doctor --repair --from-agents", "doctor --from-agents": "run scriptctl doctor --repair --from-agents",
	} {
		if out, code := p.run("", strings.Fields(args)...); code != 8 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, without %q:\n%s", args, code, want, out)
		}
	}
	if out := p.must("doctor", "--repair", "--from-agents"); !strings.Contains(out, "from the agent ") {
		t.Error(out)
	}
	if out := p.must("kv", "get", "acme/other"); out != "on" {
		t.Errorf("the value is %q", out)
	}
}
