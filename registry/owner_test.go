package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// who returns an identity with the roles for the tenants.
func who(t *testing.T, name string, tenants string, roles ...access.Role) access.Identity {
	t.Helper()
	selector, err := script.ParseSelector([]string{tenants})
	if err != nil {
		t.Fatal(err)
	}
	return access.Identity{Name: name, Peer: "10.0.0.1:7", Grants: []access.Grant{{Roles: roles, Tenants: selector}}}
}

const cr = "kubernetes:prod/route"

// ops are all writes of a script, by name.
func (b *bench) ops() map[string]func(w registry.Write) error {
	ctx := b.t.Context()
	return map[string]func(w registry.Write) error{
		"publish": func(w registry.Write) error {
			_, err := b.Publish(ctx, registry.PublishRequest{Write: w, Source: []byte("three"), Entrypoint: "handle"})
			return err
		},
		"publish again": func(w registry.Write) error {
			_, err := b.Publish(ctx, registry.PublishRequest{Write: w, Source: []byte("two"), Entrypoint: "handle"})
			return err
		},
		"dry run": func(w registry.Write) error {
			_, err := b.Publish(ctx, registry.PublishRequest{Write: w, Source: []byte("four"), Entrypoint: "handle", DryRun: true})
			return err
		},
		"pin": func(w registry.Write) error {
			_, err := b.Pin(ctx, registry.PinRequest{Write: w, Version: 1})
			return err
		},
		"release": func(w registry.Write) error {
			_, err := b.LiftHold(ctx, registry.LiftHoldRequest{Write: w})
			return err
		},
		"rollback": func(w registry.Write) error {
			_, err := b.Rollback(ctx, registry.RollbackRequest{Write: w})
			return err
		},
		"disable": func(w registry.Write) error {
			_, err := b.SetEnabled(ctx, registry.SetEnabledRequest{Write: w})
			return err
		},
		"configure": func(w registry.Write) error {
			_, err := b.configure(w, script.Settings{HistoryLimit: 3})
			return err
		},
		"own": func(w registry.Write) error {
			_, err := b.SetOwner(ctx, registry.SetOwnerRequest{Write: w, NewOwner: "me"})
			return err
		},
		"delete": func(w registry.Write) error { _, err := b.Delete(ctx, registry.DeleteRequest{Write: w}); return err },
	}
}

// owned is a bench with a script of two versions that belongs to cr.
func owned(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	own := func(r *registry.PublishRequest) { r.Owner = cr }
	b.publish("one", own)
	b.publish("two", own)
	return b
}

func TestOwnerKeepsOthersOut(t *testing.T) {
	for op := range newBench(t).ops() {
		if op == "pin" || op == "rollback" || op == "release" {
			continue // TestAPersonHoldsWhatAnOwnerPublishes
		}
		t.Run(op, func(t *testing.T) {
			b := owned(t)
			head := b.head()
			do := b.ops()[op]
			for _, owner := range []string{"", "kubernetes:dev/route"} {
				w := write(route)
				w.Owner = owner
				err := do(w)
				wantKind(t, err, script.Denied, "owner")
				if !strings.Contains(err.Error(), cr) || !strings.Contains(err.Error(), "force") {
					t.Errorf("%q says neither who owns the script nor what to do", err)
				}
			}
			if b.head() != head {
				t.Fatal("a refused write was stored")
			}
			forced := write(route)
			forced.Force = true
			forced.By = who(t, "bob", "acme", access.Publish, access.Release)
			wantKind(t, do(forced), script.Denied, "tenant")
			forced.By = who(t, "root", "acme", access.Admin)
			if err := do(forced); err != nil {
				t.Errorf("forced: %v", err)
			}
			for own := range b.lastAudits(1) {
				if moved := b.head() != head; moved && (!own.Forced || own.Identity != "root") {
					t.Errorf("the audit trail says %+v; want it forced by root", own)
				}
			}
		})
		t.Run(op+" by the owner", func(t *testing.T) {
			b := owned(t)
			w := write(route)
			w.Owner = cr
			if err := b.ops()[op](w); err != nil {
				t.Error(err)
			}
			for own := range b.lastAudits(1) {
				if own.Forced {
					t.Errorf("the audit trail says that the owner had to force: %+v", own)
				}
			}
		})
	}
}

// lastAudits are the newest entries of the audit trail.
func (b *bench) lastAudits(n int) map[script.AuditEntry]bool {
	b.t.Helper()
	result, err := b.Audit(b.t.Context(), registry.AuditRequest{By: everybody, PageSize: n})
	if err != nil {
		b.t.Fatal(err)
	}
	set := map[script.AuditEntry]bool{}
	for _, e := range result.Entries {
		set[e] = true
	}
	return set
}

func TestOwnership(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	own := func(owner string, force bool) func(*registry.PublishRequest) {
		return func(r *registry.PublishRequest) { r.Owner, r.Force = owner, force }
	}
	wantOwner := func(r script.Release, owner string) {
		t.Helper()
		if r.Owner != owner {
			t.Errorf("%s belongs to %q, want %q", r.Name, r.Owner, owner)
		}
	}
	wantOwner(b.publish("one").Release, "")
	claimed := b.publish("one", own(cr, false)) // a script that has none, nothing else new
	wantOwner(claimed.Release, cr)
	if !claimed.Changed || claimed.Version.Number != 1 {
		t.Errorf("a claim: %+v", claimed)
	}
	wantOwner(b.publish("two", own("", true)).Release, cr) // past the owner, who stays
	wantOwner(b.publish("three", own("other", true)).Release, "other")
	set := func(as, to string, force bool) (registry.Result, error) {
		w := write(route)
		w.Owner, w.Force = as, force
		return b.SetOwner(ctx, registry.SetOwnerRequest{Write: w, NewOwner: to})
	}
	_, err := set("", "me", false)
	wantKind(t, err, script.Denied, "owner")
	for _, step := range []struct {
		as, to  string
		force   bool
		changed bool
	}{
		{"other", "me", false, true},
		{"me", "me", false, false},
		{"", "boss", true, true},
		{"boss", "", false, true},
		{"", "", false, false},
		{"", "again", false, true},
	} {
		r, err := set(step.as, step.to, step.force)
		if err != nil || r.Changed != step.changed || r.Release.Owner != step.to {
			t.Errorf("%+v: %+v, %v", step, r, err)
		}
	}
	deleted, err := b.Delete(ctx, registry.DeleteRequest{Write: registry.Write{Name: route, Author: "ann", By: everybody, Owner: "again"}})
	if err != nil {
		t.Fatal(err)
	}
	wantOwner(deleted.Release, "")
	wantOwner(b.publish("one").Release, "")
	history, err := b.History(ctx, everybody, route)
	if err != nil || history[2].Change != script.ChangeOwn {
		t.Errorf("history: %+v, %v; want the changes of the owner in it", history, err)
	}
	_, err = b.tryPublish("x", own(strings.Repeat("x", registry.MaxOwnerBytes+1), false))
	wantKind(t, err, script.Invalid, "owner")
	_, err = set("", "a\x00b", false)
	wantKind(t, err, script.Invalid, "new_owner")
}

func TestRoles(t *testing.T) {
	off := false
	zero, one := uint64(0), uint64(1)
	settings := script.Settings{HistoryLimit: 5}
	publish := func(source string, opts ...func(*registry.PublishRequest)) func(b *bench, w registry.Write) error {
		return func(b *bench, w registry.Write) error {
			_, err := b.tryPublish(source, append([]func(*registry.PublishRequest){func(r *registry.PublishRequest) { r.Write = w }}, opts...)...)
			return err
		}
	}
	op := func(name string) func(b *bench, w registry.Write) error {
		return func(b *bench, w registry.Write) error { return b.ops()[name](w) }
	}
	pinned := func(b *bench) { b.publish("two", pin(1)) }
	held := func(b *bench) { b.hold(1, "bo", "why") }
	lift := func(r *registry.PublishRequest) { r.LiftHold = true }
	all := []access.Role{access.Read, access.Publish, access.Release, access.Admin}
	for what, c := range map[string]struct {
		given func(*bench) // before, beside a script with two versions
		do    func(b *bench, w registry.Write) error
		needs []access.Role // each of them; Admin alone is always enough
	}{
		"a new version":             {nil, publish("three"), []access.Role{access.Publish}},
		"a new version of a pinned": {pinned, publish("three"), []access.Role{access.Publish}},
		"what is there":             {nil, publish("two"), []access.Role{access.Read}},
		"a dry run":                 {nil, publish("three", func(r *registry.PublishRequest) { r.DryRun = true }), []access.Role{access.Publish}},
		"new settings":              {nil, publish("two", func(r *registry.PublishRequest) { r.Settings = &settings }), []access.Role{access.Publish}},
		"a claim":                   {nil, publish("two", func(r *registry.PublishRequest) { r.Owner = cr }), []access.Role{access.Publish}},
		"publish with a pin":        {nil, publish("three", pin(1)), []access.Role{access.Publish, access.Release}},
		"publish that unpins":       {pinned, publish("three", pin(0)), []access.Role{access.Publish, access.Release}},
		"publish that disables":     {nil, publish("three", func(r *registry.PublishRequest) { r.Enabled = &off }), []access.Role{access.Publish, access.Release}},
		"nothing but a pin":         {nil, publish("two", func(r *registry.PublishRequest) { r.Pin = &one }), []access.Role{access.Release}},
		"the pin that is there":     {nil, publish("two", func(r *registry.PublishRequest) { r.Pin = &zero }), []access.Role{access.Read}},
		"configure":                 {nil, op("configure"), []access.Role{access.Publish}},
		"own":                       {nil, op("own"), []access.Role{access.Publish}},
		"pin":                       {nil, op("pin"), []access.Role{access.Release}},
		"pin what is pinned":        {pinned, op("pin"), []access.Role{access.Release}},
		"pin again":                 {held, op("pin"), []access.Role{access.Read}},
		"release":                   {held, op("release"), []access.Role{access.Release}},
		"a new version of a held":   {held, publish("three"), []access.Role{access.Publish}},
		"the same of a held":        {held, publish("two", pin(0)), []access.Role{access.Read}},
		"another pin of a held":     {held, publish("two", pin(1)), []access.Role{access.Release}},
		"a publish that lifts":      {held, publish("three", lift), []access.Role{access.Publish, access.Release}},
		"that lifts, of the same":   {held, publish("two", lift), []access.Role{access.Release}},
		"rollback":                  {nil, op("rollback"), []access.Role{access.Release}},
		"disable":                   {nil, op("disable"), []access.Role{access.Release}},
		"delete":                    {nil, op("delete"), []access.Role{access.Admin}},
		"publish a new script":      {func(b *bench) { b.remove() }, publish("three"), []access.Role{access.Publish}},
		"publish a new one, pinned": {func(b *bench) { b.remove() }, publish("x", pin(3)), []access.Role{access.Publish}},
	} {
		t.Run(what, func(t *testing.T) {
			for set := range 1 << len(all) {
				var roles []access.Role
				has := map[access.Role]bool{}
				for i, role := range all {
					if set&(1<<i) != 0 {
						roles, has[role] = append(roles, role), true
					}
				}
				want := len(roles) > 0
				for _, need := range c.needs {
					want = want && (has[need] || has[access.Admin] || need == access.Read)
				}
				b := newBench(t)
				b.publish("one")
				b.publish("two")
				if c.given != nil {
					c.given(b)
				}
				head := b.head()
				w := write(route)
				w.By = who(t, "ci", "acme", roles...)
				err := c.do(b, w)
				if want && err != nil || !want && script.KindOf(err) != script.Denied {
					t.Errorf("with %v: %v; want it allowed: %v", roles, err, want)
				}
				if !want && b.head() != head {
					t.Errorf("with %v: refused, and stored", roles)
				}
				w.By = who(t, "ci", "other", roles...)
				wantKind(t, c.do(b, w), script.Denied, "tenant")
			}
		})
	}
}

func (b *bench) remove() {
	b.t.Helper()
	if _, err := b.Delete(b.t.Context(), registry.DeleteRequest{Write: write(route)}); err != nil {
		b.t.Fatal(err)
	}
}

func TestReadsTakeARole(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for _, name := range []script.Name{route, {Tenant: "acme", Script: "z"}, {Tenant: "acme-eu", Script: "s"}, {Tenant: "shop", Script: "s"}, {Tenant: "zoo", Script: "s"}} {
		if _, err := b.Publish(ctx, registry.PublishRequest{Write: write(name), Source: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	for what, do := range map[string]func(by access.Identity) error{
		"Get":     func(by access.Identity) error { _, err := b.Get(ctx, by, route); return err },
		"Source":  func(by access.Identity) error { _, err := b.Source(ctx, by, route, 0); return err },
		"History": func(by access.Identity) error { _, err := b.History(ctx, by, route); return err },
		"List": func(by access.Identity) error {
			_, err := b.List(ctx, registry.ListRequest{By: by, Tenant: "acme"})
			return err
		},
	} {
		for _, by := range []access.Identity{{}, who(t, "eve", "shop", access.Admin)} {
			if err := do(by); script.KindOf(err) != script.Denied {
				t.Errorf("%s by %s: %v, want it denied", what, by.Name, err)
			}
		}
		if err := do(who(t, "ann", "ac*", access.Read)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for tenants, want := range map[string]string{
		"*": "[acme-eu/s acme/route acme/z shop/s zoo/s]", "acme": "[acme/route acme/z]", "s*": "[shop/s]", "zoo": "[zoo/s]", "nobody": "[]",
	} {
		for _, size := range []int{1, 2, 3, 100} {
			if got := b.list(who(t, "ann", tenants, access.Read), size); got != want {
				t.Errorf("list of %s in pages of %d: %s, want %s", tenants, size, got, want)
			}
		}
	}
	if got := b.list(access.Identity{}, 10); got != "[]" {
		t.Errorf("the list of nobody: %s", got)
	}
}

func (b *bench) list(by access.Identity, size int) string {
	b.t.Helper()
	names := []string{}
	for token := ""; ; {
		page, err := b.List(b.t.Context(), registry.ListRequest{By: by, PageSize: size, PageToken: token})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, r := range page.Releases {
			names = append(names, r.Name.String())
		}
		if token = page.NextPageToken; token == "" {
			return fmt.Sprint(names)
		}
	}
}

func TestAudit(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.publish("one", func(r *registry.PublishRequest) {
		r.By, r.Owner = who(t, "ci", "acme", access.Publish), cr
	})
	_, err := b.tryPublish("two")
	wantKind(t, err, script.Denied, "owner")
	b.publish("one", func(r *registry.PublishRequest) { r.Owner = cr }) // changes nothing
	other := script.Name{Tenant: "shop", Script: "s"}
	if _, err := b.Publish(ctx, registry.PublishRequest{Write: write(other), Source: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	result, err := b.Audit(ctx, registry.AuditRequest{By: who(t, "root", "*", access.Admin)})
	if err != nil || len(result.Entries) != 2 || result.NextPageToken != "" {
		t.Fatalf("%+v, %v; want the two writes that happened", result, err)
	}
	got := result.Entries[1]
	got.Time = result.Entries[0].Time
	want := script.AuditEntry{
		Revision: 1, Time: got.Time, Name: route, Change: script.ChangePublish, Version: 1, Digest: script.DigestOf([]byte("one")),
		Author: "ann", Identity: "ci", Peer: "10.0.0.1:7", Owner: cr, Note: "why",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	ours := registry.AuditFilter{Tenant: "acme"}
	for what, c := range map[string]struct {
		req  registry.AuditRequest
		kind script.Kind
		n    int
	}{
		"admin of the tenant":       {registry.AuditRequest{By: who(t, "a", "acme", access.Admin), AuditFilter: ours}, "", 1},
		"admin of another":          {registry.AuditRequest{By: who(t, "a", "shop", access.Admin), AuditFilter: ours}, script.Denied, 0},
		"not admin":                 {registry.AuditRequest{By: who(t, "a", "*", access.Read, access.Publish, access.Release), AuditFilter: ours}, script.Denied, 0},
		"all, as admin of one":      {registry.AuditRequest{By: who(t, "a", "acme", access.Admin)}, script.Denied, 0},
		"a page size":               {registry.AuditRequest{By: everybody, PageSize: -1}, script.Invalid, 0},
		"a token":                   {registry.AuditRequest{By: everybody, PageToken: strings.Repeat("x", 200)}, script.Invalid, 0},
		"a script without a tenant": {registry.AuditRequest{By: everybody, AuditFilter: registry.AuditFilter{Script: "s"}}, script.Invalid, 0},
		"a bad tenant":              {registry.AuditRequest{By: everybody, AuditFilter: registry.AuditFilter{Tenant: "A"}}, script.Invalid, 0},
		"a script":                  {registry.AuditRequest{By: everybody, AuditFilter: registry.AuditFilter{Tenant: "shop", Script: "s"}}, "", 1},
	} {
		result, err := b.Audit(ctx, c.req)
		if script.KindOf(err) != c.kind || len(result.Entries) != c.n {
			t.Errorf("%s: %+v, %v", what, result, err)
		}
	}
}

// TestAttribution: the history names who asked, and who the registry knows to have asked.
func TestAttribution(t *testing.T) {
	for author, want := range map[string]string{"ann": "ann via ci", "ci": "ci"} {
		b := newBench(t)
		v := b.publish("one", func(r *registry.PublishRequest) { r.Author, r.By = author, who(t, "ci", "acme", access.Publish) }).Version
		history, err := b.History(context.Background(), everybody, route)
		if err != nil || history[0].Author != want || v.Author != want {
			t.Errorf("the history has %+v, the version %q, %v; want %q", history, v.Author, err, want)
		}
	}
}
