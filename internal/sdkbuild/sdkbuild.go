// Package sdkbuild builds the examples of sdk/, which are WebAssembly modules, for tests.
package sdkbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
)

// Languages returns the languages that have an SDK.
func Languages() []string { return []string{"go", "rust", "assemblyscript", "c"} }

// ErrNoTool says that the machine lacks a compiler.
var ErrNoTool = errors.New("the machine lacks a tool")

// noTool is the status of sdk/build.sh if a tool is missing.
const noTool = 3

// Module returns an example's module. It skips the test if the machine lacks a compiler, or fails it where
// everything is required.
func Module(tb testing.TB, language, example string) []byte {
	tb.Helper()
	dir, err := Build(tb.Context(), language)
	if errors.Is(err, ErrNoTool) {
		needs.Skip(tb, err.Error())
	}
	if err != nil {
		tb.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(dir, example+".wasm"))
	if err != nil {
		tb.Fatal(err)
	}
	return module
}

// Build builds the examples in a language, unless they are built, and returns the folder of the modules. The error
// is ErrNoTool, with the command that installs the tool, if the machine lacks one.
func Build(ctx context.Context, language string) (dir string, err error) {
	root, err := toolcache.Root()
	if err != nil {
		return "", err
	}
	sdk := filepath.Join(root, "sdk")
	if err := touch(filepath.Join(sdk, language)); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(sdk, "build.sh"), language)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == noTool {
		return "", fmt.Errorf("%w: %s", ErrNoTool, bytes.TrimSpace(stderr.Bytes()))
	}
	if err != nil {
		return "", fmt.Errorf("sdk/build.sh %s: %w\n%s", language, err, stderr.Bytes())
	}
	return filepath.Join(sdk, "out", language), nil
}

// touch looks at each source, so that Go runs a test again after a change of one.
func touch(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return filepath.SkipDir
		}
		_, err = os.Stat(path)
		return err
	})
}
