package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Entry is a live release as the registry sent it.
type Entry struct {
	Release  script.Release
	Sealed   []byte // the envelope of the entry
	SealedBy string // the key that has signed the envelope; "" for none
}

// Batch is a change of what is kept.
type Batch struct {
	// Put are releases, to be put in place of what has their keys.
	Put []Entry
	// Removed are keys whose releases are gone. Unknown ones are ignored.
	Removed []string
}

// Commit makes b durable: releases, whose sources were put before, and then
// removals. Sources that no release retains any more are removed afterwards.
// After an error none, some or all of b may be on disk, each file whole; the same
// batch, or a newer one, can be committed again.
func (s *Store) Commit(b Batch) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.put(b.Put); err != nil {
		return err
	}
	if err := s.removeObjects(b.Removed); err != nil {
		return err
	}
	s.sweep()
	return nil
}

// Reseal makes those entries durable whose releases are on disk, signed by another
// key. Those of other revisions than are on disk are ignored.
func (s *Store) Reseal(entries []Entry) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	others := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		had, there := s.releases[wire.ReleaseKey(e.Release.Name)]
		return !there || had.revision != int64(e.Release.Revision) || had.sealedBy == e.SealedBy
	})
	s.mu.RUnlock()
	return s.put(others)
}

// PutSources makes sources durable. Those that no release retains are removed
// at the next commit.
func (s *Store) PutSources(sources []Source) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var files []file
	var added []script.Digest
	seen := map[script.Digest]struct{}{}
	for _, src := range sources {
		if _, twice := seen[src.Digest]; twice || s.HasSource(src.Digest) {
			continue
		}
		seen[src.Digest] = struct{}{}
		files = append(files, file{path: s.blobPath(src.Digest), content: src.Content})
		added = append(added, src.Digest)
	}
	if err := s.makeFoldersOf("blobs", files); err != nil {
		return fmt.Errorf("make the folders of sources: %w", err)
	}
	if _, err := s.replace(files, true); err != nil {
		return fmt.Errorf("write sources: %w", err)
	}
	for _, d := range added {
		s.setPresent(d, true)
	}
	return nil
}

func (s *Store) put(put []Entry) error {
	files := make([]file, 0, len(put))
	for _, e := range put {
		if e.Release.Deleted || e.Release.Revision <= 0 {
			return script.Errorf(script.Invalid, "release", "%.200s is not a live release", e.Release.Name)
		}
		path, err := s.releasePath(wire.ReleaseKey(e.Release.Name))
		if err != nil {
			return err
		}
		files = append(files, file{path: path, content: encodeRecord(e.Sealed)})
	}
	if err := s.makeFoldersOf("releases", files); err != nil {
		return fmt.Errorf("make the folders of tenants: %w", err)
	}
	touched, err := s.replace(files, false)
	if err != nil && !touched {
		return fmt.Errorf("write releases: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range put {
		key, entry := wire.ReleaseKey(e.Release.Name), indexOf(e.Release, e.SealedBy)
		if err != nil { // either edition may be there: keep the sources of both
			entry.digests = slices.Concat(entry.digests, s.releases[key].digests)
			slices.SortFunc(entry.digests, compareDigests)
			entry.digests = slices.Compact(entry.digests)
		}
		s.index(key, entry)
	}
	if err != nil {
		return fmt.Errorf("write releases: %w", err)
	}
	return nil
}

// makeFoldersOf makes the folders of the files, which are within parent,
// durably.
func (s *Store) makeFoldersOf(parent string, files []file) error {
	made := map[string]struct{}{}
	for _, f := range files {
		dir := filepath.Dir(f.path)
		if _, known := s.folders[dir]; known {
			continue
		}
		if _, done := made[dir]; done {
			continue
		}
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		made[dir] = struct{}{}
	}
	if len(made) == 0 {
		return nil
	}
	if err := s.disk.SyncDir(s.path(parent)); err != nil {
		return err
	}
	maps.Copy(s.folders, made)
	return nil
}

func (s *Store) removeObjects(keys []string) error {
	dirs := map[string]struct{}{}
	var errs []error
	for _, key := range keys {
		path, err := s.releasePath(key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.mu.RLock()
		_, known := s.releases[key]
		s.mu.RUnlock()
		if !known {
			continue
		}
		if err := s.disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove %s: %w", key, err))
			continue
		}
		dirs[filepath.Dir(path)] = struct{}{}
		s.mu.Lock()
		s.index(key, indexed{})
		s.mu.Unlock()
	}
	if err := s.syncDirs(dirs, false); err != nil {
		errs = append(errs, fmt.Errorf("sync removals: %w", err))
	}
	return errors.Join(errs...)
}

// index puts entry in place of what is known of key, or forgets the key if
// entry is empty. s.mu is held.
func (s *Store) index(key string, entry indexed) {
	for _, d := range entry.digests {
		b := s.blobs[d]
		b.refs++
		s.blobs[d] = b
		delete(s.orphans, d)
	}
	for _, d := range s.releases[key].digests {
		b := s.blobs[d]
		b.refs--
		s.blobs[d] = b
		if b.refs > 0 {
			continue
		}
		if b.present {
			s.orphans[d] = struct{}{}
		} else {
			delete(s.blobs, d)
		}
	}
	before, was := s.releases[key]
	s.sum -= fingerprint(key, before.revision)
	s.sum += fingerprint(key, entry.revision)
	if was {
		if s.keys[before.sealedBy]--; s.keys[before.sealedBy] == 0 {
			delete(s.keys, before.sealedBy)
		}
	}
	if entry.revision == 0 {
		delete(s.releases, key)
		return
	}
	s.releases[key] = entry
	s.keys[entry.sealedBy]++
}

// fingerprint of a release; those of all are added up, in any order. It is to
// notice accidents, not malice.
func fingerprint(key string, revision int64) uint64 {
	if revision == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // a hash never fails
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(revision)))
	return h.Sum64()
}

// sweep removes the sources that no release retains. What cannot be removed
// now is tried again at the next commit.
func (s *Store) sweep() {
	s.mu.RLock()
	gone := make([]script.Digest, 0, len(s.orphans))
	for d := range s.orphans {
		gone = append(gone, d)
	}
	s.mu.RUnlock()
	for _, d := range gone {
		if err := s.disk.Remove(s.blobPath(d)); err == nil || errors.Is(err, fs.ErrNotExist) {
			s.setPresent(d, false)
		}
	}
}

// cursorRecord is the cursor with a fingerprint of the releases that were there
// when it was written, so that a release that vanishes is noticed at load.
type cursorRecord struct {
	Cursor
	Releases int    `json:"releases"`
	Sum      uint64 `json:"sum"`
}

// SaveCursor makes the cursor durable. The caller saves it after what it covers
// was committed: a cursor may lag behind the releases, and never leads. Once there
// is one after a load that did not believe all releases, a full snapshot has
// replaced them, and what is left of them is removed.
func (s *Store) SaveCursor(c Cursor) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if c.Revision > 0 {
		s.removeDoubtful()
	}
	s.mu.RLock()
	record := cursorRecord{Cursor: c, Releases: len(s.releases), Sum: s.sum}
	s.mu.RUnlock()
	payload, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode the cursor: %w", err)
	}
	if _, err := s.replace([]file{{path: s.path("cursor"), content: encodeRecord(payload)}}, false); err != nil {
		return fmt.Errorf("write the cursor: %w", err)
	}
	return nil
}

// removeDoubtful removes the files that were not believed and that no release has
// replaced. What cannot be removed now is tried again with the next cursor.
func (s *Store) removeDoubtful() {
	s.doubtful = slices.DeleteFunc(s.doubtful, func(path string) bool {
		key, err := filepath.Rel(s.dir, path)
		if err != nil {
			return true
		}
		s.mu.RLock()
		_, replaced := s.releases[filepath.ToSlash(key)]
		s.mu.RUnlock()
		if replaced {
			return true
		}
		err = s.disk.Remove(path)
		return err == nil || errors.Is(err, fs.ErrNotExist)
	})
}

// dropCursor makes the next sync a full one, durably.
func (s *Store) dropCursor() error {
	if err := s.disk.Remove(s.path("cursor")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop the cursor: %w", err)
	}
	return s.disk.SyncDir(s.dir)
}

// indexOf returns what the store remembers of a release.
func indexOf(r script.Release, sealedBy string) indexed {
	return indexed{revision: int64(r.Revision), sealedBy: sealedBy, digests: digestsOf(r)}
}

func digestsOf(r script.Release) []script.Digest {
	digests := make([]script.Digest, 0, len(r.Retained))
	for _, v := range r.Retained {
		digests = append(digests, v.Digest)
	}
	slices.SortFunc(digests, compareDigests)
	return slices.Compact(digests)
}

func compareDigests(a, b script.Digest) int { return slices.Compare(a[:], b[:]) }
