package scriptctl_test

import (
	"os"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

// TestOutputThatIsLost: a table that cannot be written is no success.
func TestOutputThatIsLost(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	dir := hostileFolder(t, map[string]any{"name": "a"})
	for _, format := range []string{"table", "json", "yaml", "junit", "tap"} {
		var problems strings.Builder
		code := scriptctl.Run(t.Context(), scriptctl.Streams{Out: full, Err: &problems}, []string{"test", dir, "-o", format})
		if code != 1 || strings.Count(problems.String(), "no space left") != 1 {
			t.Errorf("%s: exit code %d, %s", format, code, &problems)
		}
	}
}
