// Package filesink writes records to a file, which it rotates, or to standard output: one record a line.
package filesink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
)

// Bounds of the options.
const (
	defaultSize = 100 << 20
	leastSize   = 1 << 20
	defaultKeep = 5
	mostKeep    = 1000
)

// Open makes the sink of file:PATH?max-size=100MiB&keep=5.
func Open(t *decisionlog.Target, env decisionlog.Env) (decisionlog.Sink, error) {
	maxSize, keep := t.Size("max-size", defaultSize, leastSize), t.Number("keep", defaultKeep, 0, mostKeep)
	if err := t.Err(); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(t.Where) {
		return nil, errors.New("has no absolute path: want file:/var/log/scriptorium/decisions.jsonl")
	}
	return New(Config{Path: t.Where, MaxBytes: maxSize, Keep: int(keep), Log: env.Log})
}

// Config of a File.
type Config struct {
	Path string
	// MaxBytes is the size at which the file is rotated: PATH becomes PATH.1, PATH.1 becomes PATH.2, and so on. 0 means
	// never.
	MaxBytes int64
	// Keep is the number of rotated files to keep.
	Keep int
	Log  *slog.Logger
}

// File is a sink. Every line of its files is a whole record.
type File struct {
	cfg     Config
	file    *os.File
	device  bool  // a character device, without a size
	size    int64 // up to the end of the last whole record
	part    bool  // the file has an incomplete record after size
	checked time.Time
	buf     []byte
}

var (
	_ decisionlog.Sink   = (*File)(nil)
	_ decisionlog.Syncer = (*File)(nil)
)

// New opens the file, and locks it for this process.
func New(cfg Config) (*File, error) {
	f := &File{cfg: cfg}
	return f, f.open()
}

// open opens the file, and cuts off an incomplete last line: its Write has not returned successfully.
func (f *File) open() error {
	if err := os.MkdirAll(filepath.Dir(f.cfg.Path), 0o700); err != nil {
		return err
	}
	info, err := os.Stat(f.cfg.Path)
	if err == nil && !info.Mode().IsRegular() && info.Mode()&fs.ModeCharDevice == 0 {
		return fmt.Errorf("%s is neither a file nor a character device", f.cfg.Path)
	}
	file, err := os.OpenFile(f.cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if info, err = file.Stat(); err != nil {
		return errors.Join(err, file.Close())
	}
	f.device, f.checked = !info.Mode().IsRegular(), time.Now()
	if f.device {
		f.file, f.size = file, 0
		return nil
	}
	if err := lock(file); err != nil {
		return errors.Join(fmt.Errorf("another process writes %s: %w", f.cfg.Path, err), file.Close())
	}
	size, err := wholeLines(file, info.Size())
	if err == nil && size < info.Size() {
		f.cfg.Log.Warn("the last line of the decision log is no whole record; it is cut off", "path", f.cfg.Path, "bytes", info.Size()-size)
		err = file.Truncate(size)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.size = file, size
	return nil
}

// wholeLines returns where the last whole line of the file ends.
func wholeLines(file io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		from := max(end-int64(len(buf)), 0)
		part := buf[:end-from]
		if _, err := file.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		end = from
	}
	return 0, nil
}

// keptBuffer bounds the buffer that is kept between writes.
const keptBuffer = 1 << 20

// Write implements decisionlog.Sink.
func (f *File) Write(_ context.Context, records [][]byte) error {
	if err := f.ready(); err != nil {
		return err
	}
	f.buf = f.buf[:0]
	for _, record := range records {
		f.buf = append(append(f.buf, record...), '\n')
	}
	defer func() {
		if cap(f.buf) > keptBuffer {
			f.buf = nil
		}
	}()
	if f.device {
		_, err := f.file.Write(f.buf)
		return err
	}
	if _, err := f.file.WriteAt(f.buf, f.size); err != nil {
		f.part = true
		return errors.Join(err, f.cut())
	}
	f.size += int64(len(f.buf))
	return nil
}

// cut removes an incomplete record, so that the next one starts on a new line.
func (f *File) cut() error {
	err := f.file.Truncate(f.size)
	f.part = err != nil
	return err
}

// ready opens, repairs or rotates the file if necessary.
func (f *File) ready() error {
	if f.file == nil {
		return f.open()
	}
	if f.device {
		return nil
	}
	if err := f.shorten(); err != nil {
		return err
	}
	full, now := f.cfg.MaxBytes > 0 && f.size >= f.cfg.MaxBytes, time.Now()
	if !full && now.Sub(f.checked) < time.Second {
		return nil
	}
	f.checked = now
	if f.moved() {
		return f.reopen()
	}
	if full {
		if err := f.rotate(); err != nil {
			return fmt.Errorf("rotate: %w", err)
		}
		return f.reopen()
	}
	return nil
}

// shorten sets size to the end of the last whole record if another program has truncated the file.
func (f *File) shorten() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.size {
		if f.size, err = wholeLines(f.file, info.Size()); err != nil {
			return err
		}
		f.part = f.size < info.Size()
	}
	if f.part {
		return f.cut()
	}
	return nil
}

// moved reports whether another program has rotated or removed the file.
func (f *File) moved() bool {
	have, err := f.file.Stat()
	if err != nil {
		return true
	}
	is, err := os.Stat(f.cfg.Path)
	return err != nil || !os.SameFile(have, is)
}

func (f *File) reopen() error {
	old := f.file
	f.file = nil
	return errors.Join(old.Close(), f.open())
}

// rotate renames the file to PATH.1, and the rotated files up to the first free number. If the path is a symbolic link,
// it renames the target.
func (f *File) rotate() error {
	path, err := filepath.EvalSymlinks(f.cfg.Path)
	if err != nil {
		return err
	}
	if f.cfg.Keep == 0 {
		return os.Remove(path)
	}
	numbered := func(i int) string { return path + "." + strconv.Itoa(i) }
	free := 1
	for ; free < f.cfg.Keep; free++ {
		if _, err := os.Lstat(numbered(free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	for i := free - 1; i > 0; i-- {
		if err := os.Rename(numbered(i), numbered(i+1)); err != nil {
			return err
		}
	}
	return os.Rename(path, numbered(1))
}

// Sync implements decisionlog.Syncer.
func (f *File) Sync() error {
	if f.file == nil || f.device {
		return nil
	}
	return f.file.Sync()
}

// Close implements decisionlog.Sink.
func (f *File) Close(context.Context) error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
