package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Entry is a live object as the registry sent it.
type Entry struct {
	Object   script.Object
	Sealed   []byte // the envelope of the entry
	SealedBy string // the key that has signed the envelope; "" for none
}

// Batch is a change of what is kept.
type Batch struct {
	// Put are objects, to be put in place of what has their keys.
	Put []Entry
	// Removed are keys whose objects are gone. Unknown ones are ignored.
	Removed []string
}

// Commit makes b durable: the sources that were put before, objects, and then
// removals. Sources that no object retains any more are removed when the next cursor
// is saved: what is to go live now need not wait for that. After a crash, all of b is on
// disk, or nothing. Two cases are exceptions, in which each object is whole and b may not be:
// b is larger than maxAlone, or the folder has no cursor. After an error, none, some or all
// of b may be on disk; the same batch, or a newer one, can be committed again.
func (s *Store) Commit(b Batch) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.change(b); err != nil {
		return err
	}
	s.swept = false
	return nil
}

// Reseal makes those entries durable whose objects are on disk, signed by another
// key. Those of other revisions than are on disk are ignored.
func (s *Store) Reseal(entries []Entry) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	others := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		had, there := s.objects[e.Object.Key()]
		return !there || had.revision != int64(e.Object.Revision()) || had.sealedBy == e.SealedBy
	})
	s.mu.RUnlock()
	return s.change(Batch{Put: others})
}

// change makes b durable: in the journal, or, if it is large or there is none, in
// files.
func (s *Store) change(b Batch) error {
	for _, e := range b.Put {
		if e.Object.Deleted() || e.Object.Revision() <= 0 {
			return script.Errorf(script.Invalid, "object", "%.200s is not live", e.Object.Key())
		}
		if err := validKey(e.Object.Key()); err != nil {
			return err
		}
	}
	for _, key := range b.Removed {
		if err := validKey(key); err != nil {
			return err
		}
	}
	for range 2 { // the second time in a new one
		if s.changeInJournal(b) {
			return nil
		}
		if err := s.settle(); err != nil {
			return err
		}
	}
	if len(b.Put)+len(b.Removed) == 0 {
		return nil
	}
	s.dropJournal()
	s.cursor = nil // until one is saved that goes with what is there then
	// Settings first: a crash in between must not leave a script that is served without its tenant's.
	isSettings := func(e Entry) bool { return e.Object.Tenant != nil }
	others := slices.DeleteFunc(slices.Clone(b.Put), isSettings)
	settings := slices.DeleteFunc(slices.Clone(b.Put), func(e Entry) bool { return !isSettings(e) })
	if err := s.put(settings); err != nil {
		return err
	}
	if err := s.put(others); err != nil {
		return err
	}
	return s.removeObjects(b.Removed)
}

// changeInJournal reports whether the journal has b, and the sources that waited.
func (s *Store) changeInJournal(b Batch) bool {
	if s.journal == nil {
		return false
	}
	var f frame
	size := 0
	revisions := map[string]int64{} // of what changes
	s.mu.RLock()
	for _, e := range b.Put {
		f.put = append(f.put, sealedObject{key: e.Object.Key(), sealed: e.Sealed})
		size += len(e.Sealed)
		revisions[e.Object.Key()] = int64(e.Object.Revision())
	}
	for _, key := range b.Removed {
		_, known := s.objects[key]
		if _, put := revisions[key]; known || put {
			f.removed = append(f.removed, key)
			revisions[key] = 0
		}
	}
	after := s.tallies
	for key, revision := range revisions {
		after.replace(key, s.objects[key].revision, revision)
	}
	s.mu.RUnlock()
	f.cursor = recordOf(*s.cursor, after)
	waiting := s.addWaiting(&f)
	if len(f.put)+len(f.removed)+len(waiting) == 0 {
		return true
	}
	if size > maxAlone || !s.add(f, true) {
		return false
	}
	s.journaled(waiting)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range b.Put {
		s.unfiled[e.Object.Key()] = unfiled{sealed: bytes.Clone(e.Sealed)}
		s.fresh.objects = append(s.fresh.objects, e.Object.Key())
		s.index(e.Object.Key(), indexOf(e.Object, e.SealedBy))
	}
	for _, key := range f.removed {
		s.unfiled[key] = unfiled{gone: true}
		s.fresh.objects = append(s.fresh.objects, key)
		s.index(key, indexed{})
	}
	return true
}

func (s *Store) put(put []Entry) error {
	files := make([]file, 0, len(put))
	for _, e := range put {
		path, err := s.objectPath(e.Object.Key())
		if err != nil {
			return err
		}
		files = append(files, file{path: path, content: encodeRecord(e.Sealed)})
	}
	if err := s.makeFoldersOf(files); err != nil {
		return fmt.Errorf("make the folders of tenants: %w", err)
	}
	touched, err := s.replace(files)
	if err != nil && !touched {
		return fmt.Errorf("write objects: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range put {
		key, entry := e.Object.Key(), indexOf(e.Object, e.SealedBy)
		if err != nil { // either edition may be there: keep the sources of both
			entry.digests = slices.Concat(entry.digests, s.objects[key].digests)
			slices.SortFunc(entry.digests, compareDigests)
			entry.digests = slices.Compact(entry.digests)
		}
		s.index(key, entry)
	}
	if err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	return nil
}

// makeFoldersOf makes the folders of the files durably. What they are in is there.
func (s *Store) makeFoldersOf(files []file) error {
	made, parents := map[string]struct{}{}, map[string]struct{}{}
	for _, f := range files {
		dir := filepath.Dir(f.path)
		if _, known := s.folders[dir]; known {
			continue
		}
		if _, done := made[dir]; done {
			continue
		}
		if err := s.disk.Mkdir(dir); err != nil {
			return err
		}
		made[dir] = struct{}{}
		parents[filepath.Dir(dir)] = struct{}{}
	}
	for parent := range parents {
		if err := s.disk.SyncDir(parent); err != nil {
			return err
		}
	}
	maps.Copy(s.folders, made)
	return nil
}

func (s *Store) removeObjects(keys []string) error {
	dirs := map[string]struct{}{}
	var errs []error
	for _, key := range keys {
		path, err := s.objectPath(key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.mu.RLock()
		_, known := s.objects[key]
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
	for _, d := range s.objects[key].digests {
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
	before, was := s.objects[key]
	s.tallies.replace(key, before.revision, entry.revision)
	if was {
		if s.keys[before.sealedBy]--; s.keys[before.sealedBy] == 0 {
			delete(s.keys, before.sealedBy)
		}
	}
	if entry.revision == 0 {
		delete(s.objects, key)
		return
	}
	s.objects[key] = entry
	s.keys[entry.sealedBy]++
}

// tally tells whether objects are those that were there.
type tally struct {
	Count int    `json:"count"`
	Sum   uint64 `json:"sum"` // of the fingerprints
}

// tallies are those of all objects.
type tallies struct {
	releases tally
	others   tally // values and tenants
	tenants  int   // number of those
}

// replace counts the object with another revision than before; 0 is none.
func (t *tallies) replace(key string, before, after int64) {
	switch kind, _, _ := strings.Cut(key, "/"); script.ObjectKind(kind) {
	case script.Releases:
		t.releases.replace(key, before, after)
		return
	case script.Tenants:
		if before != 0 {
			t.tenants--
		}
		if after != 0 {
			t.tenants++
		}
	}
	t.others.replace(key, before, after)
}

// replace counts the object with another revision than before; 0 is none.
func (t *tally) replace(key string, before, after int64) {
	if before != 0 {
		t.Count--
	}
	if after != 0 {
		t.Count++
	}
	t.Sum += fingerprint(key, after) - fingerprint(key, before)
}

// fingerprint of an object; those of all are added up, in any order. It is to
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

// cursorRecord is the cursor with fingerprints of the objects that were there when it
// was written, so that a load notices one that vanished. Releases have fields of their
// own, as software that knows no other objects expects them.
type cursorRecord struct {
	Cursor
	Releases int    `json:"releases"`
	Sum      uint64 `json:"sum"`
	// Others are values and tenants; nil if the software that wrote it kept none.
	Others *tally `json:"others,omitempty"`
	// Tenants is the number of tenants among Others; nil if the software that wrote it did not count them.
	Tenants *int `json:"tenants,omitempty"`
}

func recordOf(c Cursor, t tallies) cursorRecord {
	return cursorRecord{Cursor: c, Releases: t.releases.Count, Sum: t.releases.Sum, Others: &t.others, Tenants: &t.tenants}
}

// record returns the cursor's record with the objects that are there now.
func (s *Store) record(c Cursor) cursorRecord {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return recordOf(c, s.tallies)
}

// SaveCursor keeps the cursor. The caller saves it after what it covers was
// committed: a cursor may lag behind the objects, and never leads. One that follows
// another survives the process, and is durable with the next commit; any other is
// durable at once. Once there is one after a load that did not believe all objects, a
// full snapshot has replaced them, and what is left of them is removed. So are sources
// that no object has retained since the last commit. What is in the journal goes into
// files here when the journal is almost full, as nothing waits to go live.
func (s *Store) SaveCursor(c Cursor) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if c.Revision > 0 {
		s.removeDoubtful()
		s.settingsReplaced()
		if s.behind {
			s.behind = s.disk.Remove(s.path("behind")) != nil
		}
	}
	if !s.swept { // not without a commit: sources that were put may wait for one that failed
		s.sweep()
		s.swept = true
	}
	if s.journal != nil && s.journal.fits(maxFrame) && c.Revision > 0 && c.Fleet == s.cursor.Fleet && c.Group == s.cursor.Group {
		if s.add(frame{cursor: s.record(c)}, false) {
			s.cursor = &c
			s.writeFresh()
			return nil
		}
	}
	record := s.record(c)
	if err := s.flush(&record); err != nil {
		return err
	}
	s.cursor = nil
	if c.Revision > 0 {
		s.cursor = &c
	}
	_ = s.renew() // without a journal, changes are made in files
	return nil
}

// removeDoubtful removes the files that were not believed and that no object has
// replaced. What cannot be removed now is tried again with the next cursor.
func (s *Store) removeDoubtful() {
	s.doubtful = slices.DeleteFunc(s.doubtful, func(path string) bool {
		key, err := s.keyOf(path)
		if err != nil {
			return true
		}
		s.mu.RLock()
		_, replaced := s.objects[key]
		s.mu.RUnlock()
		if replaced {
			return true
		}
		delete(s.unfiled, key)
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

// indexOf returns what the store remembers of an object.
func indexOf(o script.Object, sealedBy string) indexed {
	digests := slices.SortedFunc(o.Retained, compareDigests)
	return indexed{revision: int64(o.Revision()), sealedBy: sealedBy, digests: slices.Clip(slices.Compact(digests))}
}

func compareDigests(a, b script.Digest) int { return slices.Compare(a[:], b[:]) }
