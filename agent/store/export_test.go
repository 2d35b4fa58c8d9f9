package store

import "github.com/scriptorium-dev/scriptorium/proto/seal"

// Disk is what tests put faults into.
type Disk = disk

// OSDisk is the one without faults.
type OSDisk = osDisk

// JournalFile is what tests put faults into, too.
type JournalFile = journalFile

// Abandon leaves the folder as a process does that is killed.
func (s *Store) Abandon() error {
	s.dropJournal()
	return s.lock.Close()
}

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

	EncodeJournal = encodeJournal
)

// MaxAlone is the largest change that has a journal of its own.
const MaxAlone = maxAlone

// JournalHeader and JournalSize are the sizes of an empty journal.
const (
	JournalHeader = journalHeader
	JournalSize   = journalSize
)

// ObjectPath and KeyOf turn a key into a path and back.
func (s *Store) ObjectPath(key string) (string, error) { return s.objectPath(key) }

// KeyOf is the inverse of ObjectPath.
func (s *Store) KeyOf(path string) (string, error) { return s.keyOf(path) }

// Recode reads a journal and returns how many frames are sound, and what they are once
// written again, with the frames all synced or not.
func Recode(data []byte) (frames int, again []byte, err error) {
	w, err := decodeJournal(data)
	if !w.header {
		return 0, nil, err
	}
	again = append(again, data[:journalHeader]...)
	for _, f := range w.frames {
		payload, failed := f.encode()
		if failed != nil {
			return 0, nil, failed
		}
		again = append(again, encodeFrame(w.salt, 0, payload)...)
	}
	return len(w.frames), again, err
}

// Payloads returns those of all frames.
func Payloads(data []byte) (all [][]byte) {
	w, _ := decodeJournal(data)
	for at := journalHeader; ; {
		payload, _, err := frameAt(data, at, w.salt)
		if err != nil {
			return all
		}
		all = append(all, payload)
		at += frameHeader + len(payload)
	}
}

// RecodeFrame reads the payload of a frame and writes it again.
func RecodeFrame(payload []byte) ([]byte, error) {
	f, err := decodeFrame(payload)
	if err != nil {
		return nil, err
	}
	return f.encode()
}
