package script_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestValueKeys(t *testing.T) {
	for _, good := range []string{"acme/a", "acme/flags/checkout.v2", "acme/A_b-c", "acme/" + strings.Repeat("k", script.MaxValueKeyLen)} {
		if k, err := script.ParseValueKey(good); err != nil || k.String() != good {
			t.Errorf("ParseValueKey(%q) = %v, %v", good, k, err)
		}
	}
	for bad, field := range map[string]string{
		"acme": "key", "acme/": "key", "Acme/a": "tenant", "/a": "tenant", "acme/a//b": "key", "acme/..": "key", "acme/a/../b": "key",
		"acme/a b": "key", "acme/ä": "key", "acme/a\n": "key", "acme/" + strings.Repeat("k", script.MaxValueKeyLen+1): "key",
	} {
		if _, err := script.ParseValueKey(bad); script.KindOf(err) != script.Invalid || script.AsError(err).Field != field {
			t.Errorf("ParseValueKey(%q): %v, want Invalid of %s", bad, err, field)
		}
	}
}

func TestTenantSettings(t *testing.T) {
	if err := script.MaxTenantSettings().Validate("settings"); err != nil {
		t.Errorf("the maximum is refused: %v", err)
	}
	if err := (script.TenantSettings{}).OrDefaults().Validate("settings"); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	for field, s := range map[string]script.TenantSettings{
		"settings.isolation":       {Isolation: "jail"},
		"settings.limits.logBytes": {Limits: script.Limits{LogBytes: -1}},
		"settings.concurrency":     {Concurrency: -1},
		"settings.cpu":             {CPU: -1},
		"settings.logBytes":        {LogBytes: -1},
		"settings.memoryBytes":     {MemoryBytes: 1 << 20},
		"settings.valueBytes":      {ValueBytes: 1 << 40},
	} {
		if err := s.Validate("settings"); script.KindOf(err) != script.Invalid || script.AsError(err).Field != field {
			t.Errorf("%+v: %v, want Invalid of %s", s, err, field)
		}
	}
}

func TestAtMost(t *testing.T) {
	l := script.Limits{Instructions: 100, StringBytes: 10}.AtMost(script.Limits{Instructions: 50, Concurrency: 3})
	if l.Instructions != 50 || l.StringBytes != 10 || l.Concurrency != 3 {
		t.Errorf("AtMost = %+v", l)
	}
	if l := (script.Limits{Concurrency: 2}).AtMost(script.Limits{Concurrency: 3}); l.Concurrency != 2 {
		t.Errorf("a concurrency of 2 became %d", l.Concurrency)
	}
}

func TestObjects(t *testing.T) {
	digest := script.DigestOf([]byte("x"))
	version := script.Version{Number: 1, Digest: digest, Size: 1}
	for _, tt := range []struct {
		object script.Object
		key    string
		has    []script.Digest
	}{
		{script.Object{Release: &script.Release{Name: script.Name{Tenant: "acme", Script: "a"}, Revision: 7, Active: version, Retained: []script.Version{version}}}, "releases/acme/a", []script.Digest{digest}},
		{script.Object{Release: &script.Release{Name: script.Name{Tenant: "acme", Script: "a"}, Revision: 7, Deleted: true}}, "releases/acme/a", nil},
		{script.Object{Value: &script.Value{Key: script.ValueKey{Tenant: "acme", Key: "a/b"}, Revision: 7, Digest: digest, Size: 1}}, "values/acme/a/b", []script.Digest{digest}},
		{script.Object{Tenant: &script.Tenant{Name: "acme", Revision: 7}}, "tenants/acme", nil},
	} {
		o := tt.object
		if o.Key() != tt.key || o.Revision() != 7 || o.TenantName() != "acme" || !strings.HasPrefix(tt.key, string(o.Kind())+"/") {
			t.Errorf("%s: %s of %s, %d, %s", tt.key, o.Key(), o.TenantName(), o.Revision(), o.Kind())
		}
		if got := slices.Collect(o.Retained); !slices.Equal(got, tt.has) {
			t.Errorf("%s retains %v", tt.key, got)
		}
		if got := slices.Collect(o.Contents); len(got) != len(tt.has) || len(got) == 1 && got[0] != (script.Content{Digest: digest, Size: 1}) {
			t.Errorf("%s needs %v", tt.key, got)
		}
	}
}
