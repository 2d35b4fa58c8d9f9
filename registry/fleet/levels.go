package fleet

import (
	"cmp"
	"slices"

	"github.com/scriptorium-dev/scriptorium/script"
)

// levels counts agents by the revision that they have activated, in order. There
// are few: nearly all agents are at the head.
type levels struct {
	list  []level
	count int
}

type level struct {
	revision script.Revision
	agents   int
}

func (l *levels) find(r script.Revision) (int, bool) {
	return slices.BinarySearchFunc(l.list, r, func(x level, r script.Revision) int { return cmp.Compare(x.revision, r) })
}

func (l *levels) add(r script.Revision) {
	i, ok := l.find(r)
	if !ok {
		l.list = slices.Insert(l.list, i, level{revision: r})
	}
	l.list[i].agents++
	l.count++
}

func (l *levels) remove(r script.Revision) {
	i, ok := l.find(r)
	if !ok {
		return
	}
	l.count--
	if l.list[i].agents--; l.list[i].agents == 0 {
		l.list = slices.Delete(l.list, i, i+1)
	}
}

// total is the number of agents.
func (l *levels) total() int { return l.count }

// lowest is the revision that all agents have; ok is false when there are none.
func (l *levels) lowest() (r script.Revision, ok bool) {
	if len(l.list) == 0 {
		return 0, false
	}
	return l.list[0].revision, true
}

// empty is the number of agents that have activated nothing.
func (l *levels) empty() int {
	if len(l.list) == 0 || l.list[0].revision > 0 {
		return 0
	}
	return l.list[0].agents
}

// atLeast is the number of agents that have the revision.
func (l *levels) atLeast(r script.Revision) int {
	from, _ := l.find(r)
	n := 0
	for _, x := range l.list[from:] {
		n += x.agents
	}
	return n
}
