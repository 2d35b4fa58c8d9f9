// Package manifest reads manifests of the kinds Script and LuaScript: the YAML (or JSON) that a
// cluster takes with kubectl, read here without one.
//
// It is strict where kubectl is: unknown and doubled fields, wrong types and
// impossible values are faults, each with file, line, column and the path of
// the field, and all faults of a file are reported at once. It reads a script's
// source but does not compile it; Manifest.Locate says where in which file an
// error of a compiler, or of the registry, is.
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
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// APIVersion and Kind are what a manifest must say that it is.
const (
	APIVersion = "scriptorium.dev/v1alpha1"
	Kind       = "Script"
	LuaKind    = "LuaScript" // a Script whose runtime is lua
)

// DefaultEntrypoint is the entrypoint of a manifest that names none.
const DefaultEntrypoint = "handle"

// MaxFileBytes is the size of the largest manifest file that is read.
const MaxFileBytes = 4 << 20

// Manifest is one script as its file states it: the whole of it, so that
// what the file leaves out is meant to have its default.
type Manifest struct {
	File string // as given to Load or Parse
	Line int    // of File, from 1, where the document starts

	Name   script.Name
	Engine string // spec.runtime
	Source []byte // nil if Settings have an Artifact
	// SourceFile is the path of the file that spec.sourceFile or spec.artifact names, or "": the
	// source then stands in File.
	SourceFile string

	Entrypoint string // "" means that the chunk itself is the program
	Enabled    bool
	Pin        uint64 // the version that is pinned; 0 follows the latest
	Settings   script.Settings
	// Signature of the publisher, over the Statement; "" for none.
	Signature string

	at     place            // of the source
	fields map[string]place // of spec's values, by their paths
}

// Publish returns the request that makes the registry's script what the
// manifest says: source, settings, pin and whether it is enabled.
func (m *Manifest) Publish() registryclient.PublishRequest {
	settings := m.Settings
	settings.Libraries = nil // the registry finds them
	return registryclient.PublishRequest{
		Name:       m.Name,
		Source:     m.Source,
		Engine:     m.Engine,
		Entrypoint: new(m.Entrypoint),
		Settings:   &settings,
		Enabled:    new(m.Enabled),
		Pin:        new(m.Pin),
		Signature:  m.Signature,
	}
}

// Statement is what a publisher signs of the manifest.
func (m *Manifest) Statement() publisher.Statement {
	v := script.Version{Digest: script.DigestOf(m.Source), Engine: m.Engine, Entrypoint: m.Entrypoint}
	return publisher.StatementOf(m.Name, v, m.Settings.Spec)
}

// Load reads a manifest file, or all manifests of a folder: its files *.yaml,
// *.yml and *.json in order of their names, neither hidden ones, nor test files,
// nor those in folders below. An empty folder holds no manifests.
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
		data, err := ReadFile(file)
		if err != nil {
			faults = append(faults, err)
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
// folder. Test files are no manifests.
func IsManifestFile(name string) bool {
	base := filepath.Base(name)
	if strings.HasPrefix(base, ".") || IsTestFile(base) {
		return false
	}
	switch filepath.Ext(base) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// ReadFile reads a plain file that may be one of manifests. Of another kind it opens none: a pipe would block,
// and a device has no end.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		return nil, unreadable(path, err)
	}
	data, err := readFile(os.Open(path))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}

// readFile reads a file of at most MaxFileBytes, and closes it.
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
