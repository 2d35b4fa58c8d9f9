package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// onDisk is an object that was read and is believed.
type onDisk struct {
	script.Object
	path     string
	fleet    string // "" if the file does not say: it is of the wire protocol 1
	sealedBy string
}

type entry struct {
	message  *eventv1.Entry
	sealedBy string
}

// errDoubted means that a file is whole, and that no trusted key has signed it.
var errDoubted = errors.New("no key that is trusted here has signed it")

// doubted is errDoubted with its reason, which says the same in more words.
type doubted struct{ error }

func (d doubted) Unwrap() []error { return []error{d.error, errDoubted} }

// believe takes the entry out of a record.
func (s *Store) believe(payload []byte, format byte) (entry, error) {
	var e eventv1.Entry
	if format == unsignedFormat {
		if !s.trusted.TrustsEverything() {
			return entry{}, fmt.Errorf("written by software of the wire protocol 1, which does not keep signatures: %w", errDoubted)
		}
		e.Object = &eventv1.Object{}
		return entry{message: &e}, proto.Unmarshal(payload, e.GetObject())
	}
	id, err := s.trusted.Open(payload, &e)
	if errors.Is(err, seal.ErrUnsigned) || errors.Is(err, seal.ErrUnknownKey) {
		return entry{}, doubted{err}
	}
	if err == nil && id == "" { // of those that are believed whoever signed them
		id, err = seal.Unpack(payload, &e)
	}
	return entry{message: &e, sealedBy: id}, err
}

// takeDoubted takes those that are not believed out of what is lost.
func takeDoubted(lost *[]Lost) (doubted []Lost) {
	var rest []Lost
	for _, l := range *lost {
		if errors.Is(l.Err, errDoubted) {
			doubted = append(doubted, l)
			continue
		}
		rest = append(rest, l)
	}
	*lost = rest
	return doubted
}

// ofOneFleet returns the objects of one fleet: the cursor's, if there are any, and
// else the one that has most of them. Others are lost.
func ofOneFleet(read []onDisk, cursor string) (fleet string, kept []onDisk, lost []Lost) {
	fleet = cursor
	count := map[string]int{}
	for _, r := range read {
		count[r.fleet]++
	}
	unknown := count[""]
	delete(count, "")
	if count[fleet] == 0 && unknown == 0 {
		for other, n := range count {
			if n > count[fleet] || n == count[fleet] && other < fleet {
				fleet = other
			}
		}
	}
	for _, r := range read {
		if r.fleet == fleet || r.fleet == "" {
			kept = append(kept, r)
			continue
		}
		lost = append(lost, Lost{Path: r.path, Err: fmt.Errorf("it is of the fleet %.80q, and not of %.80q", r.fleet, fleet)})
	}
	return fleet, kept, lost
}

// within returns the path as it is within the folder.
func (s *Store) within(path string) string {
	if rel, err := filepath.Rel(s.dir, path); err == nil {
		return rel
	}
	return path
}
