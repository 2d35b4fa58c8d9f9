package registryclient_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	byAda = registryclient.DataWrite{Author: "ada"}
	beta  = script.ValueKey{Tenant: "acme", Key: "users/beta"}
)

func TestValues(t *testing.T) {
	s := newTruth(t)
	c, ctx := s.client, t.Context()
	large := bytes.Repeat([]byte{0xff, 0}, script.MaxValueBytes/2)
	put, changed, err := c.PutValue(ctx, beta, large, byAda)
	if err != nil || !changed || put.Key != beta || put.Size != len(large) || put.Digest != script.DigestOf(large) || put.Author != "ada" || put.Revision == 0 {
		t.Fatalf("%+v, %t, %v", put, changed, err)
	}
	got, content, err := c.Value(ctx, beta)
	if err != nil || !cmp.Equal(got, put) || !bytes.Equal(content, large) {
		t.Errorf("%+v, %d bytes, %v; want %+v", got, len(content), err, put)
	}
	if again, changed, err := c.PutValue(ctx, beta, large, byAda); err != nil || changed || !cmp.Equal(again, put) {
		t.Errorf("once more: %+v, %t, %v", again, changed, err)
	}
	old := byAda
	old.ExpectedRevision = put.Revision
	if _, _, err := c.PutValue(ctx, beta, []byte("[]"), old); err != nil {
		t.Error(err)
	}
	if _, _, err := c.PutValue(ctx, beta, []byte("[1]"), old); script.KindOf(err) != script.Conflict {
		t.Errorf("at an old revision: %v, want a Conflict", err)
	}
	if gone, err := c.DeleteValue(ctx, beta, byAda); err != nil || !gone.Deleted || gone.Revision <= put.Revision {
		t.Errorf("%+v, %v", gone, err)
	}
	if _, _, err := c.Value(ctx, beta); script.KindOf(err) != script.NotFound {
		t.Errorf("after it was deleted: %v", err)
	}
}

func TestValueVersions(t *testing.T) {
	s := newTruth(t)
	c, ctx := s.client, t.Context()
	for _, content := range []string{"one", "two", "three"} {
		w := byAda
		w.Note = "it is " + content
		if _, _, err := c.PutValue(ctx, beta, []byte(content), w); err != nil {
			t.Fatal(err)
		}
	}
	if v, content, err := c.ValueVersion(ctx, beta, 2); err != nil || v.Version != 2 || string(content) != "two" {
		t.Errorf("version 2: %+v, %q, %v", v, content, err)
	}
	if _, _, err := c.ValueVersion(ctx, beta, 4); script.KindOf(err) != script.NotFound {
		t.Errorf("version 4: %v", err)
	}
	// One that says its version is sent again; the others could go too far.
	s.sent.Store(0)
	s.lose(1)
	if v, _, err := c.RollbackValue(ctx, beta, 2, byAda); err != nil || v.Version != 2 || s.sent.Swap(0) != 2 {
		t.Errorf("to version 2: %+v, %v", v, err)
	}
	s.lose(1)
	if _, _, err := c.RollbackValue(ctx, beta, 0, byAda); script.KindOf(err) != script.Unavailable || s.sent.Swap(0) != 1 {
		t.Errorf("to the one before: %v; want Unavailable after one attempt", err)
	}
	h, err := c.ValueHistory(ctx, beta)
	if err != nil || h.Key != beta || h.Latest != 3 || len(h.Lines) != 5 || h.Lines[0].Version != 1 || h.Lines[1].Change != script.ChangeRollback || h.Lines[4].Note != "it is one" {
		t.Errorf("the history: %+v, %v", h, err)
	}
}

func TestValueList(t *testing.T) {
	s := newTruth(t)
	const keys = 1100 // more than a page
	for i := range keys {
		key := script.ValueKey{Tenant: "acme", Key: fmt.Sprintf("k/%04d", i)}
		if _, _, err := s.client.PutValue(t.Context(), key, []byte("1234"), byAda); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.client.PutValue(t.Context(), beta, []byte("1"), byAda); err != nil {
		t.Fatal(err)
	}
	n := 0
	for v, err := range s.client.Values(t.Context(), "acme", "k/") {
		if want := fmt.Sprintf("k/%04d", n); err != nil || v.Key.Key != want {
			t.Fatalf("%+v, %v, want %s", v, err, want)
		}
		n++
	}
	if n != keys {
		t.Errorf("%d keys, want %d", n, keys)
	}
	for range s.client.Values(t.Context(), "acme", "") {
		break
	}
	if used, quota, err := s.client.ValueUsage(t.Context(), "acme"); err != nil || used != 4*keys+1 || quota != 16<<20 {
		t.Errorf("%d of %d used, %v", used, quota, err)
	}
	for _, err := range s.client.Values(t.Context(), "Acme", "") {
		if script.KindOf(err) != script.Invalid {
			t.Errorf("of no tenant: %v", err)
		}
	}
}

func TestTenants(t *testing.T) {
	s := newTruth(t)
	c, ctx := s.client, t.Context()
	if none, err := c.Tenant(ctx, "acme"); err != nil || !cmp.Equal(none, script.Tenant{Name: "acme"}) {
		t.Errorf("before anything is set: %+v, %v", none, err)
	}
	settings := script.TenantSettings{Isolation: script.IsolationProcess, CPU: 500, Limits: script.Limits{Instructions: 7}}
	set, changed, err := c.SetTenant(ctx, "acme", &settings, byAda)
	if err != nil || !changed || set.Settings != settings || set.Author != "ada" {
		t.Fatalf("%+v, %t, %v", set, changed, err)
	}
	if got, err := c.Tenant(ctx, "acme"); err != nil || !cmp.Equal(got, set) {
		t.Errorf("%+v, %v, want %+v", got, err, set)
	}
	if _, _, err := c.SetTenant(ctx, "shop", &settings, byAda); err != nil {
		t.Error(err)
	}
	var names []string
	for tenant, err := range c.Tenants(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tenant.Name)
	}
	if !cmp.Equal(names, []string{"acme", "shop"}) {
		t.Errorf("tenants %v", names)
	}
	old := byAda
	old.ExpectedRevision = set.Revision
	if gone, changed, err := c.SetTenant(ctx, "acme", nil, old); err != nil || !changed || !gone.Deleted {
		t.Errorf("taking it away: %+v, %t, %v", gone, changed, err)
	}
	if _, _, err := c.SetTenant(ctx, "acme", &settings, old); script.KindOf(err) != script.Conflict {
		t.Errorf("at an old revision: %v", err)
	}
}

// TestLostAnswersOfData: the client sends again the writes that it can distinguish from
// another's, and no others.
func TestLostAnswersOfData(t *testing.T) {
	s := newTruth(t)
	c, ctx := s.client, t.Context()
	s.lose(2)
	v, changed, err := c.PutValue(ctx, beta, []byte("x"), byAda)
	if err != nil || changed || v.Revision == 0 || s.sent.Swap(0) != 3 {
		t.Errorf("%+v, %t, %v; want it to be there, by the first that was sent", v, changed, err)
	}
	s.lose(1)
	if set, _, err := c.SetTenant(ctx, "acme", &script.TenantSettings{CPU: 1}, byAda); err != nil || set.Revision == 0 || s.sent.Swap(0) != 2 {
		t.Errorf("%+v, %v", set, err)
	}
	guarded := registryclient.DataWrite{Author: "ada", ExpectedRevision: v.Revision}
	for name, write := range map[string]func() error{
		"put": func() error { _, _, err := c.PutValue(ctx, beta, []byte("y"), guarded); return err },
		"set": func() error { _, _, err := c.SetTenant(ctx, "shop", &script.TenantSettings{}, guarded); return err },
		"delete": func() error {
			_, err := c.DeleteValue(ctx, script.ValueKey{Tenant: "acme", Key: "none"}, byAda)
			return err
		},
	} {
		s.lose(1)
		if err := write(); script.KindOf(err) != script.Unavailable || s.sent.Swap(0) != 1 {
			t.Errorf("%s: %v, want Unavailable after one attempt", name, err)
		}
	}
}
