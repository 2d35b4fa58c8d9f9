package cache_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/script"
)

// filledValues returns a table of tenants with values of about 1 KiB.
func filledValues(tenants, each int) (*cache.Values, *depot) {
	d := &depot{}
	v := cache.NewValues(d, 64<<20)
	filler := make([]byte, 1000)
	var put []script.Value
	for t := range tenants {
		for k := range each {
			put = append(put, d.value(fmt.Sprint("tenant-", t), fmt.Sprint("settings/of/key-", k), fmt.Sprint(t, k, string(filler)), script.Revision(len(put)+1)))
		}
	}
	v.Update(put, nil)
	return v, d
}

func BenchmarkValueWarm(b *testing.B) {
	v, _ := filledValues(100, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if content, ok, err := v.Value("tenant-42", "settings/of/key-500"); !ok || err != nil || len(content) == 0 {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkValueWarmParallel(b *testing.B) {
	v, _ := filledValues(100, 1000)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok, err := v.Value("tenant-42", "settings/of/key-500"); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
}

func BenchmarkValueNone(b *testing.B) {
	v, _ := filledValues(100, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, _ := v.Value("tenant-42", "settings/of/nothing"); ok {
			b.Fatal("there is one")
		}
	}
}

func BenchmarkKeys100Of10000(b *testing.B) {
	v, _ := filledValues(1, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if got := v.Keys("tenant-0", "settings/of/", "settings/of/key-5", 100); len(got) != 100 {
			b.Fatal(len(got))
		}
	}
}

// BenchmarkUpdateOneOf10000 changes one of as many values as a tenant may have.
func BenchmarkUpdateOneOf10000(b *testing.B) {
	v, d := filledValues(1, 10_000)
	put := []script.Value{d.value("tenant-0", "settings/of/key-5", "new", 1<<30)}
	b.ReportAllocs()
	for b.Loop() {
		v.Update(put, nil)
	}
}

func BenchmarkChecksumOfValues(b *testing.B) {
	v, _ := filledValues(10, 1000)
	for b.Loop() {
		v.Checksum(4096)
	}
}

func BenchmarkTenantSettings(b *testing.B) {
	tenants := cache.NewTenants()
	for i := range 1000 {
		tenants.Update([]script.Tenant{{Name: fmt.Sprint("tenant-", i), Revision: 1}}, nil)
	}
	b.ReportAllocs()
	for b.Loop() {
		if tenants.Settings("tenant-500").LogBytes == 0 {
			b.Fatal("no defaults")
		}
	}
}
