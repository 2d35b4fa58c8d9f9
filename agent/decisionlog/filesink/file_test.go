package filesink_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/filesink"
)

var env = decisionlog.Env{Agent: "node-1", Log: slog.New(slog.DiscardHandler)}

func open(t *testing.T, target string) (decisionlog.Sink, error) {
	t.Helper()
	parsed, err := decisionlog.ParseTarget(target)
	if err != nil {
		return nil, err
	}
	sink, err := (decisionlog.Openers{"file": filesink.Open, "stdout": filesink.OpenStdout}).Open(parsed, env)
	if err == nil {
		t.Cleanup(func() { _ = sink.Close(t.Context()) })
	}
	return sink, err
}

func must(t *testing.T, target string) decisionlog.Sink {
	t.Helper()
	sink, err := open(t, target)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func write(t *testing.T, sink decisionlog.Sink, lines ...string) {
	t.Helper()
	var records [][]byte
	for _, line := range lines {
		records = append(records, []byte(line))
	}
	if err := sink.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log", "decisions.jsonl")
	sink := must(t, "file:"+path)
	write(t, sink, `{"a":1}`, `{"b":2}`)
	write(t, sink, `{"c":3}`)
	if got := read(t, path); got != "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n" {
		t.Errorf("the file has %q", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if _, err := open(t, "file:"+path); err == nil || !strings.Contains(err.Error(), "another process writes") {
		t.Errorf("a second agent: %v", err)
	}
	if err := sink.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What a process has not written whole is cut off by the next one.
	if err := os.WriteFile(path, []byte("{\"a\":1}\n{\"part\":"+strings.Repeat("x", 200_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, must(t, "file:"+path), `{"d":4}`)
	if got := read(t, path); got != "{\"a\":1}\n{\"d\":4}\n" {
		t.Errorf("the file has %.100q", got)
	}
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	sink := must(t, "file:"+path+"?max-size=1MiB&keep=2")
	half := strings.Repeat("x", 600_000)
	for i := range 9 {
		write(t, sink, fmt.Sprint(i)+half)
	}
	for name, want := range map[string]string{"": "8", ".1": "67", ".2": "45", ".3": ""} {
		var firsts string
		for line := range strings.Lines(read(t, path+name)) {
			firsts += line[:1]
		}
		if firsts != want {
			t.Errorf("%s has the records %q, want %q", "decisions.jsonl"+name, firsts, want)
		}
	}
}

// TestRotatedByOthers: the file that is there is written, within a second or two.
// TestRotationOfALink: the target of a symbolic link is rotated, on its own disk, and the link stays.
func TestRotationOfALink(t *testing.T) {
	for name, keep := range map[string]string{"kept": "2", "none kept": "0"} {
		dir, disk := t.TempDir(), t.TempDir()
		path, target := filepath.Join(dir, "log"), filepath.Join(disk, "decisions")
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		sink := must(t, "file:"+path+"?max-size=1MiB&keep="+keep)
		large := strings.Repeat("x", 1<<20)
		for _, line := range []string{"a" + large, "b" + large, "c"} {
			write(t, sink, line)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s: the link is %v, %v", name, info, err)
		}
		if got := read(t, target); got != "c\n" {
			t.Errorf("%s: the target has %.10q", name, got)
		}
		if got := read(t, target+".1"); keep != "0" && got != "b"+large+"\n" || keep == "0" && got != "" {
			t.Errorf("%s: the rotated file has %.10q", name, got)
		}
	}
}

func TestRotatedByOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	sink := must(t, "file:"+path)
	write(t, sink, "one")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	for i := 0; read(t, path) == ""; i++ {
		write(t, sink, fmt.Sprint(i))
	}
	if old, now := read(t, path+".old"), read(t, path); !strings.HasPrefix(old, "one\n0\n") || strings.Count(now, "\n") != 1 {
		t.Errorf("the old file has %.100q, the new one %q", old, now)
	}
}

// TestEmptiedByOthers: what copytruncate of logrotate, or ": >", leaves of the file is whole records.
func TestEmptiedByOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	sink := must(t, "file:"+path)
	for left, want := range map[int64]string{0: "three\n", 4: "one\nthree\n", 6: "one\nthree\n"} {
		write(t, sink, "one", "two")
		if err := os.Truncate(path, left); err != nil {
			t.Fatal(err)
		}
		write(t, sink, "three")
		if got := read(t, path); got != want {
			t.Errorf("of %d bytes became %q, want %q", left, got, want)
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRemovedByOthers: no rotated file is lost because the file is gone, and the folder comes back.
func TestRemovedByOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log", "decisions.jsonl")
	sink := must(t, "file:"+path+"?max-size=1MiB&keep=3")
	half := strings.Repeat("x", 600_000)
	for i := range 8 {
		write(t, sink, fmt.Sprint(i)+half)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 5 { // as the agent does, whatever comes of it
		_ = sink.Write(t.Context(), [][]byte{[]byte("9")})
	}
	for name, want := range map[string]string{"": "9", ".1": "4", ".2": "2", ".3": "0"} {
		if got := read(t, path+name); !strings.HasPrefix(got, want) {
			t.Errorf("%s begins with %.3q, want %q", "decisions.jsonl"+name, got, want)
		}
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); read(t, path) == ""; {
		if err := sink.Write(t.Context(), [][]byte{[]byte("10")}); err != nil || time.Now().After(deadline) {
			t.Fatalf("the sink does not come back: %v", err)
		}
	}
}

func TestTargets(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"":                      "begins with no kind of sink: want file, stdout",
		"syslog:x":              "begins with no kind of sink: want file, stdout",
		"file:":                 "has no absolute path",
		"file:decisions.jsonl":  "has no absolute path",
		"file:/x?max-size=1KiB": "the option max-size is 1KiB, want at least 1048576 bytes",
		"file:/x?max-size=much": `the option max-size is "much", want a size such as 100MiB`,
		"file:/x?keep=-1":       `the option keep is "-1", want a number from 0 to 1000`,
		"file:/x?keep=1&keep=2": "the option keep is there twice",
		"file:/x?kep=1":         `the option "kep" is unknown: a file has max-size, keep`,
		"file:/x?%zz":           "what is behind the ? is no list of options",
		"file:" + folder:        "is neither a file nor a character device",
		"stdout:x":              "has something behind the colon",
		"stdout?a=1":            `the option "a" is unknown: a stdout has none`,
	} {
		if _, err := open(t, target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", target, err, want)
		}
	}
	if _, err := open(t, "file:"+dir+"/a%20b?max-size=2Mi&keep=0"); err != nil {
		t.Error(err)
	}
}

// short takes so many bytes, and then no more until the next write.
type short struct {
	bytes.Buffer
	room int
}

func (s *short) Write(p []byte) (int, error) {
	if len(p) <= s.room {
		return s.Buffer.Write(p)
	}
	n, _ := s.Buffer.Write(p[:s.room])
	s.room = 1 << 20
	return n, errors.New("no room")
}

// TestAPartOfALine: the next record does not come behind it.
func TestAPartOfALine(t *testing.T) {
	w := &short{room: 5}
	sink := filesink.NewStream(w)
	if err := sink.Write(t.Context(), [][]byte{[]byte(`{"a":1}`)}); err == nil {
		t.Error("a part is no error")
	}
	write(t, sink, `{"b":2}`)
	write(t, sink, `{"c":3}`)
	if got := w.String(); got != "{\"a\":\n{\"b\":2}\n{\"c\":3}\n" {
		t.Errorf("there is %q", got)
	}
}
