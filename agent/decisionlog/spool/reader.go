package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Reader reads the records of a spool for one sink, each at least once. It is for one goroutine.
type Reader struct {
	spool *Spool
	path  string // of the file with its position
	ready chan struct{}

	// The committed position: a segment, and an offset in it. Guarded by Spool.mu.
	number uint64
	offset int64

	// The position after the last Next. Advance commits it.
	reading uint64
	read    int64
	file    *os.File // of the segment reading
	buf     []byte
	lost    int // since TakeLost
}

// readBytes is the approximate number of bytes that Next returns.
const readBytes = 256 << 10

// Reader returns the reader of the sink with this name. It resumes at its last position. Create all readers before the
// first Append, with unique names.
func (s *Spool) Reader(name string) *Reader {
	r := &Reader{spool: s, path: filepath.Join(s.cfg.Dir, name+".cursor"), ready: make(chan struct{}, 1)}
	if text, err := os.ReadFile(r.path); err == nil {
		if _, err := fmt.Sscanf(string(text), "%d %d\n", &r.number, &r.offset); err != nil {
			r.number, r.offset = 0, 0 // it starts over: the sink gets records again
		}
	}
	s.mu.Lock()
	s.readers = append(slices.Clone(s.readers), r)
	s.mu.Unlock()
	r.wake()
	return r
}

// Ready returns a channel that has an element when there may be new records.
func (r *Reader) Ready() <-chan struct{} { return r.ready }

func (r *Reader) wake() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// Next appends the next records to lines, or nothing if there are none. They are valid until the next call. Next returns
// the same records again until Advance.
func (r *Reader) Next(lines [][]byte) ([][]byte, error) {
	for {
		g, from := r.position()
		if g == nil {
			return lines, nil
		}
		if err := r.open(g.number); errors.Is(err, fs.ErrNotExist) {
			r.skip(g, from, g.size, "a file of the decision log's spool is gone, and its records are lost: another program removed it")
			continue
		} else if err != nil {
			return lines, err
		}
		n := min(g.size-from, readBytes)
		data, err := r.load(from, n)
		if err != nil {
			return lines, err
		}
		before := len(lines)
		all, end := split(lines, data)
		lines = all
		if len(lines) == before && n < g.size-from { // the first record is larger than readBytes
			if data, err = r.load(from, min(g.size-from, frameHeader+maxFrame)); err != nil {
				return lines, err
			}
			lines, end = split(lines, data)
		}
		if len(lines) > before {
			r.read = from + int64(end)
			return lines, nil
		}
		if data, err = r.load(from, g.size-from); err != nil {
			return lines, err
		}
		to := g.size
		if next := damageLen(data); next < len(data) {
			to = from + int64(next)
		}
		r.skip(g, from, to, "records in the decision log's spool are damaged and lost")
		r.buf = nil // it has the rest of the file
	}
}

// skip skips committed records that can no longer be read, and counts them as lost.
func (r *Reader) skip(g *segment, from, to int64, why string) {
	r.spool.cfg.Log.Error(why, "path", r.spool.path(g.number), "offset", from, "bytes", to-from, "reader", filepath.Base(r.path))
	mean := (g.size - int64(len(magic))) / max(int64(g.records), 1) // bytes of a record; the number of lost records is an estimate
	r.lost += int((to - from + mean - 1) / mean)
	r.reading, r.read = g.number, to
	_ = r.Advance() // the next Advance writes the position again
}

// TakeLost returns the approximate number of records that were lost since its last call, because they were deleted or
// damaged.
func (r *Reader) TakeLost() int {
	n := r.lost
	r.lost = 0
	return n
}

// position returns a copy of the segment with the next records, and their offset; nil if there are none.
func (r *Reader) position() (*segment, int64) {
	r.spool.mu.Lock()
	defer r.spool.mu.Unlock()
	for _, g := range r.spool.segments {
		if g.number < r.number {
			continue
		}
		from := int64(len(magic))
		if g.number == r.number {
			from = max(from, r.offset)
		}
		if from < g.size {
			return &segment{number: g.number, size: g.size, records: g.records}, from
		}
	}
	return nil, 0
}

func (r *Reader) open(number uint64) error {
	if r.file != nil && r.reading == number {
		return nil
	}
	if err := r.closeFile(); err != nil {
		return err
	}
	f, err := os.Open(r.spool.path(number))
	if err != nil {
		return err
	}
	r.file, r.reading = f, number
	return nil
}

func (r *Reader) closeFile() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

func (r *Reader) load(from, n int64) ([]byte, error) {
	r.buf = slices.Grow(r.buf[:0], int(n))[:n]
	read, err := r.file.ReadAt(r.buf, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return r.buf[:read], nil
}

// split appends the records of whole frames to lines, and returns where the frames end.
func split(lines [][]byte, data []byte) (all [][]byte, end int) {
	for {
		_, record, size := frame(data[end:])
		if size == 0 {
			return lines, end
		}
		lines = append(lines, record)
		end += size
	}
}

// Advance commits the position after the records that Next returned.
func (r *Reader) Advance() error {
	r.spool.mu.Lock()
	r.number, r.offset = r.reading, r.read
	r.spool.mu.Unlock()
	temporary := r.path + ".new"
	err := os.WriteFile(temporary, fmt.Appendf(nil, "%d %d\n", r.reading, r.read), 0o600)
	if err == nil {
		err = os.Rename(temporary, r.path)
	}
	r.spool.mu.Lock()
	defer r.spool.mu.Unlock()
	r.spool.reclaim()
	if err != nil {
		return fmt.Errorf("note how far the sink is: %w", err) // after a restart, the sink gets records again
	}
	return nil
}
