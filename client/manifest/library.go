package manifest

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// library reads spec.library, and refuses what a library cannot have.
func (d *decoder) library(fields map[string]*yaml.Node, m *Manifest) {
	if m.Settings.Library = d.boolean(fields["library"], "spec.library", false); !m.Settings.Library {
		return
	}
	m.AsLibrary()
	if e := script.AsError(m.Settings.CheckLibrary("spec", "spec.entrypoint", m.Entrypoint)); e != nil {
		d.fault(fields[strings.TrimPrefix(e.Field, "spec.")], e.Field, "%s", e.Message)
	}
}

// AsLibrary makes the script a library: it has no entrypoint. The default is what a cluster writes into every
// manifest.
func (m *Manifest) AsLibrary() {
	m.Settings.Library = true
	if m.Entrypoint == DefaultEntrypoint {
		m.Entrypoint = ""
	}
}

// requireCall finds what a source may require. It is good enough to find an order.
var requireCall = regexp.MustCompile(`\brequire[\s(]*["']([a-z0-9-]+/[a-z0-9-]+)["']`)

// requires returns the names of scripts that the source may require.
func (m *Manifest) requires() (names []script.Name) {
	for _, found := range requireCall.FindAllSubmatch(m.Source, -1) {
		if name, err := script.ParseName(string(found[1])); err == nil {
			names = append(names, name)
		}
	}
	return names
}
