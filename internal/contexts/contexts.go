// Package contexts reads and writes scriptctl's configuration: named registries, and how to connect to
// each. It holds paths of files with secrets, and no secret.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxBytes bounds the file.
const maxBytes = 1 << 20

// File is the configuration. The zero value is that without a file.
type File struct {
	// Current is the name of the context that commands use without --context; "" for none.
	Current  string    `yaml:"currentContext,omitempty" json:"currentContext,omitempty"`
	Contexts []Context `yaml:"contexts" json:"contexts"`
}

// Context is a registry, and how to connect to it. Paths are absolute, or relative to the folder of the file.
type Context struct {
	Name              string `yaml:"name" json:"name"`
	Registry          string `yaml:"registry,omitempty" json:"registry,omitempty"`
	CA                string `yaml:"ca,omitempty" json:"ca,omitempty"`
	Cert              string `yaml:"cert,omitempty" json:"cert,omitempty"`
	Key               string `yaml:"key,omitempty" json:"key,omitempty"`
	TokenFile         string `yaml:"tokenFile,omitempty" json:"tokenFile,omitempty"`
	InsecurePlaintext bool   `yaml:"insecurePlaintext,omitempty" json:"insecurePlaintext,omitempty"`
	// Tenant is that of scripts and keys that are named without one.
	Tenant string `yaml:"tenant,omitempty" json:"tenant,omitempty"`
	// Kube, if not nil, goes through the API server of a Kubernetes cluster.
	Kube *Kube `yaml:"kube,omitempty" json:"kube,omitempty"`
}

// Kube selects a registry in a Kubernetes cluster. Empty fields have the defaults of our chart.
type Kube struct {
	Context   string `yaml:"context,omitempty" json:"context,omitempty"` // of the kubeconfig
	Namespace string `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	Service   string `yaml:"service,omitempty" json:"service,omitempty"`
	Secret    string `yaml:"secret,omitempty" json:"secret,omitempty"`
}

// Error is one fault of the file, and where it is.
type Error struct {
	File    string
	Line    int // 0 when it is not known
	Field   string
	Message string // without the file's text, which may be a secret
}

// Error implements error.
func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text += ":" + strconv.Itoa(e.Line)
	}
	text += ": "
	if e.Field != "" {
		text += e.Field + ": "
	}
	return text + e.Message
}

// Unwrap returns a *script.Error of kind Invalid.
func (e *Error) Unwrap() error {
	return &script.Error{Kind: script.Invalid, Field: e.Field, Message: e.Message, Line: e.Line}
}

// DefaultPath returns where the file is unless somebody says otherwise.
func DefaultPath() (string, error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // as the XDG specification has it
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("the folder of the configuration is not known (%w): set SCRIPTCTL_CONFIG", err)
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "scriptorium", "config.yaml"), nil
}

// Load reads the file at path. Its errors name the file and the line.
func Load(path string) (*File, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, script.Errorf(script.Invalid, "", "%s is not a file", path)
	case info.Mode().Perm()&0o022 != 0:
		return nil, script.Errorf(script.Invalid, "", "other users can change %s, and with it where your credentials go: run chmod 600 on it", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(data) > maxBytes {
		err = script.Errorf(script.Invalid, "", "%s is larger than %d bytes", path, maxBytes)
	}
	return data, err
}

func parse(path string, data []byte) (*File, error) {
	file := &File{}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(file); err != nil && !errors.Is(err, io.EOF) {
		return nil, faults(path, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &Error{File: path, Message: "has more than one document: want one"}
	}
	lines := linesOf(data)
	for i := range file.Contexts {
		c := &file.Contexts[i]
		err := c.validate()
		if err == nil && slices.ContainsFunc(file.Contexts[:i], func(other Context) bool { return other.Name == c.Name }) {
			err = script.Errorf(script.Invalid, "name", "%q is there twice", c.Name)
		}
		if err != nil {
			e := script.AsError(err)
			at := &Error{File: path, Field: fmt.Sprintf("contexts[%d].%s", i, e.Field), Message: e.Message}
			if i < len(lines) {
				at.Line = lines[i]
			}
			return nil, at
		}
	}
	if file.Current != "" && file.Find(file.Current) == nil {
		return nil, &Error{File: path, Field: "currentContext", Message: fmt.Sprintf("there is no context %q: %s", file.Current, file.has())}
	}
	return file, nil
}

// linesOf returns the line of each context.
func linesOf(data []byte) (lines []int) {
	var doc struct{ Contexts []yaml.Node }
	_ = yaml.Unmarshal(data, &doc) // it was read before
	for i := range doc.Contexts {
		lines = append(lines, doc.Contexts[i].Line)
	}
	return lines
}

var (
	lineOf       = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)`)
	quoted       = regexp.MustCompile("`[^`]*` ")
	unknownField = regexp.MustCompile(`^field (\S+) not found in type`)
)

// faults returns what is wrong with the YAML, each with its line.
func faults(path string, err error) error {
	texts := []string{err.Error()}
	if e, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = e.Errors
	}
	var all []error
	for _, text := range texts {
		at := &Error{File: path, Message: strings.TrimPrefix(text, "yaml: ")}
		if m := lineOf.FindStringSubmatch(text); m != nil {
			at.Line, _ = strconv.Atoi(m[1]) // digits
			at.Message = quoted.ReplaceAllString(m[2], "")
		}
		if m := unknownField.FindStringSubmatch(at.Message); m != nil {
			at.Field, at.Message = m[1], "is not a field of the configuration"
			if m[1] == "token" {
				at.Message += ": name the file of the token as tokenFile"
			}
		}
		all = append(all, at)
	}
	return errors.Join(all...)
}

func (c *Context) validate() error {
	if err := script.ValidateLabel("name", c.Name); err != nil {
		return err
	}
	if c.Tenant != "" {
		if err := script.ValidateLabel("tenant", c.Tenant); err != nil {
			return err
		}
	}
	switch {
	case c.Registry != "" && c.Kube != nil:
		return script.Errorf(script.Invalid, "registry", "and kube are two ways to a registry: take one")
	case (c.Cert == "") != (c.Key == ""):
		return script.Errorf(script.Invalid, "cert", "and key go together: name both files")
	case c.InsecurePlaintext && c.Kube != nil:
		return script.Errorf(script.Invalid, "insecurePlaintext", "is not possible with kube")
	}
	return nil
}

// Find returns the context of that name; nil if there is none.
func (f *File) Find(name string) *Context {
	i := slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Contexts[i]
}

// Get is Find with an error that names the contexts that there are.
func (f *File) Get(name string) (*Context, error) {
	if c := f.Find(name); c != nil {
		return c, nil
	}
	return nil, script.Errorf(script.NotFound, "name", "there is no context %.80q: %s", name, f.has())
}

func (f *File) has() string {
	if len(f.Contexts) == 0 {
		return "make one with scriptctl config set-context"
	}
	names := make([]string, 0, len(f.Contexts))
	for i := range f.Contexts {
		names = append(names, f.Contexts[i].Name)
	}
	return "the configuration has " + strings.Join(names, ", ")
}

// Set adds the context, or replaces the one of its name.
func (f *File) Set(c Context) error {
	if err := c.validate(); err != nil {
		return err
	}
	if old := f.Find(c.Name); old != nil {
		*old = c
		return nil
	}
	f.Contexts = append(f.Contexts, c)
	return nil
}

// Delete removes the context of that name.
func (f *File) Delete(name string) error {
	if _, err := f.Get(name); err != nil {
		return err
	}
	f.Contexts = slices.DeleteFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	if f.Current == name {
		f.Current = ""
	}
	return nil
}

// Encode returns the file's content.
func (f *File) Encode() ([]byte, error) {
	var buf bytes.Buffer
	encoder := yaml.NewEncoder(&buf)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(f), encoder.Close()); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// Missing reports whether err says that there is no file.
func Missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
