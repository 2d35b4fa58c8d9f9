package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
)

func doc(name, spec string) string {
	return "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: " + name + "}\nspec: {tenantId: acme, " + spec + "}\n"
}

func TestLoadFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b.yml", doc("b", "source: return 1"))
	write(t, dir, "a.yaml", doc("a1", "sourceFile: a.lua")+"---\n"+doc("a2", "source: return 1"))
	write(t, dir, "c.json", `{"apiVersion":"scriptorium.dev/v1alpha1","kind":"LuaScript","metadata":{"name":"c"},"spec":{"tenantId":"acme","source":"return 1"}}`)
	write(t, dir, "a.lua", "return 1")
	write(t, dir, ".#a.yaml", "an editor's lock: [")
	write(t, dir, "README.md", "no manifest")
	if err := os.Mkdir(filepath.Join(dir, "below.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := manifest.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range got {
		names = append(names, m.Name.Script)
	}
	if s := strings.Join(names, " "); s != "a1 a2 b c" {
		t.Errorf("got %s", s)
	}
	if want := filepath.Join(dir, "a.lua"); got[0].SourceFile != want || string(got[0].Source) != "return 1" {
		t.Errorf("got %+v, want the source of %s", got[0], want)
	}
}

func TestLoadReportsAllFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "1.yaml", doc("x", "source: return 1"))
	write(t, dir, "2.yaml", doc("x", "source: return 2"))
	write(t, dir, "3.yaml", "a: [")
	write(t, dir, "4.yaml", doc("y", "source: ''"))
	got, err := manifest.Load(dir)
	if len(got) != 1 || string(got[0].Source) != "return 1" {
		t.Errorf("got %+v, want the first of the two alone", got)
	}
	for _, want := range []string{
		filepath.Join(dir, "2.yaml") + ":1:1: metadata.name: acme/x already has a manifest, " + filepath.Join(dir, "1.yaml") + ":1",
		filepath.Join(dir, "3.yaml") + ":1: is not YAML",
		filepath.Join(dir, "4.yaml") + ":4:32: spec.source: is empty",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := manifest.Load(filepath.Join(t.TempDir(), "none.yaml"))
	if err == nil || !strings.HasSuffix(err.Error(), "none.yaml: cannot be read: no such file or directory") {
		t.Errorf("got %v", err)
	}
}

// A manifest of a stranger must not read what its folder does not hold.
func TestSourceFileStaysInside(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret", "return 'secret'")
	dir := filepath.Join(outside, "manifests")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "inside.lua", "return 1")
	for link, target := range map[string]string{"out.lua": "../secret", "abs.lua": filepath.Join(outside, "secret"), "in.lua": "inside.lua", "up": ".."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.lua"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"inside.lua":                     "",
		"in.lua":                         "",
		"../secret":                      "is not inside the manifest's folder",
		"x/../inside.lua":                "is not inside the manifest's folder",
		filepath.Join(outside, "secret"): "is not inside the manifest's folder",
		"out.lua":                        "cannot be read: path escapes from parent",
		"abs.lua":                        "cannot be read: path escapes from parent",
		"up/secret":                      "cannot be read: path escapes from parent",
		"pipe.lua":                       "cannot be read: is not a regular file",
		".":                              "cannot be read: is not a regular file",
		"none.lua":                       "cannot be read: no such file or directory: none.lua",
		`""`:                             "is not inside the manifest's folder",
	} {
		ms, err := manifest.Parse("m.yaml", []byte(doc("x", "sourceFile: "+path)), dir)
		switch {
		case want == "" && (err != nil || string(ms[0].Source) != "return 1"):
			t.Errorf("%s: %v", path, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}
