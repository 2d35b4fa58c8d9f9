package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListAndRemove(t *testing.T) {
	dir := t.TempDir()
	full, empty := filepath.Join(dir, "full"), filepath.Join(dir, "empty")
	for _, folder := range []string{filepath.Join(full, "below"), empty} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(&out, "ls", []string{full, empty}); err != nil {
		t.Fatal(err)
	}
	if want := full + ":\nbelow\n\n" + empty + ":\n\n"; out.String() != want {
		t.Errorf("ls says %q, want %q", out.String(), want)
	}
	if err := run(&out, "rm", []string{"-rf", full, filepath.Join(dir, "missing")}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "empty" {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestWhatItCannotDoIsRefused(t *testing.T) {
	for _, command := range []string{"rm x", "rm -rf", "ls", "sleep 1", "cat x", "ls /nowhere-at-all"} {
		words := strings.Fields(command)
		if err := run(&strings.Builder{}, words[0], words[1:]); err == nil {
			t.Errorf("%s is done", command)
		}
	}
}
