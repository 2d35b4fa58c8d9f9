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

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Batch is a change of what is kept.
type Batch struct {
	// Objects are live releases, to be put in place of what has their keys.
	Objects []*eventv1.Object
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
	if err := s.putObjects(b.Objects); err != nil {
		return err
	}
	if err := s.removeObjects(b.Removed); err != nil {
		return err
	}
	s.sweep()
	return nil
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

func (s *Store) putObjects(objects []*eventv1.Object) error {
	files := make([]file, 0, len(objects))
	entries := make([]indexed, 0, len(objects))
	for _, o := range objects {
		path, err := s.releasePath(o.GetKey())
		if err != nil {
			return err
		}
		entry, err := indexOf(o)
		if err != nil {
			return err
		}
		payload, err := proto.Marshal(o)
		if err != nil {
			return fmt.Errorf("encode %s: %w", o.GetKey(), err)
		}
		files = append(files, file{path: path, content: encodeRecord(payload)})
		entries = append(entries, entry)
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
	for i, o := range objects {
		entry := entries[i]
		if err != nil { // either edition may be there: keep the sources of both
			entry.digests = slices.Concat(entry.digests, s.releases[o.GetKey()].digests)
			slices.SortFunc(entry.digests, compareDigests)
			entry.digests = slices.Compact(entry.digests)
		}
		s.index(o.GetKey(), entry)
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
	s.sum -= fingerprint(key, s.releases[key].revision)
	s.sum += fingerprint(key, entry.revision)
	if entry.revision == 0 {
		delete(s.releases, key)
	} else {
		s.releases[key] = entry
	}
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
// was committed: a cursor may lag behind the releases, and never leads.
func (s *Store) SaveCursor(c Cursor) error {
	s.writing.Lock()
	defer s.writing.Unlock()
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

// dropCursor makes the next sync a full one, durably.
func (s *Store) dropCursor() error {
	if err := s.disk.Remove(s.path("cursor")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop the cursor: %w", err)
	}
	return s.disk.SyncDir(s.dir)
}

// indexOf returns what the store remembers of an object.
func indexOf(o *eventv1.Object) (indexed, error) {
	r, ok, err := wire.ToReleaseObject(o)
	if err != nil {
		return indexed{}, err
	}
	if !ok || r.Deleted || r.Revision <= 0 {
		return indexed{}, script.Errorf(script.Invalid, "object", "%.200q is not a live release", o.GetKey())
	}
	return indexed{revision: o.GetRevision(), digests: digestsOf(r)}, nil
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
