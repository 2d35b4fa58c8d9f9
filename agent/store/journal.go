package store

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// The journal has changes that are durable and not in files of their own yet:
//
//	8 bytes   magic: "scrptj", 0 and the number of the format
//	16 bytes  salt, chosen at random
//	32 bytes  SHA-256 of the file cursor on which the changes build
//	32 bytes  SHA-256 of what is above
//	frames
//	zeros, so that a frame takes the place of bytes that are on disk already: to sync
//	    it, the file system has nothing to note of its own
//
// and a frame is:
//
//	16 bytes  the salt, by which it is found after one that is damaged
//	4 bytes   up to where the journal was synced when this was written, big endian
//	4 bytes   length of the payload, big endian
//	32 bytes  SHA-256 of what is above and of the payload
//	payload
//
// A frame is one change and is there or not. After an error none is added: all goes
// into files, and a new journal is begun. It has no say once the file cursor is sound
// and another: then it is all in files, or other software has been here, which does
// not know of it, and its changes are older than what is there.
const journalMagic = "scrptj\x00\x01"

const (
	saltSize      = 16
	journalHeader = len(journalMagic) + saltSize + 2*sha256.Size
	frameHeader   = saltSize + 4 + 4 + sha256.Size
	// journalSize is what a journal has on disk: some 70 changes of 4 KiB, of which a
	// checkpoint makes 140 files. The change that comes next waits for that.
	journalSize = 512 << 10
	// maxFrame is the largest payload of a frame that shares a journal: all sources that wait,
	// and 64 KiB for the objects that need them. When a cursor is saved, a journal without room
	// for one more gives way to a new one.
	maxFrame = maxWaiting + 64<<10
	// maxAlone is the largest payload of a frame with a journal of its own. It has room for
	// every change set. A larger change goes into files at once.
	maxAlone = 8 << 20
	// maxJournal is what is read at most. It is never as large.
	maxJournal = 16 << 20
)

// journalFile is what the journal does with its file.
type journalFile interface {
	WriteAt(b []byte, offset int64) (int, error)
	// Sync makes the content durable.
	Sync() error
	Close() error
}

// journal is one that frames can be added to.
type journal struct {
	file   journalFile
	salt   [saltSize]byte
	end    int // of the last frame
	synced int // up to where it is durable
}

// append adds the payload of a frame; durably if sync. After an error the frame may be there or not,
// and the journal must not be used any more.
func (j *journal) append(payload []byte, sync bool) error {
	b := encodeFrame(j.salt, j.synced, payload)
	if _, err := j.file.WriteAt(b, int64(j.end)); err != nil {
		return err
	}
	j.end += len(b)
	if !sync {
		return nil
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.synced = j.end
	return nil
}

// fits reports whether there is room on disk for so many bytes of payload.
func (j *journal) fits(payload int) bool { return j.end+frameHeader+payload <= journalSize }

// encodeJournal returns an empty journal.
func encodeJournal(base [sha256.Size]byte) (content []byte, salt [saltSize]byte) {
	_, _ = rand.Read(salt[:]) // never fails
	content = make([]byte, 0, journalSize)
	content = append(content, journalMagic...)
	content = append(content, salt[:]...)
	content = append(content, base[:]...)
	sum := sha256.Sum256(content)
	content = append(content, sum[:]...)
	return content[:journalSize], salt
}

func encodeFrame(salt [saltSize]byte, synced int, payload []byte) []byte {
	b := make([]byte, 0, frameHeader+len(payload))
	b = append(b, salt[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(synced))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	sum := frameSum(b, payload)
	b = append(b, sum...)
	return append(b, payload...)
}

func frameSum(header, payload []byte) []byte {
	h := sha256.New()
	_, _ = h.Write(header) // a hash never fails
	_, _ = h.Write(payload)
	return h.Sum(nil)
}

// frame is one change: sources, then objects that are put, then those that are gone.
type frame struct {
	// cursor is the last one, with the tallies after the change.
	cursor  cursorRecord
	sources [][]byte
	put     []sealedObject
	removed []string
}

type sealedObject struct {
	key    string
	sealed []byte
}

func (f frame) encode() ([]byte, error) {
	cursor, err := json.Marshal(f.cursor)
	if err != nil {
		return nil, fmt.Errorf("encode the cursor: %w", err)
	}
	b := appendBytes(nil, cursor)
	b = binary.AppendUvarint(b, uint64(len(f.sources)))
	for _, content := range f.sources {
		b = appendBytes(b, content)
	}
	b = binary.AppendUvarint(b, uint64(len(f.put)))
	for _, o := range f.put {
		b = appendBytes(appendBytes(b, []byte(o.key)), o.sealed)
	}
	b = binary.AppendUvarint(b, uint64(len(f.removed)))
	for _, key := range f.removed {
		b = appendBytes(b, []byte(key))
	}
	return b, nil
}

func appendBytes(b, content []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(content))), content...)
}

// decodeFrame returns the frame, which shares memory with the payload.
func decodeFrame(payload []byte) (f frame, err error) {
	r := fields{rest: payload}
	cursor := r.next()
	for range r.number() {
		f.sources = append(f.sources, r.next())
	}
	for range r.number() {
		f.put = append(f.put, sealedObject{key: string(r.next()), sealed: r.next()})
	}
	for range r.number() {
		f.removed = append(f.removed, string(r.next()))
	}
	if r.short || len(r.rest) > 0 {
		return frame{}, errors.New("the payload is not that of a change")
	}
	if err := json.Unmarshal(cursor, &f.cursor); err != nil {
		return frame{}, fmt.Errorf("the cursor: %w", err)
	}
	if f.cursor.Others == nil || f.cursor.Revision <= 0 {
		return frame{}, errors.New("the cursor is not that of a change")
	}
	for _, o := range f.put {
		if err := validKey(o.key); err != nil {
			return frame{}, err
		}
	}
	for _, key := range f.removed {
		if err := validKey(key); err != nil {
			return frame{}, err
		}
	}
	return f, nil
}

// fields reads what appendBytes has written.
type fields struct {
	rest  []byte
	short bool
}

func (r *fields) number() int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(len(r.rest)-size) { // neither a length nor a count can be more
		r.rest, r.short = nil, true
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *fields) next() []byte {
	n := r.number()
	field := r.rest[:n:n]
	r.rest = r.rest[n:]
	return field
}

// written is what was found in a journal.
type written struct {
	salt     [saltSize]byte
	base     [sha256.Size]byte
	header   bool // it is sound
	frames   []frame
	pristine bool // there is nothing in it, and nothing ever was
	whole    bool // there is nothing after the frames, and never was
}

// decodeJournal returns what is sound up to the first frame that is not. Of that and of
// what follows it nothing was acknowledged, unless there is an error: then something
// may be lost.
func decodeJournal(data []byte) (written, error) {
	var w written
	if len(data) < journalHeader || !bytes.HasPrefix(data, []byte(journalMagic[:len(journalMagic)-1])) {
		return w, errors.New("not a journal")
	}
	if format := data[len(journalMagic)-1]; format != journalMagic[len(journalMagic)-1] {
		return w, fmt.Errorf("of format %d, which this software does not know", format)
	}
	above := journalHeader - sha256.Size
	if sum := sha256.Sum256(data[:above]); !bytes.Equal(sum[:], data[above:journalHeader]) {
		return w, errors.New("the checksum of the header does not match")
	}
	n := copy(w.salt[:], data[len(journalMagic):])
	copy(w.base[:], data[len(journalMagic)+n:])
	w.header = true
	at := journalHeader
	w.pristine = len(bytes.Trim(data[at:], "\x00")) == 0
	for {
		payload, _, err := frameAt(data, at, w.salt)
		if err != nil {
			break
		}
		f, err := decodeFrame(payload)
		if err != nil {
			return w, fmt.Errorf("at byte %d: %w", at, err)
		}
		w.frames = append(w.frames, f)
		at += frameHeader + len(payload)
	}
	w.whole = len(data) >= journalSize && len(bytes.Trim(data[at:], "\x00")) == 0
	if later, lost := acknowledged(data, at, w.salt); lost {
		return w, fmt.Errorf("damaged at byte %d: a change at byte %d says that it was on disk", at, later)
	}
	return w, nil
}

// frameAt returns the payload of the frame that begins there.
func frameAt(data []byte, at int, salt [saltSize]byte) (payload []byte, synced int, err error) {
	rest := data[at:]
	if len(rest) < frameHeader || !bytes.HasPrefix(rest, salt[:]) {
		return nil, 0, errors.New("no frame")
	}
	length := binary.BigEndian.Uint32(rest[saltSize+4:])
	if uint64(length) > uint64(len(rest)-frameHeader) {
		return nil, 0, errors.New("torn")
	}
	payload = rest[frameHeader : frameHeader+int(length)]
	above := frameHeader - sha256.Size
	if !bytes.Equal(frameSum(rest[:above], payload), rest[above:frameHeader]) {
		return nil, 0, errors.New("the checksum does not match")
	}
	return payload, int(binary.BigEndian.Uint32(rest[saltSize:])), nil
}

// acknowledged looks for a frame after that place that was written when what begins
// there was durable.
func acknowledged(data []byte, place int, salt [saltSize]byte) (at int, found bool) {
	for at = place; ; at++ {
		next := bytes.Index(data[at:], salt[:])
		if next < 0 {
			return 0, false
		}
		at += next
		if _, synced, err := frameAt(data, at, salt); err == nil && synced > place {
			return at, true
		}
	}
}
