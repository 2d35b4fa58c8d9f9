package tlsfiles

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Secret reads a token or a password from a file, without the white space at its end.
// The function returns what the file holds when it is called, or held last when it
// could be read; it is safe for concurrent use. Errors are Invalid and name the file.
// modes selects what happens if other users can read or change the file; a file that
// replaces it is used, with a warning.
func Secret(path string, modes Modes, log *slog.Logger) (func() (string, error), error) {
	text, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	if err := modes.Check(path, log); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	checked := time.Now()
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(checked) >= recheck {
			checked = now
			if again, err := readSecret(path); err == nil && again != text {
				text = again
				_ = WarnOfOpen.Check(path, log)
			}
		}
		return text, nil
	}, nil
}

func readSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	text := strings.TrimRight(string(data), " \t\r\n")
	if text == "" {
		return "", script.Errorf(script.Invalid, path, "is empty: it is to hold a secret")
	}
	if strings.ContainsAny(text, "\r\n\x00") {
		return "", script.Errorf(script.Invalid, path, "has several lines: it is to hold one secret and nothing else")
	}
	return text, nil
}
