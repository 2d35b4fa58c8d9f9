package netfault

import (
	"io"
	"time"
)

// late writes to one end of a pair what the link's fault lets through, when it
// does.
type late struct {
	link    *Link
	pair    *pair
	to      io.Writer
	answers bool // it is the server that says it
}

// slice is how long a throttled write waits at most before it looks again at
// what the fault is.
const slice = 50 * time.Millisecond

// Write implements io.Writer. It returns once the bytes are forwarded.
func (w *late) Write(data []byte) (int, error) {
	written := 0
	delayed := false
	for written < len(data) {
		if err := w.link.await(w.pair.source); err != nil {
			return written, err
		}
		if w.answers && w.link.lose(w.pair) {
			return len(data), nil
		}
		f, changed := w.link.fault(w.pair.source)
		part, wait := data[written:], time.Duration(0)
		switch f.Mode {
		case Cut, Blackhole: // since await looked
			continue
		case Mute: // what the client says goes through
			if w.answers {
				continue
			}
		case Delay:
			if !delayed {
				delayed, wait = true, f.Late
			}
		case Throttle:
			most := max(1, int(int64(f.BytesPerSecond)*int64(slice)/int64(time.Second)))
			part, wait = part[:min(len(part), most)], slice
		}
		if !w.pause(wait, changed) {
			if err := w.link.ctx.Err(); err != nil {
				return written, err
			}
			continue
		}
		n, err := w.to.Write(part)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// pause waits, and reports false if the fault changed meanwhile.
func (w *late) pause(d time.Duration, changed <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-changed:
		return false
	case <-w.link.ctx.Done():
		return false
	}
}
