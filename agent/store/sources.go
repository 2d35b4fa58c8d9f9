package store

import (
	"bytes"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/script"
)

// PutSources puts sources into the store. Sources that an object retains are durable when
// it returns. The others are durable with the next commit, if not before: callers commit
// the objects that need them next. The store removes sources that no object retains after
// a commit with the next cursor that it saves. After an error any of them may be there.
func (s *Store) PutSources(sources []Source) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	room := maxWaiting - s.waiting()
	retained := false
	var files []file
	var added []script.Digest
	holding := map[script.Digest]held{}
	seen := map[script.Digest]struct{}{}
	for _, src := range sources {
		if _, twice := seen[src.Digest]; twice || s.HasSource(src.Digest) {
			continue
		}
		seen[src.Digest] = struct{}{}
		added = append(added, src.Digest)
		if s.journal == nil || len(src.Content) > min(room, maxHeld) {
			files = append(files, file{path: s.blobPath(src.Digest), content: src.Content, blob: true})
			continue
		}
		room -= len(src.Content)
		holding[src.Digest] = held{content: bytes.Clone(src.Content)}
		retained = retained || s.Retains(src.Digest)
	}
	if err := s.writeSources(files); err != nil {
		return err
	}
	s.hold(holding)
	for _, d := range added {
		s.setPresent(d, true)
		delete(s.garbage, d)
	}
	if !retained {
		return nil
	}
	f := frame{cursor: s.record(*s.cursor)}
	waiting := s.addWaiting(&f)
	if !s.add(f, true) {
		return s.checkpoint()
	}
	s.journaled(waiting)
	return nil
}

// writeSources makes sources durable in files.
func (s *Store) writeSources(files []file) error {
	if err := s.makeFoldersOf(files); err != nil {
		return fmt.Errorf("make the folders of sources: %w", err)
	}
	if _, err := s.replace(files); err != nil {
		return fmt.Errorf("write sources: %w", err)
	}
	return nil
}

const (
	// maxHeld is the size up to which a source goes into the journal.
	maxHeld = 64 << 10
	// maxWaiting is how many bytes of sources wait for a commit at most.
	maxWaiting = 96 << 10
)

// held is a source that is not in its file yet.
type held struct {
	content   []byte
	journaled bool // or else it waits for the next frame
}

// waiting returns how many bytes wait for the next frame.
func (s *Store) waiting() int {
	n := 0
	for _, src := range s.held {
		if !src.journaled {
			n += len(src.content)
		}
	}
	return n
}

func (s *Store) hold(sources map[script.Digest]held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, src := range sources {
		s.held[d] = src
	}
}

// addWaiting adds to the frame the sources that wait for one, and returns them.
func (s *Store) addWaiting(f *frame) map[script.Digest]held {
	waiting := map[script.Digest]held{}
	for d, src := range s.held {
		if !src.journaled {
			f.sources = append(f.sources, src.content)
			waiting[d] = held{content: src.content, journaled: true}
		}
	}
	return waiting
}

// journaled takes note that those that waited are durable. A checkpoint may have come
// first.
func (s *Store) journaled(waited map[script.Digest]held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, src := range waited {
		if _, is := s.held[d]; is {
			s.held[d] = src
			s.fresh.sources = append(s.fresh.sources, d)
		}
	}
}

// sweep takes the sources that no object retains out of the store. Their files go after
// the next checkpoint: should the journal be lost, what is in files may need them.
func (s *Store) sweep() {
	s.mu.RLock()
	gone := make([]script.Digest, 0, len(s.orphans))
	for d := range s.orphans {
		gone = append(gone, d)
	}
	s.mu.RUnlock()
	for _, d := range gone {
		s.garbage[d] = struct{}{}
		s.setPresent(d, false)
	}
}
