package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/scriptorium-dev/scriptorium/script"
)

// unfiled is what is known of an object that is not in its file yet.
type unfiled struct {
	sealed []byte
	gone   bool   // and the next checkpoint removes its file
	after  Cursor // which was the last when it went, if a load found that
}

func (s *Store) journalPath() string { return s.path("journal") }

// add adds a frame to the journal; durably if sync. added is false if there is no
// journal for it, or none any more: then a checkpoint has to come before anything else.
func (s *Store) add(f frame, sync bool) (added bool) {
	payload, err := f.encode()
	if err != nil || s.journal == nil {
		return false
	}
	if len(payload) > maxFrame {
		return sync && s.addAlone(payload)
	}
	if !s.journal.fits(len(payload)) && s.checkpoint() != nil || s.journal == nil {
		return false
	}
	s.dirty = true
	if err := s.journal.append(payload, sync); err != nil {
		s.dropJournal()
		return false
	}
	return true
}

// addAlone makes a frame that is too large for the journal durable, in a new journal that has
// nothing else: after a crash, all of the change is there, or nothing. The store has no journal to
// add to until the next checkpoint, which comes with the cursor. After an error, the old journal is
// there, which is empty, or the new one.
func (s *Store) addAlone(payload []byte) (added bool) {
	if len(payload) > maxAlone || s.dirty {
		return false
	}
	content, salt := encodeJournal(s.base)
	content = append(content[:journalHeader], encodeFrame(salt, journalHeader, payload)...)
	content = append(content, make([]byte, max(0, journalSize-len(content)))...)
	s.dropJournal()
	s.dirty = true
	_, err := s.replace([]file{{path: s.journalPath(), content: content}})
	return err == nil
}

// dropJournal forgets the journal. The file stays.
func (s *Store) dropJournal() {
	if s.journal != nil {
		_ = s.journal.file.Close() // all that counts was synced
		s.journal = nil
	}
}

// settle makes files hold all there is, so that they may be changed.
func (s *Store) settle() error {
	if !s.dirty && !s.unwritten() {
		return nil
	}
	return s.checkpoint()
}

// unwritten reports whether there are objects or sources that are not in files yet.
// s.writing is held, without which none is added.
func (s *Store) unwritten() bool { return len(s.unfiled)+len(s.held) > 0 }

// checkpoint writes what the journal has into files, and begins a new one. After an
// error nothing is lost.
func (s *Store) checkpoint() error {
	var record *cursorRecord
	if s.cursor != nil {
		r := s.record(*s.cursor)
		record = &r
	}
	if err := s.flush(record); err != nil {
		return err
	}
	return s.renew()
}

// flush makes durable in files of their own: sources and objects, removals, and then
// the cursor, unless it is nil. From there on the journal has no say.
func (s *Store) flush(record *cursorRecord) error {
	if err := s.fileAll(); err != nil {
		return err
	}
	if record != nil {
		payload, err := json.Marshal(record)
		if err != nil {
			return fmt.Errorf("encode the cursor: %w", err)
		}
		s.dropJournal()
		content := encodeRecord(payload)
		if _, err := s.replace([]file{{path: s.path("cursor"), content: content}}); err != nil {
			return fmt.Errorf("write the cursor: %w", err)
		}
		s.base = sha256.Sum256(content)
	}
	s.fresh = fresh{}
	clear(s.unfiled)
	s.mu.Lock()
	clear(s.held)
	s.mu.Unlock()
	s.removeGarbage()
	return nil
}

func (s *Store) fileAll() error {
	files, gone, err := s.filesOf(maps.Keys(s.held), maps.Keys(s.unfiled))
	if err != nil {
		return err
	}
	if err := s.makeFoldersOf(files); err != nil {
		return fmt.Errorf("make folders: %w", err)
	}
	if _, err := s.replace(files); err != nil {
		return fmt.Errorf("write sources and objects: %w", err)
	}
	dirs := map[string]struct{}{}
	for _, path := range gone {
		err := s.disk.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", s.within(path), err)
		}
		dirs[filepath.Dir(path)] = struct{}{}
	}
	if err := s.syncDirs(dirs, false); err != nil {
		return fmt.Errorf("sync removals: %w", err)
	}
	return nil
}

// filesOf returns the files of sources and objects that are not in files, and those of
// objects that are gone.
func (s *Store) filesOf(sources iter.Seq[script.Digest], objects iter.Seq[string]) (files []file, gone []string, err error) {
	for d := range sources {
		if src, is := s.held[d]; is {
			files = append(files, file{path: s.blobPath(d), content: src.content, blob: true})
		}
	}
	for key := range objects {
		path, err := s.objectPath(key)
		if err != nil {
			return nil, nil, err
		}
		switch o, is := s.unfiled[key]; {
		case o.gone:
			gone = append(gone, path)
		case is:
			files = append(files, file{path: path, content: encodeRecord(o.sealed)})
		}
	}
	return files, gone, nil
}

// fresh is what the journal has and was not written into files yet, with a sync or
// without.
type fresh struct {
	sources []script.Digest
	objects []string
}

// writeFresh writes it without a sync. What fails, as on a full disk, is written by the
// next checkpoint, as all is; an older edition of the object, in its file, is removed until
// then: whoever loses the journal has to ask for the object, and does not go back.
func (s *Store) writeFresh() {
	files, gone, err := s.filesOf(slices.Values(s.fresh.sources), slices.Values(s.fresh.objects))
	s.fresh = fresh{}
	if err != nil {
		return
	}
	_ = s.makeFoldersOf(files) // a file without its folder fails, too
	for _, f := range files {
		temp := s.tempPath()
		if s.disk.Write(temp, f.content, false) == nil && s.disk.Rename(temp, f.path) == nil {
			continue
		}
		_ = s.disk.Remove(temp)
		if !f.blob {
			_ = s.disk.Remove(f.path)
		}
	}
	for _, path := range gone {
		_ = s.disk.Remove(path)
	}
}

// removeGarbage removes the files of sources that were swept. What cannot be removed
// now is tried again after the next checkpoint.
func (s *Store) removeGarbage() {
	maps.DeleteFunc(s.garbage, func(d script.Digest, _ struct{}) bool {
		if s.HasSource(d) {
			return true
		}
		err := s.disk.Remove(s.blobPath(d))
		return err == nil || errors.Is(err, fs.ErrNotExist)
	})
}

// renew puts an empty journal in place of the one that is there. What it had is in
// files. If there is no room for one, there is none; after an error the old one is there,
// maybe.
func (s *Store) renew() error {
	s.dropJournal()
	if s.cursor != nil {
		if j, err := s.newJournal(); err == nil {
			s.journal, s.dirty = j, false
			return nil
		}
	}
	if !s.dirty {
		return nil
	}
	return s.removeJournal()
}

func (s *Store) removeJournal() error {
	if err := s.disk.Remove(s.journalPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the journal: %w", err)
	}
	if err := s.disk.SyncDir(s.dir); err != nil {
		return fmt.Errorf("remove the journal: %w", err)
	}
	s.dirty = false
	return nil
}

func (s *Store) newJournal() (*journal, error) {
	content, salt := encodeJournal(s.base)
	if _, err := s.replace([]file{{path: s.journalPath(), content: content}}); err != nil {
		return nil, err
	}
	return s.openJournal(salt)
}

// openJournal opens one that has no frames.
func (s *Store) openJournal(salt [saltSize]byte) (*journal, error) {
	f, err := s.disk.OpenJournal(s.journalPath())
	if err != nil {
		return nil, err
	}
	return &journal{file: f, salt: salt, end: journalHeader, synced: journalHeader}, nil
}

// replayed is what a load found in the journal.
type replayed struct {
	// cursor is nil if the journal had nothing to say.
	cursor *cursorRecord
	// lost says what is wrong with it.
	lost []Lost
	// empty is the journal if it can be used as it is.
	empty *written
	// behind is as in Loaded.
	behind bool
}

// replay writes what the journal has into files. If they cannot be written, all is
// loaded from memory where the journal has it.
func (s *Store) replay() replayed {
	data, err := readAtMost(s.journalPath(), maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return replayed{behind: true}
	}
	var w written
	if err == nil {
		w, err = decodeJournal(data)
	}
	if err == nil && w.pristine {
		return replayed{empty: &w, behind: !w.whole}
	}
	s.dirty = true
	base, sound := s.soundCursor()
	if sound && w.header && base != w.base {
		_ = s.removeJournal() // it has no say; or else it goes when the next begins
		return replayed{}
	}
	r := replayed{cursor: s.take(w.frames), behind: !w.whole}
	if !w.whole || !sound {
		s.keepNewer()
	}
	if r.behind {
		s.markBehind()
	}
	if err != nil {
		r.lost = []Lost{{Path: s.journalPath(), Err: err}}
	}
	if r.cursor != nil {
		_ = s.flush(r.cursor) // a full disk: what is on it can be served all the same
	}
	return r
}

// take keeps the changes in memory and returns the cursor of the last, nil if there is
// none.
func (s *Store) take(frames []frame) *cursorRecord {
	if len(frames) == 0 {
		return nil
	}
	for _, f := range frames {
		for _, content := range f.sources {
			s.held[script.DigestOf(content)] = held{content: bytes.Clone(content), journaled: true}
		}
		for _, o := range f.put {
			s.unfiled[o.key] = unfiled{sealed: bytes.Clone(o.sealed)}
		}
		for _, key := range f.removed {
			s.unfiled[key] = unfiled{gone: true, after: f.cursor.Cursor}
		}
	}
	return &frames[len(frames)-1].cursor
}

// keepNewer leaves files alone that are newer than what the journal has: it may have lost
// what came after, or other software may have been here, which dropped the cursor and did
// not come to write another. What is there then is not what the journal's cursor says, and
// everything is asked for.
func (s *Store) keepNewer() {
	maps.DeleteFunc(s.unfiled, func(key string, o unfiled) bool {
		path, err := s.objectPath(key)
		if err != nil {
			return false
		}
		payload, format, err := readRecord(path)
		if err != nil {
			return false
		}
		filed, err := s.objectOf(path, payload, format)
		if err != nil {
			return false
		}
		if o.gone {
			return filed.fleet == o.after.Fleet && filed.Revision() > o.after.Revision
		}
		has, err := s.objectOf(path, o.sealed, recordFormat)
		return err == nil && has.fleet == filed.fleet && has.Revision() < filed.Revision()
	})
}

// soundCursor returns the checksum of the file cursor if it is sound.
func (s *Store) soundCursor() (base [sha256.Size]byte, sound bool) {
	content, err := readAtMost(s.path("cursor"), maxRecord)
	if err != nil {
		return base, false
	}
	payload, _, err := decodeRecord(content)
	if err != nil || !json.Valid(payload) {
		return base, false
	}
	return sha256.Sum256(content), true
}

func readAtMost(path string, size int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > size {
		return nil, fmt.Errorf("%d bytes are too many", info.Size())
	}
	return os.ReadFile(path)
}
