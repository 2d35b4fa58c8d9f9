package tlsfiles

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"time"
)

// Watch notices that files change. It reads them: renewals replace files in many
// ways, and all of them end in another content.
type Watch struct {
	paths []string
	seen  []byte
}

// NewWatch returns a Watch that knows the files as they are now. It comes before they
// are read for use, so that no change falls in between.
func NewWatch(paths ...string) *Watch { return &Watch{paths: paths, seen: digest(paths)} }

// Run looks at the files at that interval, and calls changed after each change, until
// ctx is done. It runs once.
func (w *Watch) Run(ctx context.Context, every time.Duration, changed func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now := digest(w.paths); !bytes.Equal(now, w.seen) {
			w.seen = now
			changed()
		}
	}
}

// digest is of the files' contents and modes: what was refused for its mode is read once that is right. One
// that cannot be read counts as another content.
func digest(paths []string) []byte {
	all := sha256.New()
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			data = []byte(err.Error())
		}
		one := sha256.Sum256(data)
		all.Write(one[:])
		if info, err := os.Stat(path); err == nil {
			all.Write([]byte(info.Mode().String()))
		}
	}
	return all.Sum(nil)
}
