// Package spool keeps records on disk until all sinks have them. A committed record survives a crash of the process or
// the machine.
package spool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"slices"
	"sync"
)

// Config of a Spool.
type Config struct {
	// Dir is the folder of its files. The spool creates it.
	Dir string
	// MaxBytes bounds the records in the spool. Append rejects more.
	MaxBytes int64
	Log      *slog.Logger
}

// Spool is a queue of records on disk. It is safe for concurrent use.
type Spool struct {
	cfg          Config
	segmentBytes int64
	wake         chan struct{} // has an element when a batch is pending; closed by Close

	mu       sync.Mutex
	segments []*segment // in order; the last one is written, unless it is sealed
	next     *batch     // the pending batch; nil if there is none
	held     int64      // bytes on disk, and in pending batches
	byTenant map[string]int64
	readers  []*Reader
	writing  bool
	closed   bool
	ended    chan struct{}
}

// segment is one file. Its content up to size is committed.
type segment struct {
	number   uint64
	size     int64
	records  int
	byTenant map[string]int64
	file     *os.File // nil when it is sealed
	// unreadable is set if a part of the file cannot be read. The file is kept.
	unreadable bool
}

// batch is records that are committed together.
type batch struct {
	frames   []byte
	records  int
	byTenant map[string]int64
	done     chan struct{}
	err      error
}

// Commit is the commit of one record.
type Commit struct{ batch *batch }

// The errors of Append and Wait.
var (
	ErrFull   = errors.New("the spool is full")
	errClosed = errors.New("the spool is closed")
)

const (
	magic        = "scriptorium decisions 1\n"
	frameHeader  = 8 // length and CRC of the body
	maxFrame     = 1 << 20
	maxSegment   = 8 << 20
	leastSegment = 64 << 10
	maxTenant    = 255
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Open opens the spool in the folder, with its existing records. The caller must Close it.
func Open(cfg Config) (*Spool, error) {
	if err := makeDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("make the folder of the spool: %w", err)
	}
	s := &Spool{
		cfg: cfg, segmentBytes: max(min(maxSegment, cfg.MaxBytes/8), leastSegment),
		wake: make(chan struct{}, 1), byTenant: map[string]int64{}, ended: make(chan struct{}),
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("load the spool: %w", err)
	}
	go s.run()
	return s, nil
}

// Append queues a record of the tenant, which is committed together with others. A tenant may hold at most as many bytes
// as stay free. Otherwise the error is ErrFull.
func (s *Spool) Append(tenant string, record []byte) (*Commit, error) {
	if len(tenant) > maxTenant || len(record) > maxFrame/2 {
		return nil, fmt.Errorf("a record of %d bytes is too large for the spool", len(record))
	}
	size := int64(frameHeader + 1 + len(tenant) + len(record))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	full := func() bool { return s.byTenant[tenant]+size > s.cfg.MaxBytes-s.held }
	if full() { // records may have waited for a sink that is gone since the last start
		if s.reclaim(); full() {
			return nil, ErrFull
		}
	}
	if s.next == nil {
		s.next = &batch{byTenant: map[string]int64{}, done: make(chan struct{})}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	b := s.next
	b.frames = appendFrame(b.frames, tenant, record)
	b.records++
	b.byTenant[tenant] += size
	s.held += size
	s.byTenant[tenant] += size
	return &Commit{b}, nil
}

func appendFrame(dst []byte, tenant string, record []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, frameHeader)...)
	dst = append(append(append(dst, byte(len(tenant))), tenant...), record...)
	body := dst[start+frameHeader:]
	binary.BigEndian.PutUint32(dst[start:], uint32(len(body))) //nolint:gosec // at most maxFrame
	binary.BigEndian.PutUint32(dst[start+4:], crc32.Checksum(body, castagnoli))
	return dst
}

// Wait waits until the record is on disk. After an error, or if ctx is done before, the record may be missing.
func (c *Commit) Wait(ctx context.Context) error {
	select {
	case <-c.batch.done:
	case <-ctx.Done():
		select {
		case <-c.batch.done: // both were ready
		default:
			return context.Cause(ctx)
		}
	}
	return c.batch.err
}

// Bytes returns the number of bytes that the spool holds.
func (s *Spool) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Close commits the queued records, and closes the spool.
func (s *Spool) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if !closed {
		close(s.wake)
	}
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, r := range s.readers {
		errs = append(errs, r.closeFile())
	}
	if last := s.last(); last != nil {
		errs = append(errs, last.seal())
	}
	return errors.Join(errs...)
}

// run commits batches until Close.
func (s *Spool) run() {
	defer close(s.ended)
	for range s.wake {
		s.commit()
	}
	s.commit()
}

// commit writes the pending batch, if there is one. Records that are appended meanwhile form the next batch.
func (s *Spool) commit() {
	s.mu.Lock()
	b := s.next
	s.next = nil
	if b == nil {
		s.mu.Unlock()
		return
	}
	s.writing = true
	last := s.last()
	s.mu.Unlock()

	last, b.err = s.write(last, b)

	s.mu.Lock()
	s.writing = false
	if b.err == nil {
		last.size += int64(len(b.frames))
		last.records += b.records
		for tenant, size := range b.byTenant {
			last.byTenant[tenant] += size
		}
		if last.size >= s.segmentBytes {
			_ = last.seal() // its content is durable already
		}
	} else {
		s.free(b.byTenant)
	}
	readers := s.readers
	s.mu.Unlock()
	close(b.done)
	if b.err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reclaim()
		return
	}
	for _, r := range readers {
		r.wake()
	}
}

// errRemoved means that a record may be missing after a restart.
var errRemoved = errors.New("another program removes the files of the spool")

// write writes the batch durably: at the end of the segment, or in a new one. It retries once in a new file if another
// program removed the first one.
func (s *Spool) write(last *segment, b *batch) (*segment, error) {
	for range 2 {
		if last == nil || last.file == nil {
			made, err := s.begin()
			if err != nil {
				return nil, err
			}
			last = made
		}
		_, err := last.file.WriteAt(b.frames, last.size)
		if err != nil {
			cut := last.file.Truncate(last.size)
			if cut == nil { // it can be written again once there is room
				return last, err
			}
			err = errors.Join(err, cut)
		} else if err = syncData(last.file); err == nil && s.linked(last) {
			return last, nil
		}
		// After a failed sync, the content of the file after size is unknown. So the next batch goes into another file.
		if err = errors.Join(err, last.seal()); err != nil {
			return nil, err
		}
	}
	return nil, errRemoved
}

// linked reports whether the segment's file is still in the folder.
func (s *Spool) linked(g *segment) bool {
	have, err := g.file.Stat()
	if err != nil {
		return false
	}
	is, err := os.Stat(s.path(g.number))
	return err == nil && os.SameFile(have, is)
}

// free frees the bytes of tenants. mu is held.
func (s *Spool) free(byTenant map[string]int64) {
	for tenant, size := range byTenant {
		s.held -= size
		if left := s.byTenant[tenant] - size; left > 0 {
			s.byTenant[tenant] = left
		} else {
			delete(s.byTenant, tenant)
		}
	}
}

// last returns the last segment; nil if there is none. mu is held.
func (s *Spool) last() *segment {
	if len(s.segments) == 0 {
		return nil
	}
	return s.segments[len(s.segments)-1]
}

// reclaim removes the segments that all readers have read. mu is held, and all readers are there.
func (s *Spool) reclaim() {
	done := func(g *segment) bool {
		return g.size == int64(len(magic)) || !slices.ContainsFunc(s.readers, func(r *Reader) bool {
			return r.number < g.number || r.number == g.number && r.offset < g.size
		})
	}
	for len(s.segments) > 0 {
		first := s.segments[0]
		busy := len(s.segments) == 1 && (s.writing || first.file != nil && first.size < s.segmentBytes/4)
		if busy || !done(first) {
			return
		}
		if err := errors.Join(first.seal(), s.remove(first)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.cfg.Log.Warn("a file of the decision log's spool cannot be removed", "path", s.path(first.number), "error", err)
		}
		s.free(first.byTenant)
		s.segments = s.segments[1:]
	}
}

// remove removes the file of a segment, or renames an unreadable one so that somebody can repair it.
func (s *Spool) remove(g *segment) error {
	path := s.path(g.number)
	if g.unreadable {
		return os.Rename(path, path+unreadable)
	}
	return os.Remove(path)
}

// seal closes the file of a segment. No more records go into it.
func (g *segment) seal() error {
	if g.file == nil {
		return nil
	}
	f := g.file
	g.file = nil
	return f.Close()
}
