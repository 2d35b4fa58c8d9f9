package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

// volume is a folder such as the kubelet makes for a ConfigMap: its files are links
// through one link that is replaced when they change.
type volume struct {
	t   *testing.T
	dir string
	n   int
}

func (v *volume) set(content string) {
	v.t.Helper()
	v.n++
	data := filepath.Join(v.dir, "..data."+string(rune('0'+v.n)))
	err := os.Mkdir(data, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(data, "content"), []byte(content), 0o644)
	}
	link := filepath.Join(v.dir, "..data_tmp")
	if err == nil {
		err = os.Symlink(filepath.Base(data), link)
	}
	if err == nil {
		err = os.Rename(link, filepath.Join(v.dir, "..data"))
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

func TestWatchSeesAVolumeChange(t *testing.T) {
	v := &volume{t: t, dir: t.TempDir()}
	v.set("one\n")
	file := filepath.Join(v.dir, "content")
	if err := os.Symlink(filepath.Join("..data", "content"), file); err != nil {
		t.Fatal(err)
	}
	seen := sight.NewLog("node1")
	done := make(chan error, 1)
	go func() { done <- watch(t.Context(), file, seen) }()
	next := func(from string) sight.State {
		t.Helper()
		answer := httptest.NewRecorder()
		seen.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/sights?wait=20s&from="+from, nil))
		var report sight.Report
		if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Sights) != 1 {
			t.Fatalf("from %s: got %+v", from, report.Sights)
		}
		return report.Sights[0].State
	}
	if got := next("0"); got.Content != "one" {
		t.Errorf("at first: %+v", got)
	}
	v.set("two\n")
	if got := next("1"); got.Content != "two" {
		t.Errorf("after the change: %+v", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := next("2"); got.Failure != "NOTFOUND" {
		t.Errorf("without the file: %+v", got)
	}
	select {
	case err := <-done:
		t.Errorf("the watch ended: %v", err)
	default:
	}
}

func TestWatchWantsTheFolder(t *testing.T) {
	if err := watch(t.Context(), filepath.Join(t.TempDir(), "none", "content"), sight.NewLog("")); err == nil {
		t.Error("a folder that is not there can be watched")
	}
}
