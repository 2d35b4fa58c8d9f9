package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestQuotaNews: who is told of quotas hears of each refused write, and once of a tenant that is near a quota,
// until it has been far from it.
func TestQuotaNews(t *testing.T) {
	r := bounded(t, script.TenantSettings{Scripts: 10, SourceBytes: 10_000, ValueBytes: 1000})
	var told []string
	want := func(when string, want ...string) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("%s: %q, want %q", when, told, want)
		}
		told = nil
	}
	r.news = func(n registry.QuotaNews) {
		told = append(told, fmt.Sprintf("%s %s %v %d/%d", n.Tenant, n.Quota, n.Refused, n.Used, n.Most))
	}
	nth := func(i int) string { return fmt.Sprint("s", i) }
	for i := range 7 { // one is there
		if err := r.put("acme", nth(i), 10, 0); err != nil {
			t.Fatal(err)
		}
	}
	want("eight scripts")
	for i := 7; i < 9; i++ {
		if err := r.put("acme", nth(i), 10, 0); err != nil {
			t.Fatal(err)
		}
	}
	want("nine, and ten", "acme scripts false 9/10")
	for range 2 {
		if err := r.put("acme", "one-more", 10, 0); script.KindOf(err) != script.Limit {
			t.Fatal(err)
		}
	}
	want("one more, twice", "acme scripts true 10/10", "acme scripts true 10/10")
	if err := r.put("acme", nth(0), 9500, 1); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "acme sourceBytes false 9") {
		t.Errorf("large sources: %q", told)
	}
	told = nil
	if err := r.put("other", "a", 10, 0); err != nil {
		t.Fatal(err)
	}
	want("another tenant")

	for i := range 3 {
		if _, err := r.Delete(t.Context(), registry.DeleteRequest{Write: write(script.Name{Tenant: "acme", Script: nth(i)})}); err != nil {
			t.Fatal(err)
		}
		r.catchUp()
	}
	for i := range 2 {
		if err := r.put("acme", nth(i), 10, 0); err != nil {
			t.Fatal(err)
		}
	}
	want("it was far from it", "acme scripts false 9/10")
	_, err := r.Publish(t.Context(), registry.PublishRequest{Write: write(script.Name{Tenant: "acme", Script: "two-more"}), Source: []byte("x"), DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	want("a dry run")

	put := func(key string, size int) error {
		_, _, err := r.PutValue(t.Context(), registry.PutValue{Key: script.ValueKey{Tenant: "acme", Key: key}, Content: []byte(strings.Repeat("x", size)), Author: "ann", By: everybody})
		return err
	}
	if err := put("a", 950); err != nil {
		t.Fatal(err)
	}
	want("a value", "acme valueBytes false 950/1000")
	if err := put("b", 51); script.KindOf(err) != script.Limit {
		t.Fatal(err)
	}
	want("a value too much", "acme valueBytes true 950/1000")

	_, err = r.PublishChangeSet(t.Context(), registry.ChangeSetRequest{
		Tenant: "acme", Name: "next", Author: "ann", By: everybody,
		Scripts: []registry.PublishRequest{
			{Write: registry.Write{Name: script.Name{Tenant: "acme", Script: "x"}}, Source: []byte("x")},
			{Write: registry.Write{Name: script.Name{Tenant: "acme", Script: "y"}}, Source: []byte("y")},
		},
	})
	if script.KindOf(err) != script.Limit {
		t.Fatal(err)
	}
	want("a change set", "acme scripts true 10/10")
}

// TestRateNews: a write that is refused for a rate is told of, too.
func TestRateNews(t *testing.T) {
	r := bounded(t, script.TenantSettings{Writes: 1})
	refused := map[string]int{}
	r.news = func(n registry.QuotaNews) {
		if n.Refused && n.Most == 1 {
			refused[n.Quota]++
		}
	}
	failed := 0
	for i := range 150 {
		if r.put("acme", fmt.Sprint("s-", i%5), i+1, 1) != nil {
			failed++
		}
	}
	if failed == 0 || refused["writes"] != failed {
		t.Errorf("%d writes failed, told of %v", failed, refused)
	}
}
