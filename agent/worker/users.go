package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Users are the ids that processes run as if the agent is root: each process has one for
// itself, as its user and as its group.
type Users struct{ First, Last uint32 }

// DefaultUsers are ids that no system gives to anybody: below them are those of people,
// services and containers, above them those that systemd keeps for itself.
var DefaultUsers = Users{1_900_000_000, 1_900_065_535}

// nobody is whom many programs run as.
const nobody = 65534

// ParseUsers reads "1900000000-1900065535". Its errors are Invalid.
func ParseUsers(text string) (Users, error) {
	from, to, ok := strings.Cut(text, "-")
	first, err := strconv.ParseUint(from, 10, 32)
	last, err2 := strconv.ParseUint(to, 10, 32)
	if !ok || err != nil || err2 != nil || first > last {
		return Users{}, script.Errorf(script.Invalid, "", "%q is no range of ids: want FIRST-LAST, such as %v", text, DefaultUsers)
	}
	u := Users{uint32(first), uint32(last)}
	for id, who := range map[uint32]string{0: "root", nobody: "nobody, whom other programs run as", math.MaxUint32: "no user"} {
		if u.contain(id) {
			return Users{}, script.Errorf(script.Invalid, "", "%v contains %d, which is %s: name another range, such as %v", u, id, who, DefaultUsers)
		}
	}
	return u, nil
}

// String returns "1900000000-1900065535".
func (u Users) String() string { return fmt.Sprintf("%d-%d", u.First, u.Last) }

func (u Users) contain(id uint32) bool { return u.First <= id && id <= u.Last }

// CheckFree returns an Invalid error if a file of the folder, which is like /etc, gives one of the
// ids to a user or to a group. A file that is not there gives nobody any.
func (u Users) CheckFree(etc string) error {
	for _, given := range []struct {
		file   string
		fields []int  // of a line that are ids
		count  int    // the field that says how many there are from the id on; 0: there is one
		what   string // one of them is
	}{
		{"passwd", []int{2, 3}, 0, "the id of"},
		{"group", []int{2}, 0, "the id of"},
		{"subuid", []int{1}, 2, "a subordinate id of"},
		{"subgid", []int{1}, 2, "a subordinate id of"},
	} {
		path := filepath.Join(etc, given.file)
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // such as in a container
		}
		if err != nil {
			return script.Errorf(script.Invalid, "", "%s cannot be read, so that nobody knows whether %v are free: %w", path, u, err)
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			parts := strings.Split(strings.TrimSpace(line), ":")
			for _, i := range given.fields {
				if id, overlaps := u.overlap(parts, i, given.count); overlaps {
					return script.Errorf(script.Invalid, "", "%v contains %d, which is %s %s in line %d of %s: name a range that nobody has, such as %v",
						u, id, given.what, parts[0], number, path, DefaultUsers)
				}
			}
		}
	}
	return nil
}

// overlap returns the first of the ids that a line gives and that u has.
func (u Users) overlap(line []string, first, count int) (id uint64, overlaps bool) {
	if max(first, count) >= len(line) {
		return 0, false
	}
	from, err := strconv.ParseUint(line[first], 10, 32)
	if err != nil {
		return 0, false
	}
	many := uint64(1)
	if count > 0 {
		if many, err = strconv.ParseUint(line[count], 10, 63); err != nil {
			return 0, false
		}
	}
	id = max(from, uint64(u.First))
	return id, id <= uint64(u.Last) && id < from+many
}
