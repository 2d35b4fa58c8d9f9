package worker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

func running(names ...string) map[script.Name]script.Revision {
	m := map[script.Name]script.Revision{}
	for i, name := range names {
		m[script.Name{Tenant: "acme", Script: name}] = script.Revision(i + 1)
	}
	return m
}

func (b *blame) names() (quarantined, suspects []string) {
	for _, q := range b.list() {
		quarantined = append(quarantined, q.Script.Script)
	}
	for name := range b.suspects {
		suspects = append(suspects, name.Script)
	}
	slices.Sort(suspects)
	return quarantined, suspects
}

func TestBlame(t *testing.T) {
	policy := QuarantinePolicy{}.withDefaults()
	for _, tt := range []struct {
		name        string
		every       time.Duration
		deaths      []string // what ran at each, with spaces between
		quarantined string
		suspects    string
	}{
		{"nothing ran", time.Second, []string{"", "", "", ""}, "", ""},
		{"one, alone", time.Second, []string{"a", "a", "a"}, "a", ""},
		{"too few", time.Second, []string{"a", "a"}, "", ""},
		{"too long ago", 31 * time.Second, []string{"a", "a", "a", "a"}, "", ""},
		{"one beside others", time.Second, []string{"a b", "a c", "d a"}, "", "a"},
		{"one beside others, again and again", time.Second, []string{"a b", "a c", "d a", "a b", "a c", "d a"}, "a", ""},
		{"none often enough", time.Second, []string{"a", "b", "a"}, "", ""},
		{"two in turns", time.Second, []string{"a", "b", "a", "b", "a", "b"}, "a b", ""},
		{"others' deaths between", time.Second, []string{"a", "", "a", "", "a"}, "a", ""},
		{"several", time.Second, []string{"a b", "a b", "a b"}, "", "a b"},
		{"several, then one of them alone", time.Second, []string{"a b", "a b", "a b", "b", "b", "b"}, "b", ""},
		{"several, then one of them beside another", time.Second, []string{"a b", "a b", "a b", "b c", "b", "b d"}, "b", ""},
		{"several, then one of them too seldom", time.Second, []string{"a b", "a b", "a b", "b", "b"}, "", "a b"},
		{"two, one after the other", time.Second, []string{"a", "a", "a", "b", "b", "b"}, "a b", ""},
		{"who ran beside the culprit is cleared", time.Second, []string{"a b", "a b", "a", "a", "a", "b"}, "a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBlame(policy)
			now := time.Unix(1_000_000, 0)
			for _, d := range tt.deaths {
				b.died(now, running(strings.Fields(d)...))
				now = now.Add(tt.every)
			}
			quarantined, suspects := b.names()
			if strings.Join(quarantined, " ") != tt.quarantined || strings.Join(suspects, " ") != tt.suspects {
				t.Errorf("in quarantine %v, suspects %v", quarantined, suspects)
			}
		})
	}
}

func TestQuarantineEnds(t *testing.T) {
	b := newBlame(QuarantinePolicy{Deaths: 1}.withDefaults())
	now := time.Unix(1_000_000, 0)
	name := script.Name{Tenant: "acme", Script: "a"}
	b.died(now, running("a"))
	if b.released(name, 1) {
		t.Error("the same release ends it")
	}
	if !b.released(name, 2) || len(b.list()) != 0 {
		t.Error("another release does not end it")
	}
	b.died(now, running("a"))
	if b.expire(now.Add(10*time.Minute - 1)) {
		t.Error("it ends too early")
	}
	if !b.expire(now.Add(10*time.Minute)) || len(b.list()) != 0 {
		t.Error("it does not end")
	}
	b.policy.Deaths = 2
	b.died(now, running("a", "b"))
	b.died(now, running("a", "b"))
	if _, suspects := b.names(); len(suspects) != 2 {
		t.Errorf("suspects %v", suspects)
	}
	if !b.expire(now.Add(2*time.Minute)) || len(b.suspects) != 0 {
		t.Error("suspicion does not end")
	}
}
