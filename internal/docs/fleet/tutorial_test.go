package fleet_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

// TestTutorial runs docs/tutorial.md from its first line to its last.
func TestTutorial(t *testing.T) {
	top, err := os.MkdirTemp("", "tut") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	bin := filepath.Join(top, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	programs(t, bin)
	s := startSession(t, top, strings.NewReplacer("sleep 1", "sleep 0.1", "kill %1", `kill "$!"`),
		"PATH="+bin+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+filepath.Join(top, "config"))
	for _, block := range fence.FindAllStringSubmatch(s.read(filepath.Join(root, "docs", "tutorial.md")), -1) {
		switch block[1] {
		case "sh":
			s.must(block[2])
		case "console":
			for _, command := range page.Transcript(block[0]) {
				s.shown(command)
			}
		case "lua": // is in the folder by then
			_, code, _ := strings.Cut(block[2], "\n")
			if !strings.Contains(s.read(filepath.Join(top, "tutorial", "shop", "route.lua")), code) {
				t.Errorf("scriptctl init makes another script than this:\n%s", code)
			}
		}
	}
}

// fence is a block of a page.
var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
