package host_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestLogRate: what scripts log takes no more room in the agent's log than their rate
// allows, and not much less, whatever the lines hold.
func TestLogRate(t *testing.T) {
	const seconds = 10
	formats := map[string]func(*logged) slog.Handler{
		"json": func(out *logged) slog.Handler { return slog.NewJSONHandler(out, nil) },
		"text": func(out *logged) slog.Handler { return slog.NewTextHandler(out, nil) },
	}
	messages := map[string]string{
		"empty":        "",
		"short":        "x",
		"long":         strings.Repeat("x", 4096),
		"quotes":       strings.Repeat(`"`, 4096),
		"backslashes":  strings.Repeat(`\`, 1000),
		"line ends":    strings.Repeat("\n", 1000),
		"escapes":      strings.Repeat("\x1b", 1000),
		"delete":       strings.Repeat("\x7f", 1000),
		"invalid":      strings.Repeat("\xff", 1000),
		"separators":   strings.Repeat("\u2028", 1000),
		"invisible":    strings.Repeat("\U000e0001", 1000),
		"letters":      strings.Repeat("é", 1000),
		"replacements": strings.Repeat("\ufffd", 1000),
		"emoji":        strings.Repeat("\U0001f600", 1000),
	}
	// A line counts as in the longer format, and these characters are longer in text.
	shorter := map[string]bool{messages["delete"]: true, messages["invisible"]: true}
	for format, handler := range formats {
		for name, message := range messages {
			t.Run(format+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var out logged
					const agent = `node "1"`
					h := newHost(t, host.Config{Agent: agent, Log: slog.New(handler(&out)).With("agent", agent)})
					rates := map[string]int{
						"usual": script.DefaultLimits().LogBytes,
						"small": 100, // less than a line
					}
					for range seconds * 20 {
						for name, rate := range rates {
							inv := invocation(name, strings.Repeat("s", 60))
							inv.Traceparent, inv.Version, inv.Limits.LogBytes = traceparent, 1<<64-1, rate
							for range 10 {
								h.Log(inv, engine.Error, message)
							}
						}
						<-time.After(time.Second / 20)
					}
					lines := map[string][]string{}
					for line := range strings.Lines(out.take()) {
						for name := range rates {
							if strings.Contains(line, name) {
								lines[name] = append(lines[name], line)
							}
						}
					}
					for name, rate := range rates {
						written := len(strings.Join(lines[name], ""))
						line := written / max(len(lines[name]), 1)
						most := rate*(seconds+1) + line // a second at once, and the line that uses up the rest
						if written > most || written == 0 {
							t.Errorf("%s: %d bytes in %d s, want some and at most %d", name, written, seconds, most)
						}
						if least := rate*seconds/2 - line; format == "json" && written < least && !shorter[message] {
							t.Errorf("%s: %d bytes in %d s, want at least %d", name, written, seconds, least)
						}
					}
				})
			})
		}
	}
}

// TestDebtIsNotForgotten: a script that logs one long line after the other, each after a
// while, logs no more than its rate allows.
func TestDebtIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logged
		h := newHost(t, host.Config{Log: slog.New(slog.NewJSONHandler(&out, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		inv := invocation("acme", "edge")
		inv.Limits.LogBytes = 1
		const minutes = 60
		written := 0
		for range minutes {
			h.Log(inv, engine.Info, strings.Repeat("x", 1000))
			<-time.After(time.Minute)
			for line := range strings.Lines(out.take()) {
				if strings.Contains(line, "a script says") {
					written += len(line)
				}
			}
		}
		if most := minutes*60 + 2000; written > most || written == 0 {
			t.Errorf("%d bytes in %d minutes, want at most %d", written, minutes, most)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
