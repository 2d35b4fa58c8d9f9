package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	suffix     = ".records"
	unreadable = ".unreadable" // appended to the name of a file that cannot be read completely
)

func (s *Spool) path(number uint64) string {
	return filepath.Join(s.cfg.Dir, fmt.Sprintf("%020d%s", number, suffix))
}

// load reads the existing segments.
func (s *Spool) load() error {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries { // sorted by name, and so by number
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

// loadSegment reads one file up to the end of its last whole record. Readers skip damage before that.
func (s *Spool) loadSegment(number uint64) (*segment, error) {
	f, err := os.Open(s.path(number))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	data, err := io.ReadAll(f)
	if err != nil {
		s.cfg.Log.Error("a file of the decision log's spool cannot be read to its end; sinks do not get the records after the offset, and the file is kept with the suffix "+unreadable,
			"path", s.path(number), "offset", len(data), "error", err)
	}
	g := &segment{number: number, size: int64(len(magic)), byTenant: map[string]int64{}, unreadable: err != nil}
	for at := len(magic); at < len(data); {
		tenant, _, size := frame(data[at:])
		if size == 0 {
			at += damageLen(data[at:])
			continue
		}
		at += size
		g.size = int64(at)
		g.records++
		g.byTenant[string(tenant)] += int64(size)
	}
	if left := int64(len(data)) - g.size; left > 0 {
		s.cfg.Log.Warn("a file of the decision log's spool ends with bytes that are no whole record. After a crash this is normal: those calls got no answer. Otherwise the disk lost records",
			"path", s.path(number), "bytes", left)
	}
	return g, nil
}

// frame decodes the frame at the start of data. The size is 0 if that frame is damaged or incomplete.
func frame(data []byte) (tenant, record []byte, size int) {
	if len(data) < frameHeader {
		return nil, nil, 0
	}
	length := int(binary.BigEndian.Uint32(data))
	if length == 0 || length > maxFrame || length > len(data)-frameHeader {
		return nil, nil, 0
	}
	body := data[frameHeader : frameHeader+length]
	n := 1 + int(body[0])
	if len(body) < n || crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(data[4:]) {
		return nil, nil, 0
	}
	return body[1:n], body[n:], frameHeader + length
}

// damageLen returns the number of damaged bytes at the start of data: up to the next whole frame, or all. Records are
// JSON and have no zero byte, so a call cannot smuggle a frame into its record.
func damageLen(data []byte) int {
	for at := 1; at < len(data); at++ {
		zero := bytes.IndexByte(data[at:], 0) // every length up to maxFrame begins with it
		if zero < 0 {
			break
		}
		at += zero
		if _, _, size := frame(data[at:]); size > 0 {
			return at
		}
	}
	return len(data)
}

// begin creates the next segment.
func (s *Spool) begin() (*segment, error) {
	s.mu.Lock()
	number := uint64(1)
	if last := s.last(); last != nil {
		number = last.number + 1
	}
	for _, r := range s.readers { // a position may be beyond the last segment
		number = max(number, r.number+1)
	}
	s.mu.Unlock()
	f, number, err := s.create(number)
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

// create creates the file of a segment, with the first number from number on that has no file.
func (s *Spool) create(number uint64) (*os.File, uint64, error) {
	for {
		f, err := os.OpenFile(s.path(number), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case errors.Is(err, fs.ErrExist):
			number++
			continue
		case errors.Is(err, fs.ErrNotExist): // another program removed the folder
			if err = makeDir(s.cfg.Dir); err == nil {
				continue
			}
		}
		return f, number, err
	}
}

// makeDir creates the folder durably.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// syncDir makes the entries of the folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
