package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Loaded is what was on disk.
type Loaded struct {
	// Releases, Values and Tenants that passed their checks, in order of tenant and
	// name or key. What one needs may be missing: see Store.HasSource.
	Releases []script.Release
	Values   []script.Value
	Tenants  []script.Tenant
	// Cursor to follow the feed from. It is zero, which asks for a full
	// snapshot, when anything that a sync would not bring back was lost.
	Cursor Cursor
	// Fleet is the one that the folder is of, also if there is no cursor; "" if nothing says.
	Fleet string
	// ReleasesAlone says that the cursor is of software that kept nothing else: it has
	// passed values and tenants that are not here.
	ReleasesAlone bool
	// Behind says that the end of the journal is damaged or missing. What is here may then be
	// older than what the agent last served: a damaged frame looks like one that was never
	// complete.
	Behind bool
	// Lost says what was corrupt or missing, for the log.
	Lost []Lost
	// Doubted are the objects that no key has signed that is trusted now. They are
	// not among those above. Their files are left alone until a full snapshot has
	// come: if it is the trusted keys that are wrong, nothing is lost.
	Doubted []Lost

	anySettings bool // settings are gone, and nothing says of which tenants
}

// Objects yields all that was loaded.
func (l *Loaded) Objects() iter.Seq[script.Object] {
	return func(yield func(script.Object) bool) {
		for i := range l.Tenants {
			if !yield(script.Object{Tenant: &l.Tenants[i]}) {
				return
			}
		}
		for i := range l.Values {
			if !yield(script.Object{Value: &l.Values[i]}) {
				return
			}
		}
		for i := range l.Releases {
			if !yield(script.Object{Release: &l.Releases[i]}) {
				return
			}
		}
	}
}

// Lost is a file that failed its check and was set aside.
type Lost struct {
	Path string // within the folder
	Err  error
}

func (s *Store) load() (*Loaded, error) {
	if err := s.emptyTemp(); err != nil {
		return nil, err
	}
	_, err := os.Stat(s.path("behind"))
	s.behind = err == nil
	found := s.replay()
	loaded := &Loaded{Behind: found.behind || s.behind}
	record, err := s.readCursor(loaded)
	if err != nil {
		return nil, err
	}
	if s.unwritten() { // the files are not those of the journal's cursor yet
		record = found.cursor
		loaded.Cursor, loaded.ReleasesAlone = record.Cursor, false
	}
	if err := s.listSettingsAside(); err != nil {
		return nil, err
	}
	if err := s.loadObjects(loaded, record, found.lost); err != nil {
		return nil, err
	}
	if record == nil {
		s.recallLost(loaded)
	}
	if err := s.loadBlobs(loaded); err != nil {
		return nil, err
	}
	if loaded.Behind && len(s.objects) > 0 {
		s.markBehind()
	}
	// While an object is lost, its sources may still be of use to the snapshot
	// that brings it back.
	if loaded.Cursor != (Cursor{}) {
		s.sweep()
	}
	s.begin(loaded, found.empty)
	return loaded, nil
}

// markBehind keeps in mind that what is here may be out of date, until a cursor is saved: once
// there is a new journal, nothing else tells. On a full disk, this run alone knows.
func (s *Store) markBehind() {
	if !s.behind {
		_, err := s.replace([]file{{path: s.path("behind")}})
		s.behind = err == nil
	}
}

// begin readies the journal, if the cursor goes with what was loaded. That there is no
// room for one is no reason not to serve.
func (s *Store) begin(loaded *Loaded, empty *written) {
	if !s.unwritten() {
		s.removeGarbage()
	}
	base, sound := s.soundCursor()
	if sound && loaded.Cursor.Revision > 0 && !loaded.ReleasesAlone && len(loaded.Doubted) == 0 {
		c := loaded.Cursor
		s.cursor = &c
	}
	switch {
	case s.unwritten(): // on a full disk: a checkpoint comes before a change
	case s.cursor == nil:
		_ = s.renew()
	case empty != nil && empty.base == base:
		s.base = base
		s.journal, _ = s.openJournal(empty.salt)
	default:
		s.base = base
		_ = s.renew()
	}
}

func (s *Store) emptyTemp() error {
	left, err := os.ReadDir(s.path("tmp"))
	if err != nil {
		return err
	}
	for _, entry := range left {
		if err := os.RemoveAll(s.path("tmp", entry.Name())); err != nil {
			return err
		}
	}
	for i := range uint64(tempFolders) {
		if err := os.Mkdir(s.path("tmp", strconv.FormatUint(i, 36)), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// readCursor returns the record, nil when there is none to believe.
func (s *Store) readCursor(loaded *Loaded) (*cursorRecord, error) {
	payload, _, err := readRecord(s.path("cursor"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var record cursorRecord
	if err == nil {
		err = json.Unmarshal(payload, &record)
	}
	if err == nil {
		loaded.Cursor, loaded.ReleasesAlone = record.Cursor, record.Others == nil
		return &record, nil
	}
	loaded.Lost = append(loaded.Lost, Lost{Path: "cursor", Err: err})
	return nil, s.setAside(s.path("cursor"))
}

// loadObjects adds to what is lost already.
func (s *Store) loadObjects(loaded *Loaded, record *cursorRecord, lost []Lost) error {
	paths, err := s.objectFiles()
	if err != nil {
		return err
	}
	if paths, err = s.amend(paths); err != nil {
		return err
	}
	read, damaged := readAll(paths, s.readObject)
	lost = append(lost, damaged...)
	fleet, read, strangers := ofOneFleet(read, loaded.Cursor.Fleet)
	loaded.Fleet = fleet
	lost = append(lost, strangers...)
	for _, l := range takeDoubted(&lost) {
		s.doubtful = append(s.doubtful, l.Path)
		l.Path = s.within(l.Path)
		loaded.Doubted = append(loaded.Doubted, l)
	}
	for _, o := range read {
		s.index(o.Key(), indexOf(o.Object, o.sealedBy))
	}
	loaded.take(read)
	loaded.anySettings = s.missesSettings(record, lost, loaded.Doubted)
	switch {
	case len(lost) > 0:
	case len(loaded.Doubted) > 0:
		// The cursor stays on disk: if they are believed next time, it is right.
		loaded.Cursor = Cursor{}
		return nil
	case record != nil && record.Fleet != fleet:
		loaded.Lost = append(loaded.Lost, Lost{Path: "cursor", Err: fmt.Errorf("it is of the fleet %.80q, and the releases are of %.80q", record.Fleet, fleet)})
	case record != nil && s.releases != (tally{Count: record.Releases, Sum: record.Sum}):
		loaded.Lost = append(loaded.Lost, Lost{Path: "releases", Err: vanished(s.releases, record.Releases)})
	case record != nil && record.Others != nil && s.others != *record.Others:
		loaded.Lost = append(loaded.Lost, Lost{Path: "values", Err: fmt.Errorf("with tenants, %w", vanished(s.others, record.Others.Count))})
	default:
		return nil
	}
	// The cursor goes before the evidence does: a crash in between must not
	// leave a cursor that covers for what is lost. One that counts settings that are gone
	// is the evidence. It cannot cover for them.
	loaded.Cursor = Cursor{}
	if !loaded.anySettings {
		if err := s.dropCursor(); err != nil {
			return err
		}
	}
	return s.setAllAside(loaded, lost)
}

// vanished is what is wrong when the objects are not those of the cursor.
func vanished(is tally, were int) error {
	return fmt.Errorf("%d are there and %d were when the cursor was written, or others", is.Count, were)
}

// take sorts the objects by their kinds and keys.
func (l *Loaded) take(read []onDisk) {
	for _, o := range read {
		switch {
		case o.Release != nil:
			l.Releases = append(l.Releases, *o.Release)
		case o.Value != nil:
			l.Values = append(l.Values, *o.Value)
		default:
			l.Tenants = append(l.Tenants, *o.Tenant)
		}
	}
	slices.SortFunc(l.Releases, func(a, b script.Release) int {
		return cmp.Or(strings.Compare(a.Name.Tenant, b.Name.Tenant), strings.Compare(a.Name.Script, b.Name.Script))
	})
	slices.SortFunc(l.Values, func(a, b script.Value) int {
		return cmp.Or(strings.Compare(a.Key.Tenant, b.Key.Tenant), strings.Compare(a.Key.Key, b.Key.Key))
	})
	slices.SortFunc(l.Tenants, func(a, b script.Tenant) int { return strings.Compare(a.Name, b.Name) })
}

// objectFiles lists releases/<tenant>/<name>, values/<tenant>/<key> and
// tenants/<tenant>, and whatever else is there, which no check will pass.
func (s *Store) objectFiles() ([]string, error) {
	var paths []string
	for _, kind := range kinds {
		within, err := os.ReadDir(s.path(string(kind)))
		if err != nil {
			return nil, err
		}
		for _, entry := range within {
			path := s.path(string(kind), entry.Name())
			if !entry.IsDir() || kind == script.Tenants {
				paths = append(paths, path)
				continue
			}
			s.folders[path] = struct{}{}
			names, err := os.ReadDir(path)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				paths = append(paths, filepath.Join(path, name.Name()))
			}
		}
	}
	return paths, nil
}

// amend puts in and leaves out what the journal does, as long as it is not in files.
func (s *Store) amend(paths []string) ([]string, error) {
	if len(s.unfiled) == 0 {
		return paths, nil
	}
	all := map[string]struct{}{}
	for _, path := range paths {
		all[path] = struct{}{}
	}
	for key, o := range s.unfiled {
		path, err := s.objectPath(key)
		if err != nil {
			return nil, err
		}
		all[path] = struct{}{}
		if o.gone {
			delete(all, path)
		}
	}
	return slices.Collect(maps.Keys(all)), nil
}

// readEntry reads the record of an object.
func (s *Store) readEntry(path string) (payload []byte, format byte, err error) {
	if len(s.unfiled) > 0 {
		if key, err := s.keyOf(path); err == nil {
			if o, is := s.unfiled[key]; is {
				return o.sealed, recordFormat, nil
			}
		}
	}
	return readRecord(path)
}

// errMisplaced means that a file is sound and has another object than its name says.
var errMisplaced = errors.New("which does not belong there")

// readObject reads and verifies an object. Its error has errDoubted in its chain
// if the file is sound and not believed.
func (s *Store) readObject(path string) (onDisk, error) {
	payload, format, err := s.readEntry(path)
	if err != nil {
		return onDisk{}, err
	}
	return s.objectOf(path, payload, format)
}

// Release returns the release with the key as the next Open loads it.
func (s *Store) Release(key string) (script.Release, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	path, err := s.objectPath(key)
	if err != nil {
		return script.Release{}, err
	}
	read, err := s.readObject(path)
	if err != nil {
		return script.Release{}, script.Errorf(script.Internal, s.within(path), "cannot be read: %w", err)
	}
	return *read.Release, nil
}

// objectOf verifies what the record of an object has.
func (s *Store) objectOf(path string, payload []byte, format byte) (onDisk, error) {
	e, err := s.believe(payload, format)
	if err != nil {
		return onDisk{}, err
	}
	message := e.message.GetObject()
	if want, err := s.objectPath(message.GetKey()); err != nil || want != path {
		return onDisk{}, fmt.Errorf("it holds %.200q, %w", message.GetKey(), errMisplaced)
	}
	o, known, err := wire.ToObject(message)
	if err != nil {
		return onDisk{}, err
	}
	if !known || o.Deleted() || o.Revision() <= 0 {
		return onDisk{}, fmt.Errorf("%.200q is not live", message.GetKey())
	}
	return onDisk{Object: o, path: path, fleet: e.message.GetFleet(), sealedBy: e.sealedBy}, nil
}

// loadBlobs verifies every source that is on disk. One that is lost is not on
// disk any more for anyone who asks, and is fetched again by its digest.
func (s *Store) loadBlobs(loaded *Loaded) error {
	folders, err := os.ReadDir(s.path("blobs"))
	if err != nil {
		return err
	}
	var paths []string
	for _, folder := range folders {
		blobs, err := os.ReadDir(s.path("blobs", folder.Name()))
		if err != nil {
			return err
		}
		for _, b := range blobs {
			paths = append(paths, s.path("blobs", folder.Name(), b.Name()))
		}
	}
	digests, lost := readAll(paths, func(path string) (script.Digest, error) {
		want, err := script.ParseDigest("sha256:" + filepath.Base(path))
		if err != nil {
			return script.Digest{}, err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return script.Digest{}, err
		}
		if script.DigestOf(content) != want || path != s.blobPath(want) {
			return script.Digest{}, errors.New("the content is not what the name says")
		}
		return want, nil
	})
	for _, d := range slices.AppendSeq(digests, maps.Keys(s.held)) {
		s.setPresent(d, true)
	}
	// What no object needs was being written when a process died.
	lost = slices.DeleteFunc(lost, func(l Lost) bool {
		d, err := script.ParseDigest("sha256:" + filepath.Base(l.Path))
		return err == nil && !s.Retains(d) && os.Remove(l.Path) == nil
	})
	return s.setAllAside(loaded, lost)
}

// readAll reads the files on all cores and returns what passed and what did
// not, the former in no particular order.
func readAll[T any](paths []string, read func(string) (T, error)) (good []T, lost []Lost) {
	var mu sync.Mutex
	var g errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for part := range slices.Chunk(paths, max(1, (len(paths)+workers-1)/workers)) {
		g.Go(func() error {
			passed := make([]T, 0, len(part))
			var failed []Lost
			for _, path := range part {
				v, err := read(path)
				if err != nil {
					failed = append(failed, Lost{Path: path, Err: err})
					continue
				}
				passed = append(passed, v)
			}
			mu.Lock()
			defer mu.Unlock()
			good = append(good, passed...)
			lost = append(lost, failed...)
			return nil
		})
	}
	_ = g.Wait() // no part fails: what cannot be read is lost
	return good, lost
}

func (s *Store) setAllAside(loaded *Loaded, lost []Lost) error {
	for _, l := range lost {
		if err := s.setAside(l.Path); err != nil {
			return err
		}
		l.Path = s.within(l.Path)
		loaded.Lost = append(loaded.Lost, l)
	}
	return s.pruneCorrupt()
}

// setAside moves a file into corrupt/. Call pruneCorrupt after.
func (s *Store) setAside(path string) error {
	rel, err := filepath.Rel(s.dir, path)
	if err != nil {
		return err
	}
	if key, err := s.keyOf(path); err == nil {
		delete(s.unfiled, key)
	}
	if path == s.journalPath() && s.unwritten() {
		return nil // a full disk: what is sound of it is nowhere else
	}
	name := time.Now().UTC().Format("20060102T150405.000000000") + "-" + strings.ReplaceAll(rel, string(filepath.Separator), "-")
	if len(name) > 200 {
		name = name[:200]
	}
	if err := s.disk.Rename(path, s.path("corrupt", name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set %s aside: %w", rel, err)
	}
	s.noteSettingsAside(name)
	return nil
}
