package spool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const suffix = ".records"

func (s *Spool) path(number uint64) string {
	return filepath.Join(s.cfg.Dir, fmt.Sprintf("%020d%s", number, suffix))
}

// load reads which records there are.
func (s *Spool) load() error {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries { // in order of their names, and so of their numbers
		number, err := strconv.ParseUint(strings.TrimSuffix(entry.Name(), suffix), 10, 64)
		if err != nil || !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		g, err := s.loadSegment(number)
		if err != nil {
			return err
		}
		s.segments = append(s.segments, g)
		for tenant, size := range g.byTenant {
			s.held += size
			s.byTenant[tenant] += size
		}
	}
	return nil
}

// loadSegment reads one file up to the first record that is not whole. Nobody was told that a record
// behind it is kept.
func (s *Spool) loadSegment(number uint64) (*segment, error) {
	f, err := os.Open(s.path(number))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	g := &segment{number: number, byTenant: map[string]int64{}}
	r := bufio.NewReaderSize(f, 1<<20)
	if head := make([]byte, len(magic)); readFull(r, head) && string(head) == magic {
		g.size = int64(len(magic))
		var frame []byte
		for {
			tenant, size, ok := readFrame(r, &frame)
			if !ok {
				break
			}
			g.size += size
			g.byTenant[tenant] += size
		}
	}
	if left := info.Size() - g.size; left > 0 {
		s.cfg.Log.Warn("the end of a file of the decision log's spool is no whole record; no call was told that it is kept",
			"path", s.path(number), "bytes", left)
	}
	return g, nil
}

func readFull(r io.Reader, to []byte) bool {
	_, err := io.ReadFull(r, to)
	return err == nil
}

// readFrame reads one frame by way of buf.
func readFrame(r io.Reader, buf *[]byte) (tenant string, size int64, ok bool) {
	var header [frameHeader]byte
	if !readFull(r, header[:]) {
		return "", 0, false
	}
	length := binary.BigEndian.Uint32(header[:])
	if length == 0 || length > maxFrame {
		return "", 0, false
	}
	*buf = slices.Grow((*buf)[:0], int(length))[:length]
	if !readFull(r, *buf) {
		return "", 0, false
	}
	name, _, ok := open(header[:], *buf)
	return string(name), frameHeader + int64(length), ok
}

// open returns what is in a frame.
func open(header, body []byte) (tenant, record []byte, ok bool) {
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(header[4:]) || len(body) < 1+int(body[0]) {
		return nil, nil, false
	}
	n := 1 + int(body[0])
	return body[1:n], body[n:], true
}

// begin makes the next segment.
func (s *Spool) begin() (*segment, error) {
	s.mu.Lock()
	number := uint64(1)
	if last := s.last(); last != nil {
		number = last.number + 1
	}
	for _, r := range s.readers { // who may be behind all that there is
		number = max(number, r.number+1)
	}
	s.mu.Unlock()
	f, err := os.OpenFile(s.path(number), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteString(magic); err == nil {
		err = syncDir(s.cfg.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	g := &segment{number: number, size: int64(len(magic)), byTenant: map[string]int64{}, file: f}
	s.mu.Lock()
	s.segments = append(s.segments, g)
	s.mu.Unlock()
	return g, nil
}

// syncDir makes the names in the folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
