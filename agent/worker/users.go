package worker

import (
	"bufio"
	"fmt"
	"math"
	"os"
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

// ParseUsers reads "200000-265535". Its errors are Invalid.
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

// String returns "200000-265535".
func (u Users) String() string { return fmt.Sprintf("%d-%d", u.First, u.Last) }

func (u Users) contain(id uint32) bool { return u.First <= id && id <= u.Last }

// Fields of a line of /etc/passwd and of /etc/group that are ids.
var (
	passwdIDs = []int{2, 3}
	groupIDs  = []int{2}
)

// CheckFree returns an Invalid error if a user or a group of the files, which are like
// /etc/passwd and /etc/group, has one of the ids. A file that is not there has nobody.
func (u Users) CheckFree(passwd, group string) error {
	for file, fields := range map[string][]int{passwd: passwdIDs, group: groupIDs} {
		f, err := os.Open(file)
		if err != nil {
			continue // such as in a container
		}
		name, id, found := u.owner(bufio.NewScanner(f), fields)
		_ = f.Close()
		if found {
			return script.Errorf(script.Invalid, "", "%v contains %d, which is %s in %s: name a range that nobody has", u, id, name, file)
		}
	}
	return nil
}

func (u Users) owner(lines *bufio.Scanner, fields []int) (name string, id uint64, found bool) {
	for lines.Scan() {
		parts := strings.Split(lines.Text(), ":")
		for _, i := range fields {
			if i >= len(parts) {
				continue
			}
			if id, err := strconv.ParseUint(parts[i], 10, 32); err == nil && u.contain(uint32(id)) {
				return parts[0], id, true
			}
		}
	}
	return "", 0, false
}
