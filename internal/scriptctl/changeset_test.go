package scriptctl_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

func runQuietly(t *testing.T, args ...string) int {
	t.Helper()
	return scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, args)
}

// TestAddsAtOnce: each add of several at once is in the file, if it succeeded.
func TestAddsAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cart.yaml")
	command := func(args ...string) int {
		return runQuietly(t, append([]string{"changeset"}, args...)...)
	}
	if code := command("create", "acme/cart", "-f", file); code != 0 {
		t.Fatal(code)
	}
	var adding sync.WaitGroup
	for i := range 16 {
		adding.Go(func() {
			if code := command("add", file, "--value", fmt.Sprintf("key-%02d=on", i)); code != 0 {
				t.Errorf("add %d: exit code %d", i, code)
			}
		})
	}
	adding.Wait()
	text, err := os.ReadFile(file)
	if n := strings.Count(string(text), "key-"); err != nil || n != 16 {
		t.Errorf("%d of 16 values are in the file, %v", n, err)
	}
}

// TestAddToNoFile: what is no plain file is refused at once.
func TestAddToNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatalf("the folder of the test is on a file system without named pipes: set TMPDIR to another: %v", err)
	}
	for _, file := range []string{pipe, "/dev/zero"} {
		for _, args := range [][]string{{"changeset", "add", file, "--value", "a=b"}, {"changeset", "publish", file}, {"apply", "--value", "acme/a=b", "--rollout", file}} {
			done := make(chan int, 1)
			go func() { done <- runQuietly(t, args...) }()
			select {
			case code := <-done:
				if code != 2 {
					t.Errorf("%v: exit code %d", args, code)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%v hangs", args)
			}
		}
	}
}
