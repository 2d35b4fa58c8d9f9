package store

import "github.com/scriptorium-dev/scriptorium/proto/seal"

// Disk is what tests put faults into.
type Disk = disk

// OSDisk is the one without faults.
type OSDisk = osDisk

// OpenOn opens a store on another disk.
func OpenOn(dir string, trusted *seal.Keyring, d Disk) (*Store, *Loaded, error) {
	return open(dir, trusted, d)
}

// MaxCorrupt is how many corrupt files are kept.
const MaxCorrupt = maxCorrupt

// RecordFormat is the number that records are written with.
const RecordFormat = recordFormat

var (
	EncodeRecord = encodeRecord
	DecodeRecord = decodeRecord
)

// ObjectPath and KeyOf turn a key into a path and back.
func (s *Store) ObjectPath(key string) (string, error) { return s.objectPath(key) }

// KeyOf is the inverse of ObjectPath.
func (s *Store) KeyOf(path string) (string, error) { return s.keyOf(path) }
