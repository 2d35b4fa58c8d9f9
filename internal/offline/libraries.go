package offline

import (
	"fmt"
	"path/filepath"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Libraries finds the libraries that scripts in files require: among the manifests that were read, in the folder of
// the script's manifest, and elsewhere. The zero value is ready to use, and reads each folder once.
type Libraries struct {
	// Beside are manifests that were read; may be nil.
	Beside []manifest.Manifest
	// Elsewhere returns what no file has; may be nil.
	Elsewhere func(script.Name) (script.Library, error)
	// Unread: folders are not read, because what is beside the manifest is not what the registry has.
	Unread bool

	folders map[string][]manifest.Manifest
	engines *engines.Set
}

// Engines returns the engines of this process.
func (l *Libraries) Engines() *engines.Set {
	if l.engines == nil {
		l.engines = engines.Offline()
	}
	return l.engines
}

// Resolve has the manifest's settings say all libraries that its source requires. An error names its place in the
// files.
func (l *Libraries) Resolve(m *manifest.Manifest) error {
	e, err := l.Engines().Of(m.Engine)
	if err != nil {
		return m.Locate(err)
	}
	src := engine.Source{Code: m.Source, Entrypoint: m.Entrypoint}
	libraries, err := engine.Closure(e, m.Name, src, func(name script.Name) (script.Library, error) { return l.find(name, m) })
	if err != nil {
		return m.Locate(err)
	}
	if !m.Settings.Library {
		m.Settings.Libraries = libraries
	}
	return nil
}

// find returns the library that the script in m requires, itself or by way of others.
func (l *Libraries) find(name script.Name, m *manifest.Manifest) (script.Library, error) {
	file := m.File
	if file == "" { // a source without a manifest
		file = m.SourceFile
	}
	dir := filepath.Dir(file)
	for _, list := range [][]manifest.Manifest{l.Beside, l.folder(dir)} {
		for i := range list {
			found := &list[i]
			switch {
			case found.Name != name:
			case !found.Settings.Library:
				return script.Library{}, script.Errorf(script.NotFound, "source", "%s is no library: set spec.library to true in %s", name, found.File)
			default:
				return script.Library{Name: name, Digest: script.DigestOf(found.Source), Source: string(found.Source)}, nil
			}
		}
	}
	if l.Elsewhere != nil {
		return l.Elsewhere(name)
	}
	return script.Library{}, script.Errorf(script.NotFound, "source",
		"there is no library %s in this folder: add a manifest of it with spec.library: true, such as %s", name, filepath.Join(dir, fmt.Sprint(name.Script, ".yaml")))
}

// folder returns the manifests of the folder that can be read.
func (l *Libraries) folder(dir string) []manifest.Manifest {
	if found, known := l.folders[dir]; known || l.Unread {
		return found
	}
	if l.folders == nil {
		l.folders = map[string][]manifest.Manifest{}
	}
	found, _ := manifest.Load(dir) // of one that cannot be read its own command says so
	l.folders[dir] = found
	return found
}
