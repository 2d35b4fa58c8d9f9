// Package project reads .scriptorium.yaml, the settings of a folder of scripts.
package project

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FileName is the name of the file.
const FileName = ".scriptorium.yaml"

// Level says what becomes of a finding.
type Level string

// The levels of rules.
const (
	Off     Level = "off"
	Warning Level = "warning"
	Error   Level = "error"
)

// Config is what the file sets. The zero value is what there is without a file.
type Config struct {
	// Project is whose scripts the folder's are; "" for none.
	Project string
	// Dir is the folder of the file; "" without one.
	Dir string

	levels map[string]Level // by the codes of rules
}

// Level returns the level of a rule.
func (c *Config) Level(r *lint.Rule) Level {
	if level, ok := c.levels[r.Code]; ok {
		return level
	}
	switch {
	case r.Off:
		return Off
	case r.Fails:
		return Error
	}
	return Warning
}

// Find returns the settings for the files in the folder: from the nearest file, in the folder or one around it.
func Find(dir string) (*Config, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", FileName, err)
	}
	for {
		path := filepath.Join(dir, FileName)
		data, err := manifest.ReadFile(path)
		if err == nil {
			c, err := parse(path, data)
			if c != nil {
				c.Dir = dir
			}
			return c, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return &Config{}, nil
		}
		dir = up
	}
}

// Document is a .scriptorium.yaml: the settings of the folder and of those below it.
type Document struct {
	// The name of the project, which owns what scriptctl apply publishes from its folder.
	Project yaml.Node `json:"project,omitempty" yaml:"project"`
	// What scriptctl lint reports.
	Lint LintDocument `json:"lint,omitempty" yaml:"lint"`
}

// LintDocument is the settings of lint. internal/schema has the comments of fields as descriptions.
type LintDocument struct {
	// Levels of rules, by their codes or names: off, warning or error.
	Rules map[string]yaml.Node `json:"rules,omitempty" yaml:"rules"`
}

// parse reads a file such as
//
//	project: shop
//	lint:
//	  rules:
//	    W009: off
//	    unused-local: error
func parse(path string, data []byte) (*Config, error) {
	var doc Document
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, &manifest.Error{File: path, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	c := &Config{Project: doc.Project.Value, levels: map[string]Level{}}
	var faults []error
	if n := doc.Project; n.Kind != 0 {
		if err := script.ValidateLabel("project", n.Value); err != nil {
			faults = append(faults, &manifest.Error{File: path, Line: n.Line, Column: n.Column, Field: "project", Message: script.AsError(err).Message})
		}
	}
	for name, value := range doc.Lint.Rules {
		fault := func(format string, args ...any) {
			faults = append(faults, &manifest.Error{File: path, Line: value.Line, Column: value.Column, Field: "lint.rules." + name, Message: fmt.Sprintf(format, args...)})
		}
		level := Level(value.Value)
		switch r := lint.Find(name); {
		case r == nil:
			fault("there is no such rule: want a code such as W005 or a name such as unused-local; scriptctl explain lists them")
		case !slices.Contains([]Level{Off, Warning, Error}, level):
			fault("%q is no level: want off, warning or error", value.Value)
		default:
			c.levels[r.Code] = level
		}
	}
	return c, errors.Join(faults...)
}
