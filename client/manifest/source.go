package manifest

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// source reads the one of the three fields that holds the source.
func (d *decoder) source(spec *yaml.Node, fields map[string]*yaml.Node, m *Manifest) {
	var field string
	var n *yaml.Node
	for _, name := range sourceFields {
		if fields[name] == nil {
			continue
		}
		if n != nil {
			d.fault(fields[name], "spec."+name, "there is %s as well: keep one of script, source, sourceFile and artifact", field)
			return
		}
		field, n = "spec."+name, fields[name]
	}
	if d.given != nil {
		d.givenSource(spec, n, field, m)
		return
	}
	if n == nil && d.alone {
		d.fault(spec, "spec.source", "is missing: add one of source (plain text), artifact (oci://…) and script (base64)")
		return
	}
	if n == nil {
		d.fault(spec, "spec.source", "is missing: add one of source (plain text), sourceFile (a file beside the manifest), artifact (a module or bundle) and script (base64)")
		return
	}
	value, ok := d.text(n, field)
	if !ok {
		return
	}
	m.at = d.placeOf(n)
	switch field {
	case "spec.source":
		m.Source = []byte(value)
	case "spec.script":
		// kubectl takes base64 that is broken into lines.
		code, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(value), ""))
		if err != nil {
			d.fault(n, field, "is not base64 (%v): write the plain text to spec.source instead", err)
			return
		}
		m.Source = code
	case "spec.artifact", "spec.sourceFile":
		if field == "spec.artifact" && strings.HasPrefix(value, ociPrefix) {
			d.artifact(n, value, m)
			return
		}
		if m.Source, ok = d.readBeside(n, field, value, "a file beside the manifest, such as route.lua"); !ok {
			return
		}
		m.SourceFile = filepath.Join(d.dir, filepath.FromSlash(value))
	}
	d.checkSource(n, field, m)
}

// givenSource takes the source that stands beside the manifest, unless the manifest has one, too.
func (d *decoder) givenSource(spec, n *yaml.Node, field string, m *Manifest) {
	if n != nil {
		d.fault(n, field, "the source stands beside this manifest: remove the field")
		return
	}
	m.Source, m.at = d.given, place{line: spec.Line, column: spec.Column}
	d.checkSource(spec, "spec.source", m)
}

// readBeside reads a file that n names, which is in the folder of d or below it; name says what
// to name. The folder is opened as a root, so that no symbolic link leads out of it.
func (d *decoder) readBeside(n *yaml.Node, field, path, name string) ([]byte, bool) {
	if d.alone {
		d.fault(n, field, "names a file, and there are none here: put the text of %.80q into spec.source", path)
		return nil, false
	}
	if !filepath.IsLocal(filepath.FromSlash(path)) || strings.Contains("/"+path+"/", "/../") {
		d.fault(n, field, "%.200q is not inside the manifest's folder: name %s", path, name)
		return nil, false
	}
	code, err := func() ([]byte, error) {
		root, err := os.OpenRoot(d.dir)
		if err != nil {
			return nil, err
		}
		defer root.Close() //nolint:errcheck // nothing was written
		// A pipe must not block the reader, which may be watching a folder.
		info, err := root.Stat(filepath.FromSlash(path))
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, errors.New("is not a regular file")
		}
		return readFile(root.Open(filepath.FromSlash(path)))
	}()
	if err != nil {
		d.fault(n, field, "%s", unreadable(path, err).Message+": "+path)
		return nil, false
	}
	return code, true
}

// ociPrefix begins a reference to an artifact in an OCI registry.
const ociPrefix = "oci://"

// artifact reads a reference. The registry fetches what it names.
func (d *decoder) artifact(n *yaml.Node, value string, m *Manifest) {
	const field = "spec.artifact"
	if err := script.CheckArtifact(field, value); err != nil {
		d.fault(n, field, "%s", script.AsError(err).Message)
		return
	}
	if m.Engine == script.EngineLua {
		d.fault(n, field, "is for the runtimes wasm and rego: name the file of the source in spec.sourceFile")
		return
	}
	m.Settings.Artifact = value
}

func (d *decoder) checkSource(n *yaml.Node, field string, m *Manifest) {
	if e := script.AsError(script.CheckSource(m.Engine, m.Source)); e != nil {
		if e.Line > 0 {
			d.fault(n, field, "the source, in line %d: %s", e.Line, e.Message)
		} else {
			d.fault(n, field, "%s", e.Message)
		}
		return
	}
	if most := m.Settings.Limits.SourceLimit(m.Engine, m.Source); len(m.Source) > most {
		d.fault(n, field, "the source has %d bytes and may have %d: shorten it, or raise spec.limits.sourceBytes (at most %d)",
			len(m.Source), most, script.MaxSource(m.Engine, m.Source))
	}
}

// placeOf says where the lines of a value are. Those of a literal block start
// in the line below the "|".
func (d *decoder) placeOf(n *yaml.Node) place {
	at := place{line: n.Line, column: n.Column}
	if n.Style&yaml.LiteralStyle == 0 {
		return at
	}
	at.block = true
	for _, line := range d.lines[min(n.Line, len(d.lines)):] {
		if text := strings.TrimLeft(line, " "); strings.TrimSpace(text) != "" {
			at.indent = len(line) - len(text)
			if first, _, _ := strings.Cut(n.Value, "\n"); strings.HasPrefix(first, " ") {
				// An indentation indicator ("|2") leaves spaces to the text.
				at.indent = max(0, at.indent-(len(first)-len(strings.TrimLeft(first, " "))))
			}
			break
		}
	}
	return at
}
