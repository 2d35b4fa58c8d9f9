//go:build !race

// The race detector's own memory is not bounded.

package confine_test

import (
	"bufio"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func TestMemoryIsCapped(t *testing.T) {
	cmd, out, said := start(t, "memory")
	lines := bufio.NewScanner(out)
	held := 0
	for lines.Scan() {
		if text, ok := strings.CutSuffix(lines.Text(), " MiB"); ok {
			held, _ = strconv.Atoi(text)
		}
		if held > 512 {
			_ = cmd.Process.Kill()
		}
	}
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(said.String(), "out of memory") {
		t.Errorf("%v: %.300s", err, said)
	}
	t.Logf("it held %d MiB under a cap of 96 MiB", held)
	if held < 48 || held > 128 {
		t.Errorf("it held %d MiB", held)
	}
}
