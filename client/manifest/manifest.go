// Package manifest reads LuaScript manifests: the YAML (or JSON) that a cluster
// takes with kubectl, read here without one.
//
// It is strict where kubectl is: unknown and doubled fields, wrong types and
// impossible values are faults, each with file, line, column and the path of
// the field, and all faults of a file are reported at once. It reads a script's
// source but does not compile it; Manifest.Locate says where in which file a
// compiler's error is.
package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// APIVersion and Kind are what a manifest must say that it is.
const (
	APIVersion = "scriptorium.dev/v1alpha1"
	Kind       = "LuaScript"
)

// Engine is the engine of a LuaScript.
const Engine = "lua"

// DefaultEntrypoint is the entrypoint of a manifest that names none.
const DefaultEntrypoint = "handle"

// MaxFileBytes is the size of the largest manifest file that is read.
const MaxFileBytes = 4 << 20

// Manifest is one LuaScript as its file states it: the whole of it, so that
// what the file leaves out is meant to have its default.
type Manifest struct {
	File string // as given to Load or Parse
	Line int    // of File, from 1, where the document starts

	Name   script.Name
	Source []byte
	// SourceFile is the path of the file that spec.sourceFile names, or "": the
	// source then stands in File.
	SourceFile string
	Entrypoint string // "" means that the chunk itself is the program
	Enabled    bool
	Pin        uint64 // the version that is pinned; 0 follows the latest
	Settings   script.Settings

	at place
}

// place is where the source stands in the manifest's file.
type place struct {
	line, column int  // of the value
	block        bool // a literal block: its lines are lines of the source
	indent       int  // of the block's lines, in bytes
}

// Publish returns the request that makes the registry's script what the
// manifest says: source, settings, pin and whether it is enabled.
func (m *Manifest) Publish() registryclient.PublishRequest {
	return registryclient.PublishRequest{
		Name:       m.Name,
		Source:     m.Source,
		Engine:     Engine,
		Entrypoint: new(m.Entrypoint),
		Settings:   new(m.Settings),
		Enabled:    new(m.Enabled),
		Pin:        new(m.Pin),
	}
}

// Position returns where line and column of the source are: "route.lua:3:7",
// or the line and column of the manifest if the source stands there in a
// literal block. In any other form (base64, quoted) source lines are not lines
// of the file: it returns where the value starts, and "line 3 of the source".
// A column of 0 is unknown and left out.
func (m *Manifest) Position(line, column int) string {
	file, l, c, note := m.locate(line, column)
	pos := position(file, l, c)
	if note != "" {
		pos += " (" + note + ")"
	}
	return pos
}

// Locate returns err with its place in the file, if it is an error in the
// source: a *script.Error with a line. Any other error is returned as it is.
func (m *Manifest) Locate(err error) error {
	e, ok := errors.AsType[*script.Error](err)
	if !ok || e.Line == 0 {
		return err
	}
	file, line, column, note := m.locate(e.Line, e.Column)
	message := e.Message
	if note != "" {
		message += " (" + note + ")"
	}
	return &Error{File: file, Line: line, Column: column, Message: message, Err: err}
}

func (m *Manifest) locate(line, column int) (file string, l, c int, note string) {
	switch {
	case m.SourceFile != "":
		return m.SourceFile, line, column, ""
	case m.at.block && column > 0:
		return m.File, m.at.line + line, m.at.indent + column, ""
	case m.at.block:
		return m.File, m.at.line + line, 0, ""
	default:
		return m.File, m.at.line, m.at.column, fmt.Sprintf("line %d of the source", line)
	}
}

// Load reads a manifest file, or all manifests of a folder: its files *.yaml,
// *.yml and *.json in order of their names, neither hidden ones nor those in
// folders below. An empty folder holds no manifests.
//
// It returns the manifests that are right even when others are not; the error
// then joins an *Error for each fault. Two manifests of one script are a fault
// of the second.
func Load(path string) ([]Manifest, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = manifestFiles(path); err != nil {
			return nil, unreadable(path, err)
		}
	}
	var all []Manifest
	var faults []error
	for _, file := range files {
		data, err := readFile(os.Open(file))
		if err != nil {
			faults = append(faults, unreadable(file, err))
			continue
		}
		ms, err := Parse(file, data, filepath.Dir(file))
		if err != nil {
			faults = append(faults, err)
		}
		all = append(all, ms...)
	}
	all, doubled := dropDoubles(all)
	return all, errors.Join(slices.Concat(faults, doubled)...)
}

func manifestFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && IsManifestFile(e.Name()) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// IsManifestFile reports whether Load would read a file of this name in a
// folder.
func IsManifestFile(name string) bool {
	base := filepath.Base(name)
	if strings.HasPrefix(base, ".") {
		return false
	}
	switch filepath.Ext(base) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// readFile reads a regular file of at most MaxFileBytes, and closes it.
func readFile(f *os.File, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxFileBytes {
		return nil, fmt.Errorf("is larger than %d bytes", MaxFileBytes)
	}
	return data, nil
}

func unreadable(path string, err error) *Error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return &Error{File: path, Message: "cannot be read: " + err.Error(), Err: err}
}

// dropDoubles keeps the first manifest of each script.
func dropDoubles(all []Manifest) ([]Manifest, []error) {
	first := make(map[script.Name]*Manifest, len(all))
	var kept []Manifest
	var faults []error
	for i := range all {
		m := &all[i]
		if f, ok := first[m.Name]; ok {
			faults = append(faults, &Error{
				File: m.File, Line: m.Line, Column: 1, Field: "metadata.name",
				Message: fmt.Sprintf("%s already has a manifest, %s: remove one of the two", m.Name, position(f.File, f.Line, 0)),
			})
			continue
		}
		first[m.Name] = m
		kept = append(kept, *m)
	}
	return kept, faults
}
