package store

import (
	"path/filepath"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// kinds of objects that are kept, each in a folder of its name.
var kinds = []script.ObjectKind{script.Releases, script.Values, script.Tenants}

// slash is what stands for '/' in the file's name of a value: no key has it.
const slash = ","

// objectPath turns an object's key into a path. Only labels and sound keys of values
// get through, so that no key reaches outside the folder, and no two share a file.
func (s *Store) objectPath(key string) (string, error) {
	kind, name, _ := strings.Cut(key, "/")
	switch script.ObjectKind(kind) {
	case script.Releases:
		n, err := script.ParseName(name)
		if err != nil {
			return "", err
		}
		return s.path(kind, n.Tenant, n.Script), nil
	case script.Values:
		k, err := script.ParseValueKey(name)
		if err != nil {
			return "", err
		}
		return s.path(kind, k.Tenant, strings.ReplaceAll(k.Key, "/", slash)), nil
	case script.Tenants:
		if err := script.ValidateLabel("tenant", name); err != nil {
			return "", err
		}
		return s.path(kind, name), nil
	}
	return "", script.Errorf(script.Invalid, "key", "%.200q is not the key of a release, of a value or of a tenant", key)
}

// validKey returns an error if no object with the key is kept.
func validKey(key string) error {
	_, err := (&Store{}).objectPath(key)
	return err
}

// keyOf turns a path that objectPath has made into the key again.
func (s *Store) keyOf(path string) (string, error) {
	rel, err := filepath.Rel(s.dir, path)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(filepath.ToSlash(rel), slash, "/"), nil
}
