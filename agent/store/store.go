// Package store keeps what an agent needs to start and serve alone: its live
// releases, values and settings of tenants, the sources and contents they need and
// the cursor of the feed, on disk, durable and verified: what the registry has signed
// is kept as it came, and believed again at load only if a key that is trusted then
// has signed it.
//
// A folder belongs to one process at a time. Its layout:
//
//	blobs/<2 hex>/<64 hex>     a source, or a value's content, named by its digest, verified at each read
//	releases/<tenant>/<name>   the envelope of a release's entry, in a record with length and checksum
//	values/<tenant>/<key>      that of a value; a ',' is a '/' of its key
//	tenants/<tenant>           that of a tenant's settings
//	cursor                     fleet, revision and group, in such a record
//	behind                     empty; there while what is here may be out of date
//	journal                    changes that are not in those files yet: see journal.go
//	corrupt/                   what failed its check, kept for a person to look at
//	tmp/                       files that are being written
//	lock                       held while the folder is in use
//
// A small change is one frame in the journal, which is one sync of the disk, and is in
// memory besides. A checkpoint writes what the journal has into the files: when it is
// full, before a large change, at Close and at Open. A large change gets a journal of its
// own until the next cursor, which writes it into the files; one of more than maxAlone goes
// into the files at once.
// Software that knew no journal finds all in the files after Close. After a crash it
// finds a cursor that is not of the objects, asks for everything, and leaves the
// journal alone, which has no say any more once such software has moved the cursor.
//
// Once a change is live it is written into files without a sync, too, so that who loses
// the journal does not go back to what was there at the last checkpoint: what is in
// files then is not what the cursor says, and everything is asked for.
//
// Software that knew releases alone left a folder without values and tenants: it is
// loaded, and Loaded.ReleasesAlone says that its cursor has passed what was not kept.
// Should such software be put back, it leaves values/ and tenants/ alone and removes
// the contents that only values need; they are fetched again later.
package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Cursor is a position in the feed of one fleet. The zero Cursor is before
// everything.
type Cursor struct {
	Fleet    string          `json:"fleet"`
	Revision script.Revision `json:"revision"`
	// Group of the feed that was followed; "" means script.GroupAll.
	Group string `json:"group,omitempty"`
	// Removals is how many objects the registry had removed by then.
	Removals int64 `json:"removals,omitempty"`
	// Withheld and Accepted are as in follow.Cursor.
	Withheld int64           `json:"withheld,omitempty"`
	Accepted script.Revision `json:"accepted,omitempty"`
}

// Source is the source of a version, or the content of a value. Digest must be that
// of Content.
type Source struct {
	Digest  script.Digest
	Content []byte
}

// ErrMissing means that a source is not in the store, or was there and failed
// its check. It can be fetched again.
var ErrMissing = errors.New("the source is not in the store")

// ErrInUse is returned when another agent has the folder.
var ErrInUse = errors.New("in use by another agent")

// Store is a folder that this process has to itself. It is safe for concurrent
// use; Commit, SaveCursor and PutSources wait for one another, and who reads a
// sound source waits for nobody. It keeps at most journalSize of sources and entries, and
// maxWaiting of sources, in memory, besides what it knows of each object. From a large change
// until the next cursor, it keeps maxAlone besides.
type Store struct {
	dir     string
	disk    disk
	trusted *seal.Keyring
	lock    *os.File

	writing sync.Mutex // held by whoever changes files

	mu      sync.RWMutex       // guards what follows; never held during I/O
	objects map[string]indexed // by key
	blobs   map[script.Digest]blob
	held    map[script.Digest]held     // blobs that are not in files; changed by who holds writing, too
	orphans map[script.Digest]struct{} // blobs on disk that no object needs
	tallies
	keys map[string]int // how many objects each key has signed

	// What follows is guarded by writing.

	swept    bool                // since the last commit
	doubtful []string            // files of objects that were not believed at load
	folders  map[string]struct{} // known to exist

	// cursor is the last one that was saved, if it goes with the objects that are on
	// disk; else nil: until one is saved, all changes are made in files.
	cursor  *Cursor
	base    [sha256.Size]byte // of the file cursor
	journal *journal          // to add to; nil while there is none. If there is one, so is cursor
	dirty   bool              // the journal on disk may have frames
	behind  bool              // there is a file that says that what is here may be out of date
	unfiled map[string]unfiled
	fresh   fresh
	garbage map[script.Digest]struct{} // blobs that were swept, and whose files may be there

	settingsAside map[string]struct{} // files in corrupt/: settings that no full snapshot has replaced
}

// indexed is what the store remembers of an object on disk.
type indexed struct {
	revision int64
	sealedBy string          // the key that has signed it; "" for none
	digests  []script.Digest // of what it retains, sorted, each once
}

type blob struct {
	refs    int32 // objects that retain it
	present bool
}

// Open locks the folder, makes it if it is not there, and loads it. The caller
// closes the store. Objects are believed if the keyring believes their entries.
// What is corrupt is set aside and reported in Loaded; an error means that the
// folder cannot be used at all.
func Open(dir string, trusted *seal.Keyring) (*Store, *Loaded, error) {
	return open(dir, trusted, osDisk{})
}

func open(dir string, trusted *seal.Keyring, d disk) (*Store, *Loaded, error) {
	s := &Store{
		dir:     dir,
		disk:    d,
		trusted: trusted,
		objects: map[string]indexed{},
		blobs:   map[script.Digest]blob{},
		orphans: map[script.Digest]struct{}{},
		keys:    map[string]int{},
		held:    map[script.Digest]held{},
		unfiled: map[string]unfiled{},
		garbage: map[script.Digest]struct{}{},
		folders: map[string]struct{}{},
		swept:   true,

		settingsAside: map[string]struct{}{},
	}
	if err := s.makeFolders(); err != nil {
		return nil, nil, fmt.Errorf("prepare the state folder %s: %w", dir, err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, nil, err
	}
	s.lock = lock
	loaded, err := s.load()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("load the state folder %s: %w", dir, err), s.Close())
	}
	return s, loaded, nil
}

// Close writes what the journal has into files and releases the folder. Nothing else
// may be in progress. If the files cannot be written, the error says so, the folder is
// released, and the next Open finds all in the journal.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.settle()
	s.dropJournal()
	return errors.Join(err, s.lock.Close())
}

// Keys returns the ids of the keys that the objects on disk are signed by, sorted;
// "" is among them if one is not signed.
func (s *Store) Keys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.keys))
}

// HasSource reports whether the source is on disk, as far as is known without
// reading it, or waits for the commit that makes it durable.
func (s *Store) HasSource(d script.Digest) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.blobs[d].present
}

// Retains reports whether an object on disk needs the source, or may.
func (s *Store) Retains(d script.Digest) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.blobs[d].refs > 0
}

// Sealed returns the envelope of the live object's entry as it is kept. The error has
// ErrMissing in its chain if there is none.
func (s *Store) Sealed(key string) ([]byte, error) {
	path, err := s.objectPath(key)
	if err != nil {
		return nil, err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	_, live := s.objects[key]
	s.mu.RUnlock()
	if !live {
		return nil, fmt.Errorf("%s: %w", key, ErrMissing)
	}
	sealed, _, err := s.readEntry(path)
	return bytes.Clone(sealed), err
}

// Source reads and verifies a source. A source that fails its check is set
// aside and counts as missing. The error is ErrMissing, or one of reading.
func (s *Store) Source(d script.Digest) ([]byte, error) {
	s.mu.RLock()
	inMemory, is := s.held[d]
	there := s.blobs[d].present
	s.mu.RUnlock()
	switch {
	case is:
		return bytes.Clone(inMemory.content), nil
	case !there:
		return nil, fmt.Errorf("%v: %w", d, ErrMissing)
	}
	content, err := os.ReadFile(s.blobPath(d))
	switch {
	case err == nil && script.DigestOf(content) == d:
		return content, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the source %v: %w", d, err)
	case err != nil && !s.HasSource(d):
		return nil, fmt.Errorf("%v: %w", d, ErrMissing)
	}
	return s.recheck(d)
}

// recheck reads a source that failed its check again, now that nobody can be
// writing it, and sets it aside if it fails again.
func (s *Store) recheck(d script.Digest) ([]byte, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if inMemory, is := s.held[d]; is { // put again meanwhile
		return bytes.Clone(inMemory.content), nil
	}
	content, err := os.ReadFile(s.blobPath(d))
	if err == nil && script.DigestOf(content) == d {
		return content, nil
	}
	s.setPresent(d, false)
	if err != nil {
		return nil, fmt.Errorf("%v vanished: %w", d, ErrMissing)
	}
	if err := errors.Join(s.setAside(s.blobPath(d)), s.pruneCorrupt()); err != nil {
		return nil, errors.Join(fmt.Errorf("%v failed its check: %w", d, ErrMissing), err)
	}
	return nil, fmt.Errorf("%v failed its check and was set aside: %w", d, ErrMissing)
}

func (s *Store) setPresent(d script.Digest, present bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blobs[d]
	b.present = present
	if !present {
		delete(s.held, d)
	}
	if b == (blob{}) {
		delete(s.blobs, d)
	} else {
		s.blobs[d] = b
	}
	if present && b.refs == 0 {
		s.orphans[d] = struct{}{}
	} else {
		delete(s.orphans, d)
	}
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s *Store) blobPath(d script.Digest) string {
	digits := strings.TrimPrefix(d.String(), "sha256:")
	return s.path("blobs", digits[:2], digits)
}

// makeFolders makes those that have to be there, and, if it can, all those of blobs:
// mostly a change would need another one, and would have to wait for it.
func (s *Store) makeFolders() error {
	dirs := []string{"", "blobs", "corrupt", "tmp"}
	for _, kind := range kinds {
		dirs = append(dirs, string(kind))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(s.path(dir), 0o700); err != nil {
			return err
		}
		s.folders[s.path(dir)] = struct{}{}
	}
	for i := range 256 {
		dir := s.path("blobs", fmt.Sprintf("%02x", i))
		if err := s.disk.Mkdir(dir); err != nil {
			break // a full disk: what is on it can be served all the same
		}
		s.folders[dir] = struct{}{}
	}
	return errors.Join(s.disk.SyncDir(s.dir), s.disk.SyncDir(s.path("blobs")))
}
