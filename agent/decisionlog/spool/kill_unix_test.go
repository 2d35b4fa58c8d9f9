//go:build unix

package spool_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/spool"
)

const killedDir = "SPOOL_TEST_DIR"

// This test binary is also the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled says on standard output which records are kept.
func writeUntilKilled(dir string) {
	s, err := spool.Open(spool.Config{Dir: dir, MaxBytes: 64 << 20, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	var out sync.Mutex
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				record := fmt.Sprintf("%d/%d/%d", os.Getpid(), w, i)
				if err := keep(s, "acme", record); err != nil {
					panic(err)
				}
				out.Lock()
				fmt.Println(record)
				out.Unlock()
			}
		}()
	}
	select {}
}

// TestKilled: what was said to be kept is there after the process was killed, whenever that was.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	kept := map[string]bool{}
	for round := range 5 {
		cmd := exec.Command(os.Args[0]) //nolint:gosec // this program
		cmd.Env = append(os.Environ(), killedDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ { // until it is dead: what it has said by then counts
			kept[lines.Text()] = true
			if n == 100*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
	}
	s := open(t, dir, 64<<20)
	got := map[string]int{}
	for _, record := range take(t, s.Reader("a")) {
		got[record]++
	}
	for record := range kept {
		if got[record] != 1 {
			t.Errorf("record %s was kept, and is there %d times", record, got[record])
		}
	}
	if len(kept) < 500 {
		t.Errorf("only %d records were kept: the test shows nothing", len(kept))
	}
}
