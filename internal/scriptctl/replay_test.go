package scriptctl_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const echoManifest = `apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: route}
spec: {tenantId: acme, source: "function handle(n) return n end", entrypoint: handle}
`

const echoRecord = `{"decision_id":"d1","timestamp":"2024-02-29T12:30:15Z","tenant":"acme","script":"route","version":1,"outcome":"OK","input":1,"result":1}` + "\n"

// TestMaxDiffOfALogThatIsNotWhole: --max-diff vouches for no log that replay did not read to its end, or that
// has a line without a record. Without --max-diff, these are warnings.
func TestMaxDiffOfALogThatIsNotWhole(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(strings.Repeat(echoRecord, 100)))
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	manifest := write("route.yaml", echoManifest)
	for name, text := range map[string]string{
		"torn":                   echoRecord + echoRecord[:60],
		"torn.gz":                packed.String()[:packed.Len()-8],
		"garbage":                "garbage\n" + echoRecord,
		"an outcome of tomorrow": echoRecord + strings.Replace(echoRecord, `"OK"`, `"LATER"`, 1),
		"another disk":           echoRecord + strings.Repeat("\x00", 4096),
	} {
		log := write("log", text)
		args := []string{"replay", "acme/route", "--file", manifest, "--from", log, "-o", "json"}
		if _, stderr, code := run(t, args...); code != 0 || !strings.Contains(stderr, `"warning"`) {
			t.Errorf("%s without --max-diff: exit code %d, %s", name, code, stderr)
		}
		for _, most := range []string{"0", "100%"} {
			stdout, stderr, code := run(t, append(args, "--max-diff", most)...)
			var view struct{ Same, Bad int }
			if err := json.Unmarshal([]byte(stdout), &view); err != nil || view.Same == 0 || view.Bad != 1 {
				t.Errorf("%s: %+v, %v", name, view, err)
			}
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			var last failure
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.ExitCode != 10 || code != 10 || !strings.Contains(last.Error.Message, "1 line") {
				t.Errorf("%s with --max-diff %s: exit code %d, %s", name, most, code, stderr)
			}
		}
	}
	whole := write("log", echoRecord)
	if _, stderr, code := run(t, "replay", "acme/route", "--file", manifest, "--from", whole, "--max-diff", "0"); code != 0 {
		t.Errorf("a whole log: exit code %d, %s", code, stderr)
	}
}

// TestReplayOfAFileThatCannotBeRead: the failure is an object, with or without --max-diff.
func TestReplayOfAFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	manifest := filepath.Join(dir, "route.yaml")
	if err := os.WriteFile(manifest, []byte(echoManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/proc/self/mem", filepath.Join(dir, "none"), dir} {
		for _, flags := range [][]string{nil, {"--max-diff", "0"}} {
			all := failures(t, append([]string{"replay", "acme/route", "--file", manifest, "--from", file, "-o", "json"}, flags...)...)
			if len(all) != 1 || all[0].ExitCode == 0 {
				t.Errorf("%s: %+v", file, all)
			}
		}
	}
}
