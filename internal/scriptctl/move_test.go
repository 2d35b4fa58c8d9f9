package scriptctl_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// moved is the state of a registry that says a lot: several versions, settings, a pin, a
// disabled script, an owner, and a script that was deleted.
func (p person) moved() (scripts []string) {
	p.t.Helper()
	const spec = `
apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: %s}
spec:
  tenantId: %s
  source: "function handle() return '%s v%d' end"
  config: {greeting: hi, many: [1, 2.5, null]}
  limits: {timeout: 50ms}
`
	publish := func(tenant, name string, versions int) {
		for v := range versions {
			if out, code := p.publish(fmt.Sprintf(spec, name, tenant, name, v+1), "--note", fmt.Sprint("note ", v+1)); code != 0 {
				p.t.Fatal(code, out)
			}
		}
	}
	publish("acme", "few", 2)
	publish("acme", "many", 14) // more than are retained
	publish("acme", "gone", 3)
	publish("acme", "off", 1)
	publish("shop", "price", 3)
	p.must("pin", "acme/many", "9", "--note", "safer")
	p.must("disable", "acme/off")
	p.must("owner", "shop/price", "--set", "operator:shop/price")
	p.must("delete", "acme/gone", "--yes")
	return []string{"acme/few", "acme/many", "acme/off", "shop/price"}
}

func (p person) must(args ...string) string {
	p.t.Helper()
	out, code := p.run("", args...)
	if code != 0 {
		p.t.Fatalf("scriptctl %s: exit code %d, %s", strings.Join(args, " "), code, out)
	}
	return out
}

// differs are the lines that an import changes: when the release became what it is.
var differs = regexp.MustCompile(`(?m)^ *"(revision|changedAt)": .*\n`)

// TestMove: a registry that was exported and imported into an empty one is the same to
// the version numbers, and its agents run it.
func TestMove(t *testing.T) {
	from, to := person{t, startFleet(t, 0)}, person{t, startFleet(t, 1)}
	scripts := from.moved()
	file := filepath.Join(t.TempDir(), "all.tar")
	if out := from.must("export", "-f", file); !strings.Contains(out, "5 scripts with 16 sources exported to ") {
		t.Error(out)
	}
	if out := to.must("import", "-f", file, "--dry-run"); !strings.Contains(out, "would be: 5 scripts created, 0 unchanged, 0 replaced\n") {
		t.Error(out)
	}
	if out := to.must("list", "-o", "json"); out != "[]\n" {
		t.Errorf("a dry run stored %s", out)
	}
	if out := to.must("import", "-f", file, "--note", "moved"); !strings.Contains(out, "5 scripts created, 0 unchanged, 0 replaced\n") {
		t.Error(out)
	}

	same := func(args ...string) {
		t.Helper()
		args = append(args, "-o", "json")
		got, want := differs.ReplaceAllString(to.must(args...), ""), differs.ReplaceAllString(from.must(args...), "")
		if got != want {
			t.Errorf("scriptctl %s says\n%s\nand said\n%s", strings.Join(args, " "), got, want)
		}
	}
	same("list")
	for _, name := range scripts {
		same("get", name)
		was := strings.Split(from.must("history", name), "\n")
		is := strings.Split(to.must("history", name), "\n")
		if len(is) != len(was)+1 || !strings.Contains(is[1], " import ") || !strings.HasSuffix(is[1], " moved") {
			t.Errorf("the history of %s is\n%s\nand was\n%s", name, strings.Join(is, "\n"), strings.Join(was, "\n"))
			continue
		}
		for i := 1; i < len(was)-1; i++ {
			if got, want := strings.Fields(is[i+1])[1:], strings.Fields(was[i])[1:]; strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("the history of %s: %s, and it was %s", name, got, want)
			}
		}
	}
	for version := 5; version <= 14; version++ {
		same("get", fmt.Sprintf("acme/many@%d", version))
	}

	// Its agents run it, and numbers go on.
	for _, name := range scripts[:2] {
		to.await(name)
	}
	for call, want := range map[string]string{
		"acme/few": "few v2", "acme/few@1": "few v1", "acme/many": "many v9", "acme/many@14": "many v14", "shop/price": "price v3",
	} {
		if out := to.must("call", call); out != fmt.Sprintf("%q\n", want) {
			t.Errorf("%s answers %s, want %q", call, out, want)
		}
	}
	if out, code := to.run("", "call", "acme/off"); code != 6 || !strings.Contains(out, "DISABLED") {
		t.Errorf("a disabled script: exit code %d, %s", code, out)
	}
	if out, _ := to.publish(strings.NewReplacer("name: a", "name: gone", "term", "acme").Replace(manifestA)); !strings.HasPrefix(out, "acme/gone v4 ") {
		t.Errorf("a script that was deleted before the move goes on with %s", out)
	}

	// And back again: nothing changed there.
	if out := from.must("import", "-f", file); !strings.Contains(out, "0 scripts created, 5 unchanged, 0 replaced\n") {
		t.Error(out)
	}
}

// await waits until every agent runs the script: it is configured as it is.
func (p person) await(name string) {
	p.t.Helper()
	p.must("enable", name, "--wait")
}

// TestExportTwice: what did not change gives the same bytes, but for the time.
func TestExportTwice(t *testing.T) {
	p := person{t, startFleet(t, 0)}
	p.moved()
	dir := t.TempDir()
	export := func(n int) string {
		file := filepath.Join(dir, fmt.Sprint(n))
		p.must("export", "-f", file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		const manifest = 2 * 512 // its header and its content
		return string(data[manifest:bytes.LastIndex(data, []byte("end.json"))])
	}
	first := export(0)
	if !strings.HasPrefix(first, "blobs/sha256/") {
		t.Fatalf("the archive goes on with %q", first[:100])
	}
	for n := range 3 {
		if export(n+1) != first {
			t.Fatal("another export of the same has other bytes")
		}
	}
}

// An archive does not belong on a terminal.
func TestExportToTerminal(t *testing.T) {
	p := person{t, startFleet(t, 0)}
	if out, code := p.run("", "export", "-f", "-"); code != 2 || !strings.Contains(out, "standard output is a terminal") {
		t.Errorf("exit code %d, %s", code, out)
	}
}
