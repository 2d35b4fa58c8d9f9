package script

import (
	"slices"
	"time"
)

// MaxValueLines is how many changes of a value its history has at most.
const MaxValueLines = 10

// ValueLine is one change of a value.
type ValueLine struct {
	Revision Revision
	Change   Change // put, delete, rollback, import or repair
	Version  uint64 // that the value has after the change; 0 after a delete
	Digest   Digest // of that version's content
	Size     int    // bytes of that content
	Author   string
	Note     string
	Time     time.Time
}

// ValueHistory has the last changes of a value. The registry retains the contents of the versions
// that they name. Numbers of versions start at 1 and are never used again, not even after the
// value was deleted. Nobody changes the lines of a ValueHistory.
type ValueHistory struct {
	Key ValueKey
	// Latest is the highest number that a version of the key ever had. Where nobody knows that
	// any more, it is higher.
	Latest uint64
	Lines  []ValueLine // newest first
}

// Retains returns the newest line that has the version.
func (h *ValueHistory) Retains(version uint64) (ValueLine, bool) {
	i := slices.IndexFunc(h.Lines, func(l ValueLine) bool { return l.Version == version })
	if i < 0 || version == 0 {
		return ValueLine{}, false
	}
	return h.Lines[i], true
}

// Versions returns the numbers of the versions that are retained, in their order.
func (h *ValueHistory) Versions() []uint64 {
	var numbers []uint64
	for _, l := range h.Lines {
		if l.Version != 0 {
			numbers = append(numbers, l.Version)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// valueLineBytes is about what a line takes besides its texts.
const valueLineBytes = 128

// OlderBytes is about what the registry keeps for all lines but the newest: each content once, and
// the lines themselves.
func (h *ValueHistory) OlderBytes() (n int64) {
	counted := map[Digest]bool{{}: true}
	for i, l := range h.Lines {
		if i > 0 {
			n += int64(valueLineBytes + len(l.Author) + len(l.Note))
			if !counted[l.Digest] {
				n += int64(l.Size)
			}
		}
		counted[l.Digest] = true
	}
	return n
}
