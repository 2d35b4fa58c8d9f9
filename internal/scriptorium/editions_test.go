package scriptorium_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/scriptorium"
)

// Variables of a registry's process, which this program alone reads. The first is a file that says how far
// its clock is ahead. The second has it take all sources, as an edition does whose engine knows more.
const (
	clockVariable  = "SCRIPTORIUM_TEST_CLOCK"
	engineVariable = "SCRIPTORIUM_TEST_ENGINE"
)

// command is the scriptorium command. Its registry has the clock and the engine of the variables.
func command() *cobra.Command {
	cmd := scriptorium.Command()
	var cfg registryd.Config
	if file := os.Getenv(clockVariable); file != "" {
		cfg.Clock = func() time.Time { return ahead(time.Now(), offset(file)) }
	}
	if os.Getenv(engineVariable) != "" {
		cfg.Engines = map[string]engine.Checker{"lua": anySource{}}
	}
	for _, sub := range cmd.Commands() {
		if sub.Name() == "registryd" && (cfg.Clock != nil || cfg.Engines != nil) {
			cmd.RemoveCommand(sub)
			cmd.AddCommand(registryd.CommandWith(cfg))
		}
	}
	return cmd
}

// anySource takes all sources.
type anySource struct{}

func (anySource) Name() string { return "lua" }

func (anySource) Check(engine.Source) error { return nil }

// offset is what the file says.
func offset(file string) time.Duration {
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		panic(err)
	}
	return d
}

// ahead is what time.Now returns after somebody has set the clock of the machine ahead: the wall clock
// shows another time, and the monotonic clock goes on as before. Time.Add moves both.
func ahead(now time.Time, by time.Duration) time.Time {
	const secondsAt = 30 // of a Time with a monotonic reading
	set := now
	wall := (*uint64)(unsafe.Pointer(&set))
	*wall += uint64(int64(by/time.Second)) << secondsAt //nolint:gosec // a negative one wraps, and so does the sum
	if set.Sub(now) != 0 || set.Unix()-now.Unix() != int64(by/time.Second) {
		panic("package time keeps the wall clock elsewhere by now")
	}
	return set
}

// clock is the file that says how far the clock of a registry is ahead.
type clock struct {
	t    *testing.T
	path string
}

func newClock(t *testing.T) clock {
	t.Helper()
	c := clock{t, filepath.Join(t.TempDir(), "ahead")}
	c.ahead(0)
	return c
}

// ahead sets the clock ahead, or back.
func (c clock) ahead(by time.Duration) {
	c.t.Helper()
	next := c.path + ".next"
	if err := os.WriteFile(next, []byte(by.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(next, c.path); err != nil {
		c.t.Fatal(err)
	}
}

// variable has a registry's process read the clock.
func (c clock) variable() string { return strings.Join([]string{clockVariable, c.path}, "=") }
