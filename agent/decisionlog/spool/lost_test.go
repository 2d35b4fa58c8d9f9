package spool_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/spool"
)

// logging opens a spool that logs to the buffer.
func logging(t *testing.T, dir string) (*spool.Spool, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := spool.Open(spool.Config{Dir: dir, MaxBytes: 1 << 20, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, &log
}

func mustKeep(t *testing.T, s *spool.Spool, records ...string) {
	t.Helper()
	for _, record := range records {
		if err := keep(s, "acme", record); err != nil {
			t.Fatal(err)
		}
	}
}

// only returns the path of the only segment.
func only(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.records"))
	if err != nil || len(files) != 1 {
		t.Fatalf("there are the files %q, %v", files, err)
	}
	return files[0]
}

// TestRemovedFiles: after another program removed the files, new records are on disk, readers continue, and the
// lost records are counted.
func TestRemovedFiles(t *testing.T) {
	for name, remove := range map[string]func(string) error{
		"the folder": os.RemoveAll,
		"the files": func(dir string) error {
			return os.Remove(only(t, dir))
		},
	} {
		for _, begun := range []bool{false, true} {
			dir := filepath.Join(t.TempDir(), "spool")
			s, log := logging(t, dir)
			r := s.Reader("a")
			mustKeep(t, s, numbered(0, 3)...)
			if begun {
				take(t, r)
			}
			mustKeep(t, s, numbered(3, 6)...)
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			mustKeep(t, s, numbered(6, 9)...)
			want, gone := numbered(6, 9), 6
			if begun { // it has the file open
				want, gone = numbered(3, 9), 0
			}
			if got := take(t, r); !slices.Equal(got, want) {
				t.Errorf("%s, begun %v: the reader gets %q", name, begun, got)
			}
			if lost := r.TakeLost(); lost != gone || lost > 0 == !strings.Contains(log.String(), "is gone") {
				t.Errorf("%s, begun %v: %d records are lost, and the log says %s", name, begun, lost, log)
			}
			mustKeep(t, s, "last")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, _ = logging(t, dir)
			if got := take(t, s.Reader("b")); len(got) == 0 || got[len(got)-1] != "last" {
				t.Errorf("%s, begun %v: after a restart there are %q", name, begun, got)
			}
			if s.Bytes() > 1<<10 {
				t.Errorf("%s, begun %v: %d bytes are held", name, begun, s.Bytes())
			}
		}
	}
}

// TestFilesOfOthers: the spool does not overwrite a file that another program made.
func TestFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	s, _ := logging(t, dir)
	s.Reader("a")
	theirs := filepath.Join(dir, "00000000000000000001.records")
	if err := os.WriteFile(theirs, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustKeep(t, s, "ours")
	if text, err := os.ReadFile(theirs); string(text) != "theirs" {
		t.Errorf("their file has %q, %v", text, err)
	}
}

// TestUnreadableFile: the spool keeps a file that the disk does not return, for somebody to repair, and goes on.
func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "00000000000000000001.records")
	if err := os.Mkdir(path, 0o700); err != nil { // which opens, and cannot be read
		t.Fatal(err)
	}
	s, log := logging(t, dir)
	r := s.Reader("a")
	mustKeep(t, s, "record")
	if got := take(t, r); !slices.Equal(got, []string{"record"}) {
		t.Errorf("the reader gets %q", got)
	}
	if _, err := os.Stat(path + ".unreadable"); err != nil || !strings.Contains(log.String(), "cannot be read to its end") {
		t.Errorf("%v; the log says %s", err, log)
	}
}

// TestDamageInTheMiddle: a reader gets the records before and after the damage, whether that happens while the
// spool is open or before.
func TestDamageInTheMiddle(t *testing.T) {
	const frame = 8 + 1 + len("acme") + len("record 0")
	for name, damage := range map[string]func(file []byte) []byte{
		"a byte of a record": func(file []byte) []byte { file[len(file)-frame*4-1] ^= 1; return file },
		"a length":           func(file []byte) []byte { file[len(file)-frame*5+3] = 200; return file },
		"a length of 0":      func(file []byte) []byte { copy(file[len(file)-frame*5:], "\x00\x00\x00\x00"); return file },
		"a length of 4 GiB":  func(file []byte) []byte { copy(file[len(file)-frame*5:], "\xff\xff\xff\xff"); return file },
		"zeros":              func(file []byte) []byte { clear(file[len(file)-frame*5 : len(file)-frame*4]); return file },
		"bytes are missing":  func(file []byte) []byte { return slices.Delete(file, len(file)-frame*5+9, len(file)-frame*5+12) },
	} {
		for _, running := range []bool{false, true} {
			if running && name == "bytes are missing" { // it looks for records where it wrote them
				continue
			}
			dir := t.TempDir()
			s, log := logging(t, dir)
			r := s.Reader("a")
			mustKeep(t, s, numbered(0, 10)...)
			if !running {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			path := only(t, dir)
			file, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, damage(file), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !running {
				s, log = logging(t, dir)
				r = s.Reader("a")
			}
			mustKeep(t, s, numbered(10, 12)...)
			want := slices.Concat(numbered(0, 5), numbered(6, 12))
			if got := take(t, r); !slices.Equal(got, want) {
				t.Errorf("%s, running %v: the reader gets %q", name, running, got)
			}
			if lost := r.TakeLost(); lost != 1 {
				t.Errorf("%s, running %v: %d records are lost, want 1", name, running, lost)
			}
			if text := log.String(); !strings.Contains(text, "are damaged and lost") || strings.Contains(text, "no whole record") {
				t.Errorf("%s, running %v: the log says %s", name, running, text)
			}
		}
	}
}
