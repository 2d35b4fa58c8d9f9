package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// File is a decision log: records as JSON, one a line, which may be compressed by gzip.
type File struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// maxLine is how long a line may be: several times what an agent writes.
const maxLine = 8 << 20

// job is one line, and where its verdict goes.
type job struct {
	file string
	line int64
	data []byte
	bad  string // why the line was not read
	done chan verdict
}

// readAll gives each line of the files that is not empty to next.
func readAll(files []File, next func(*job) error) error {
	for _, f := range files {
		if err := readFile(f, next); err != nil {
			return err
		}
	}
	return nil
}

func readFile(f File, next func(*job) error) error {
	opened, err := f.Open()
	if err != nil {
		return err
	}
	defer opened.Close() //nolint:errcheck // nothing was written
	in, err := plainText(opened)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", f.Name, err)
	}
	for line := int64(1); ; line++ {
		data, err := readLine(in)
		j := &job{file: f.Name, line: line, data: data, done: make(chan verdict, 1)}
		switch {
		case errors.Is(err, errTooLong):
			j.bad = fmt.Sprintf("is longer than %d MiB", maxLine>>20)
		case err != nil && !errors.Is(err, io.EOF):
			// Such as a compressed file that is still being written.
			j.bad = "the rest of the file cannot be read: " + err.Error()
		case len(bytes.TrimSpace(data)) == 0:
			j = nil
		default:
			j.data = bytes.TrimSpace(data) // a line that is torn reads so
		}
		if j != nil {
			if err := next(j); err != nil {
				return err
			}
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return nil
		}
	}
}

// plainText returns what in has, decompressed if it is compressed.
func plainText(in io.Reader) (*bufio.Reader, error) {
	const size = 256 << 10
	buffered := bufio.NewReaderSize(in, size)
	magic, err := buffered.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buffered, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(z, size), nil
}

var errTooLong = errors.New("the line is too long")

// readLine returns the next line, in memory of its own. Of one that is too long it reads all and
// returns none. The error is io.EOF with the last line, which may be empty.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errTooLong
		default:
			return line, err
		}
	}
}
