package dev

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// applied is what a folder last made of one script.
type applied struct {
	File        string `json:"file"` // absolute
	Fingerprint string `json:"fingerprint"`
}

// journal remembers on disk what became of each script. The file is a sequence of JSON
// objects, of which each changes some scripts: one more is appended at each change, so that
// a change costs the same however many scripts there are. A line that a crash has torn is
// as if the change had not been remembered.
type journal struct {
	path    string
	applied map[string]applied // by tenant/name
	file    *os.File           // nil if it has to be written anew
	lines   int                // objects in it
}

// compactAfter is how many lines there are beside the scripts when a journal is written anew.
const compactAfter = 1000

func openJournal(path string) (*journal, error) {
	j := &journal{path: path, applied: map[string]applied{}}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole, err := j.read(data)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read, remove it to have every manifest applied again: %w", path, err)
	}
	if !whole || j.lines > 1 {
		return j, j.compact()
	}
	j.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return j, err
}

// read takes in what the file has; whole is false if its last line is torn.
func (j *journal) read(data []byte) (whole bool, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		var changes map[string]applied
		switch err := dec.Decode(&changes); {
		case errors.Is(err, io.EOF):
			return true, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return false, nil
		case err != nil:
			return false, err
		}
		for name, a := range changes {
			j.set(name, a)
		}
		j.lines++
	}
}

func (j *journal) set(name string, a applied) {
	if a == (applied{}) {
		delete(j.applied, name)
		return
	}
	j.applied[name] = a
}

// remember records what was made of a script; nothing, when it was removed.
func (j *journal) remember(name string, a applied) error {
	j.set(name, a)
	if j.file == nil || j.lines > compactAfter+2*len(j.applied) {
		return j.compact()
	}
	line, err := json.Marshal(map[string]applied{name: a})
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return errors.Join(err, j.close()) // what is there may be half a line
	}
	j.lines++
	return nil
}

// compact writes the journal anew, as one line.
func (j *journal) compact() error {
	if err := j.close(); err != nil {
		return err
	}
	line, err := json.Marshal(j.applied)
	if err != nil {
		return err
	}
	temporary := j.path + ".tmp"
	if err := os.WriteFile(temporary, append(line, '\n'), 0o600); err != nil {
		return err
	}
	if err := os.Rename(temporary, j.path); err != nil {
		return err
	}
	j.lines = 1
	j.file, err = os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600)
	return err
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}
