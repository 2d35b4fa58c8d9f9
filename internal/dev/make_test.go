package dev_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// TestMakeRun: `make run` has people edit a copy of the examples, which stays, and says so
// when it has to build for long.
func TestMakeRun(t *testing.T) {
	needs.Command(t, "make", "make")
	maker, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o700); err != nil { //nolint:gosec // some are programs
			t.Fatal(err)
		}
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	write("Makefile", string(makefile))
	write("examples/scripts/greet.yaml", "Hello")
	run := func(args ...string) string {
		t.Helper()
		// What is built is old enough: make leaves it as it is.
		cmd := exec.CommandContext(t.Context(), maker, append([]string{"run", "--old-file=bin/scriptorium", "--old-file=bin/scriptctl"}, args...)...)
		cmd.Dir = tree
		// Of its own: `make test` hands its flags down, and a make below it prints folders.
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
		out, _ := cmd.CombinedOutput() // without bin/scriptorium it fails
		return string(out)
	}
	const building = "the first build takes about a minute"
	if out := run(); !strings.HasPrefix(out, "building") || !strings.Contains(out, building) {
		t.Errorf("of the first build it says %q", out)
	}
	write("bin/scriptorium", "#!/bin/sh\necho \"$@\"\ncat my-scripts/greet.yaml\n")
	if out := run("ARGS=--agents 5"); out != "dev --scripts my-scripts --agents 5\nHello" {
		t.Errorf("make run: %q", out)
	}
	write("my-scripts/greet.yaml", "Good morning")
	if out := run(); out != "dev --scripts my-scripts\nGood morning" {
		t.Errorf("make run, again: %q", out)
	}
	if original, err := os.ReadFile(filepath.Join(tree, "examples/scripts/greet.yaml")); err != nil || string(original) != "Hello" {
		t.Errorf("the example is %q, %v", original, err)
	}
	if out := run("SCRIPTS=other"); !strings.HasPrefix(out, "dev --scripts other\n") {
		t.Errorf("make run on another folder: %q", out)
	}
}
