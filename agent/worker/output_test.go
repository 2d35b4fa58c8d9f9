package worker

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// line is one of a process's log.
const line = `{"level":"INFO","msg":"noise","text":"` + "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\"}\n"

func TestOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		o := newOutput(slog.New(slog.NewTextHandler(&log, nil)))
		write := func(s string) {
			for part := range slices.Chunk([]byte(s), 7) {
				o.take(part)
			}
		}
		if first, _ := o.crash(); first != "" {
			t.Errorf("a crash before anything: %q", first)
		}
		write(`{"time":"x","level":"WARN","msg":"careful","n":3}` + "\n")
		if got := log.String(); !strings.Contains(got, "level=WARN msg=careful process.n=3") {
			t.Errorf("logged %q", got)
		}
		write("a word\n" + strings.Repeat("x", 100_000) + "\nfatal error: stack overflow\n\ngoroutine 1:\n")
		if first, more := o.crash(); first != "fatal error: stack overflow" || !strings.Contains(more, "goroutine 1") {
			t.Errorf("the crash: %q, %q", first, more)
		}
		write("\x00\xff not text\n")
	})
}

// TestOutputCannotPassForTheAgent: what a process writes has no attribute and no level
// that the agent's own lines have.
func TestOutputCannotPassForTheAgent(t *testing.T) {
	var log strings.Builder
	o := newOutput(slog.New(slog.NewTextHandler(&log, nil)))
	o.of("acme")
	for _, level := range []string{`"ERROR+1000"`, `"nonsense"`, `7`, `"DEBUG-1000"`} {
		o.take([]byte(`{"level":` + level + `,"msg":"forged","tenant":"shop","pid":1}` + "\n"))
	}
	got := log.String()
	if strings.Count(got, "tenant=acme process.") != 3 || strings.Contains(got, " tenant=shop") || strings.Contains(got, " pid=") || strings.Contains(got, "ERROR+") {
		t.Errorf("logged %s", got)
	}
}

// TestOutputPushesBack: a process that writes too much waits, and costs no more than so
// many bytes a second, whatever it writes.
func TestOutputPushesBack(t *testing.T) {
	for name, text := range map[string]string{"its log": line, "no log": strings.Repeat("z", 99) + "\n", "no lines": strings.Repeat("z", 100)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutput(slog.New(slog.DiscardHandler))
				const size = 20 * maxOutput
				began := time.Now()
				o.readAll(strings.NewReader(strings.Repeat(text, size/len(text))))
				if took := time.Since(began); took < 18*time.Second || took > 21*time.Second {
					t.Errorf("%d bytes were taken in %v", size, took)
				}
			})
		})
	}
}

// TestOutputOfTheDead: once a process has ended, what it wrote is taken at once, so that
// the next one does not wait for it, and its last words are not lost.
func TestOutputOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		o := newOutput(slog.New(slog.NewTextHandler(&log, nil)))
		r, w := io.Pipe()
		go func() {
			_, _ = io.WriteString(w, strings.Repeat(line, 4*maxOutput/len(line))+"fatal error: the end\n")
			_ = w.Close()
		}()
		done := make(chan struct{})
		go func() {
			o.readAll(r)
			close(done)
		}()
		synctest.Wait() // it is being kept waiting
		began := time.Now()
		close(o.ended)
		<-done
		if took := time.Since(began); took > 0 {
			t.Errorf("the rest took %v", took)
		}
		if first, _ := o.crash(); first != "fatal error: the end" {
			t.Errorf("its last words: %q", first)
		}
		if log.Len() > 3*maxOutput {
			t.Errorf("%d bytes were logged", log.Len())
		}
	})
}

func TestOutputBoundsWhatItPassesOn(t *testing.T) {
	o := newOutput(slog.New(slog.DiscardHandler))
	close(o.ended)
	o.readAll(strings.NewReader(strings.Repeat("panic: "+strings.Repeat("é", maxOutputLine)+"\n", 2*maxLast)))
	if first, more := o.crash(); len(first) > maxSaid || len(more) > maxSaid || first == "" {
		t.Errorf("%d and %d bytes", len(first), len(more))
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte("{\"level\":\"INFO\",\"msg\":\"x\"}\nfatal error: y\n"))
	f.Add([]byte("{\"level\":7,\"msg\":{}}\n\n\n"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		o := newOutput(slog.New(slog.DiscardHandler))
		close(o.ended)
		o.take(b)
		o.crash()
	})
}
