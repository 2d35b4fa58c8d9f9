package storetest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/usage"
	"github.com/scriptorium-dev/scriptorium/script"
)

// testUsage: what calls used is kept by the hour and the part, written by the leader of the latest term alone.
func (h Harness) testUsage(t *testing.T) {
	opened := h.Open(t)
	s := opened.(usage.Store)
	hour := at.Truncate(time.Hour)
	part := func(hours, number int, tenants ...string) usage.Part {
		p := usage.Part{Hour: hour.Add(time.Duration(hours) * time.Hour), Number: number}
		for i, tenant := range tenants {
			p.Tenants = append(p.Tenants, script.TenantUsage{Tenant: tenant, Usage: script.Usage{
				Calls: uint64(hours + 1000), Errors: uint64(i), ProcessorTime: time.Duration(math.MaxInt64 - i), Instructions: math.MaxUint64, BytesIn: 1, BytesOut: 2,
			}})
		}
		return p
	}
	read := func(from, until, number int) (list []usage.Part) {
		t.Helper()
		for p, err := range s.Usage(t.Context(), hour.Add(time.Duration(from)*time.Hour), hour.Add(time.Duration(until)*time.Hour), number) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, p)
		}
		return list
	}
	want := func(what string, got []usage.Part, want ...usage.Part) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	put := func(term int64, parts ...usage.Part) error { return s.PutUsage(t.Context(), term, parts) }
	if err := put(7, part(0, 0, "acme")); script.KindOf(err) != script.Conflict {
		t.Errorf("a write without a claim: %v", err)
	}
	head, err := opened.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		s.ClaimUsage(t.Context(), 7), s.ClaimUsage(t.Context(), 7),
		put(7, part(0, 0, "acme", "shop"), part(0, 63, "zoo"), part(1, 9, "ten")), put(7, part(0, 0, "acme", "bar", "shop")), put(7, part(250, 9, "ten")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want("an hour", read(0, 1, -1), part(0, 0, "acme", "bar", "shop"), part(0, 63, "zoo"))
	want("a part", read(0, 1, 63), part(0, 63, "zoo"))
	want("a part of many hours", read(-600, 600, 9), part(1, 9, "ten"), part(250, 9, "ten"))
	want("all hours", read(-600, 600, -1), part(0, 0, "acme", "bar", "shop"), part(0, 63, "zoo"), part(1, 9, "ten"), part(250, 9, "ten"))
	want("no hour", read(0, 0, -1))
	if now, err := opened.Head(t.Context()); err != nil || now != head {
		t.Errorf("usage moved the head from %d to %d: %v", head, now, err)
	}

	later := h.Reopen(t, opened).(usage.Store)
	s = later
	if err := s.ClaimUsage(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"claim": s.ClaimUsage(t.Context(), 7), "put": put(7, part(0, 0, "forged")), "purge": s.PurgeUsage(t.Context(), 7, hour.Add(time.Hour)),
	} {
		if script.KindOf(err) != script.Conflict {
			t.Errorf("%s by an earlier leader: %v", what, err)
		}
	}
	want("after a restart", read(0, 2, -1), part(0, 0, "acme", "bar", "shop"), part(0, 63, "zoo"), part(1, 9, "ten"))
	if err := s.PurgeUsage(t.Context(), 8, hour.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want("after a purge", read(-600, 600, -1), part(1, 9, "ten"), part(250, 9, "ten"))
	if err := put(8, part(2, 2, "acme")); err != nil {
		t.Errorf("a write after a purge: %v", err)
	}
}
