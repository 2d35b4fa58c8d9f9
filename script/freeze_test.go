package script

import (
	"testing"
	"time"
)

func TestWhatAFreezeCovers(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	on := Freeze{Revision: 1, Author: "ann", Since: now, ChangedAt: now}
	for _, c := range []struct {
		except       string
		script, data bool // of acme/route are frozen
	}{
		{"other", true, true},
		{"acme", false, false},
		{"ac*", false, false},
		{"*", false, false},
		{"acme/*", false, false},
		{"acme/route", false, true},
		{"*/r*te", false, true},
		{"acme/route-2", true, true},
		{"acme-2", true, true},
	} {
		f := on
		f.Except = []string{"nobody", c.except}
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		if got := f.Covers(Name{"acme", "route"}, now); got != c.script {
			t.Errorf("except %s: the script is frozen: %v", c.except, got)
		}
		if got := f.CoversTenant("acme", now); got != c.data {
			t.Errorf("except %s: the tenant's values are frozen: %v", c.except, got)
		}
	}
	ends := on
	ends.Until = now.Add(time.Hour)
	lifted := Freeze{Revision: 2, Author: "ann", ChangedAt: now, Lifted: true}
	lost := Freeze{Revision: 2, Unreadable: "garbage", Except: []string{"*"}}
	for name, c := range map[string]struct {
		f    Freeze
		at   time.Time
		want bool
	}{
		"none":                       {Freeze{}, now, false},
		"for ever":                   {on, now.Add(1000 * time.Hour), true},
		"until later":                {ends, ends.Until.Add(-1), true},
		"until now":                  {ends, ends.Until, false},
		"the clock was before":       {ends, now.Add(-time.Hour), true},
		"lifted":                     {lifted, now, false},
		"nobody can read what it is": {lost, now, true},
	} {
		if got := c.f.Covers(Name{"acme", "route"}, c.at); got != c.want || c.f.On(c.at) != c.want {
			t.Errorf("%s: frozen %v, want %v", name, got, c.want)
		}
	}
}
