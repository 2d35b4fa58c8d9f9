package local_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/local"
)

// TestEtcdIsLost: a stack whose etcd lost its data does not start, and says what to do.
// With the data back it goes on.
func TestEtcdIsLost(t *testing.T) {
	s := start(t)
	dir := s.dir
	s.converge(s.publish(1).Release.Revision)
	s.stop()
	data, away := filepath.Join(dir, "etcd"), filepath.Join(dir, "away")
	if err := os.Rename(data, away); err != nil {
		t.Fatal(err)
	}
	empty, err := local.Start(t.Context(), dir, agents, slog.New(slog.DiscardHandler))
	if err == nil {
		_ = empty.Stop(t.Context())
		t.Fatal("it started without its data")
	}
	if !strings.Contains(err.Error(), "--state") || !strings.Contains(err.Error(), "remove "+dir+" to start again") {
		t.Errorf("%v; want it to name --state and say what to do", err)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, data); err != nil {
		t.Fatal(err)
	}
	s = startIn(t, dir)
	for i := range agents {
		s.awaitAnswer(i, answer(1))
	}
}

// TestWithoutAMark: a state folder of an edition that did not note the fleet goes on with
// the fleet that it has, and notes it.
func TestWithoutAMark(t *testing.T) {
	s := start(t)
	dir, mark := s.dir, filepath.Join(s.dir, "fleet")
	s.converge(s.publish(1).Release.Revision)
	s.stop()
	before, err := os.ReadFile(mark)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	s = startIn(t, dir)
	s.converge(s.publish(2).Release.Revision)
	if after, err := os.ReadFile(mark); err != nil || string(after) != string(before) {
		t.Errorf("the file fleet: %q, %v; want %q", after, err, before)
	}
}
