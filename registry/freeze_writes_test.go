package registry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// freeze freezes the registry, but for the exceptions.
func (b *bench) freeze(except ...string) script.Freeze {
	b.t.Helper()
	f, err := b.Freeze(b.t.Context(), registry.FreezeRequest{By: everybody, Author: "ann", Note: "incident 12", Except: except})
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func (b *bench) thaw() {
	b.t.Helper()
	if changed, err := b.Thaw(b.t.Context(), everybody, "ann", "over"); err != nil || !changed {
		b.t.Fatalf("thawed: %v, %v", changed, err)
	}
}

// named returns another script of acme.
func named(name string) script.Name { return script.Name{Tenant: "acme", Script: name} }

// storeAs publishes the source as another script.
func (b *bench) storeAs(name, source string, s *script.Settings) {
	b.t.Helper()
	b.publish(source, func(r *registry.PublishRequest) { r.Name, r.Settings = named(name), s })
}

// move makes the next move of the script's candidate.
func (b *bench) move(name script.Name, move registry.Move) error {
	b.t.Helper()
	r, err := b.Get(b.t.Context(), everybody, name)
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = b.Advance(b.t.Context(), registry.AdvanceRequest{Name: name, At: r.Revision, Move: move})
	return err
}

var (
	tested = &script.Settings{Spec: script.Spec{Tests: []script.Test{{Name: "answers"}}}}
	inStep = &script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 10}, {Percent: 50}}}}
)

// beforeTheFreeze is a registry with a script of which two versions ran, and a third did not;
// one that is disabled, one that is held, one in the first step of its rollout, one whose
// candidate failed, a value and settings; and change sets, of which one is on trial and one live.
func beforeTheFreeze(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.Registry = registry.New(registry.Config{Store: b.store, Checkup: b.store, Engines: map[string]engine.Checker{"lua": b.checker}, Clock: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }})
	b.publish("one", settings(*inStep))
	b.publish("two")
	for _, move := range []registry.Move{{Step: 1, Threshold: 1 << 30}, {Promote: true}} {
		if err := b.move(route, move); err != nil {
			t.Fatal(err)
		}
	}
	b.publish("three")
	if _, err := b.steer(registry.Abort, write(route)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"off", "held", "running", "given-up"} {
		b.storeAs(name, "one", inStep)
	}
	if _, err := b.SetEnabled(t.Context(), registry.SetEnabledRequest{Write: write(named("off"))}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Pin(t.Context(), registry.PinRequest{Write: write(named("held"))}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"held", "running", "given-up"} {
		b.storeAs(name, "two", nil)
	}
	if err := b.move(named("running"), registry.Move{Step: 1, Threshold: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	if err := b.move(named("given-up"), registry.Move{Failed: "it fails"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.personal(route, "ann"); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"u", "v"} {
		b.put(script.ValueKey{Tenant: "acme", Key: "k"}, content)
	}
	b.storeAs("of-done", "one", nil)
	b.storeAs("of-trial", "one", nil)
	b.publishSet(changeSet("done", "two", nil, "of-done"))
	b.publishSet(changeSet("trial", "two", &inStep.Rollout, "of-trial"))
	if _, _, err := b.SetTenant(t.Context(), registry.SetTenant{Tenant: "acme", Settings: &script.TenantSettings{Concurrency: 7}, Author: "ann", By: everybody}); err != nil {
		t.Fatal(err)
	}
	return b
}

const unreadable = "unreadable"

// runs says what agents run: the versions, and what they run with, and values and settings.
func (b *bench) runs() map[string]string {
	b.t.Helper()
	snapshot, err := b.store.Snapshot(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string]string{}
	for o, err := range snapshot.Objects() {
		u, lost := errors.AsType[*registry.Unreadable](err)
		switch {
		case lost:
			all[u.Key] = unreadable // agents keep what they had
		case err != nil:
			b.t.Fatal(err)
		case o.Deleted():
		case o.Value != nil:
			all[o.Key()] = o.Value.Digest.Short()
		case o.Tenant != nil:
			all[o.Key()] = fmt.Sprint(o.Tenant.Settings.Concurrency, o.Tenant.Settings.Isolation)
		default:
			if said := runsOf(*o.Release); said != "" {
				all[o.Key()] = said
			}
		}
	}
	return all
}

// runsOf says what agents run, or test, of a script; "" if nothing.
func runsOf(r script.Release) string {
	var said []string
	if r.Enabled && !r.Untried() {
		said = append(said, fmt.Sprintf("v%d %s", r.Active.Number, script.DigestOf(r.Settings.Document()).Short()))
	}
	if c := r.Candidate; c != nil && c.Failed == "" && c.Frozen == "" {
		said = append(said, fmt.Sprintf("v%d in step %d on %d of attempt %d", c.Version.Number, c.Step, c.Threshold, c.Attempt))
	}
	return strings.Join(said, ", ")
}

// What becomes of a write while the registry is frozen.
const (
	isRefused = "refused" // with the freeze, by a Denied or, of what the registry does, a Conflict
	waits     = "waits"   // stored, and nothing else runs
	passes    = "passes"
)

// frozenWrites are all that methods of a Registry write, by the method, and what becomes of it
// while the registry is frozen. docs/rollouts.md has the same as a table.
var frozenWrites = map[string][]struct {
	name string
	want string
	do   func(b *bench, ctx context.Context) error
}{
	"Publish": {
		{"a version", waits, publishing("four")},
		{"a version and no steps", waits, publishing("four", settings(script.Settings{}))},
		{"a version with a test", waits, publishing("four", settings(*tested))},
		{"a new script", waits, publishing("one", of("new"))},
		{"an older version that is pinned", waits, publishing("three", pin(1))},
		{"over a running candidate", waits + ", and the candidate ends", publishing("three", of("running"))},
		{"another plan for a running candidate", waits + ", and the candidate ends", publishing("two", of("running"), settings(*tested))},
		{"another plan for a failed candidate", waits, publishing("two", of("given-up"), settings(script.Settings{}))},
		{"a version that lifts a hold", waits, publishing("three", of("held"), func(r *registry.PublishRequest) { r.LiftHold = true })},
		{"under a hold", passes, publishing("three", of("held"))},
		{"nothing new", passes, publishing("three")},
		{"what enables", isRefused, publishing("one", of("off"), func(r *registry.PublishRequest) { r.Enabled = new(true) })},
		{"a version that enables", isRefused, publishing("two", of("off"), func(r *registry.PublishRequest) { r.Enabled = new(true) })},
		{"what disables", passes, publishing("three", func(r *registry.PublishRequest) { r.Enabled = new(bool) })},
		{"what is forced", waits, publishing("four", func(r *registry.PublishRequest) { r.Force = true })},
	},
	"Pin": {
		{"a version that ran", passes, pinning(route, 1)},
		{"the active version", passes, pinning(route, 2)},
		{"a version that never ran", isRefused, pinning(route, 3)},
		{"a running candidate", isRefused, pinning(named("running"), 2)},
		{"whatever is active (hold)", passes, pinning(named("running"), 0)},
	},
	"Rollback": {
		{"to what ran before", passes, rollingBack(named("given-up"), 0)},
		{"of a running candidate", passes, rollingBack(named("running"), 0)},
		{"to a version that ran", passes, rollingBack(route, 1)},
	},
	"LiftHold": {{"and a newer version is there", waits, func(b *bench, ctx context.Context) error {
		_, err := b.LiftHold(ctx, registry.LiftHoldRequest{Write: write(named("held"))})
		return err
	}}},
	"SetEnabled": {
		{"enable", isRefused, enabling("off", true)},
		{"disable", passes, enabling("running", false)},
	},
	"SetOwner": {{"an owner", passes, func(b *bench, ctx context.Context) error {
		_, err := b.SetOwner(ctx, registry.SetOwnerRequest{Write: write(route), NewOwner: "me"})
		return err
	}}},
	"Steer": {
		{"promote", isRefused, steering("running", registry.Promote)},
		{"promote what failed", isRefused, steering("given-up", registry.Promote)},
		{"abort", passes, steering("running", registry.Abort)},
		{"retry", waits + ", and the candidate ends", steering("running", registry.Retry)},
		{"retry what failed", waits, steering("given-up", registry.Retry)},
	},
	"Advance": {
		{"a step", isRefused, moving(registry.Move{Step: 2, Threshold: 1 << 31})},
		{"the end", isRefused, moving(registry.Move{Promote: true})},
		{"a failure", passes, moving(registry.Move{Failed: "it fails"})},
		{"a loss", passes, moving(registry.Move{Lost: "n1"})},
		{"the beginning of a pause", passes, moving(registry.Move{Running: true})},
	},
	"PublishChangeSet": {
		{"one that is live at once", isRefused, publishingSet(changeSet("next", "three", nil, "of-done"))},
		{"a candidate", isRefused, publishingSet(changeSet("next", "three", &inStep.Rollout, "of-done"))},
		{"values alone", isRefused, publishingSet(changeSet("next", "three", nil))},
		{"nothing new", passes, publishingSet(changeSet("done", "two", nil, "of-done"))},
	},
	"RollbackChangeSet": {
		{"one on trial", passes, rollingSetBack("trial")},
		{"one that is live, with a value", isRefused, rollingSetBack("done")},
	},
	"AdvanceSet": {
		{"a step", isRefused, movingSet(registry.Move{Step: 1, Threshold: 1 << 30})},
		{"the end", isRefused, movingSet(registry.Move{Promote: true})},
		{"a failure", passes, movingSet(registry.Move{Failed: "it fails"})},
	},
	"Expire": {{"a personal version", passes, func(b *bench, ctx context.Context) error {
		r, err := b.store.Release(ctx, script.PersonalName(route, "ann"))
		if err != nil {
			return err
		}
		_, err = b.Expire(ctx, r.Name, r.Revision)
		return err
	}}},
	"Delete": {{"a script", isRefused, func(b *bench, ctx context.Context) error {
		_, err := b.Delete(ctx, registry.DeleteRequest{Write: write(route)})
		return err
	}}},
	"PutValue": {{"a value", isRefused, func(b *bench, ctx context.Context) error {
		_, _, err := b.PutValue(ctx, registry.PutValue{Key: script.ValueKey{Tenant: "acme", Key: "k"}, Content: []byte("w"), Author: "ann", By: everybody})
		return err
	}}},
	"RollbackValue": {{"a value", isRefused, func(b *bench, ctx context.Context) error {
		_, _, err := b.RollbackValue(ctx, registry.RollbackValue{Key: script.ValueKey{Tenant: "acme", Key: "k"}, Author: "ann", By: everybody})
		return err
	}}},
	"DeleteValue": {{"a value", isRefused, func(b *bench, ctx context.Context) error {
		_, err := b.DeleteValue(ctx, registry.DeleteValue{Key: script.ValueKey{Tenant: "acme", Key: "k"}, Author: "ann", By: everybody})
		return err
	}}},
	"SetTenant": {
		{"what agents apply", isRefused, settingTenant(&script.TenantSettings{Concurrency: 8})},
		{"nothing", isRefused, settingTenant(nil)},
		{"what bounds the registry alone", passes, settingTenant(&script.TenantSettings{Concurrency: 7, Scripts: 9})},
	},
	"Import": {{"another script", isRefused, func(b *bench, ctx context.Context) error {
		_, err := b.Import(ctx, registry.ImportRequest{By: everybody, Author: "eve", Overwrite: true}, from(archive(b.t)))
		return err
	}}},
	"AcceptLoss": {{"objects", isRefused, func(b *bench, ctx context.Context) error {
		_, err := b.AcceptLoss(ctx, registry.AcceptLoss{By: everybody, Objects: 1, Author: "ann"})
		return err
	}}},
	"Doctor": {{"a repair", passes, func(b *bench, ctx context.Context) error {
		b.store.Spoil("releases/acme/route", false)
		for f, err := range b.Doctor(ctx, registry.DoctorRequest{By: everybody, Author: "ann", Repair: true}) {
			if err != nil || f.Key == "releases/acme/route" && !f.Repaired {
				return fmt.Errorf("%+v: %w", f, err)
			}
		}
		return nil
	}}, {"what nobody knows exactly", waits, func(b *bench, ctx context.Context) error {
		b.store.Spoil("releases/acme/route", true)
		for f, err := range b.Doctor(ctx, registry.DoctorRequest{By: everybody, Author: "ann", Repair: true}) {
			if err != nil || f.Key == "releases/acme/route" && (f.Repaired || !strings.Contains(f.Remedy, "frozen by ann")) {
				return fmt.Errorf("%+v: %w", f, err)
			}
		}
		return nil
	}}},
	"Freeze": {{"again", passes, func(b *bench, _ context.Context) error { b.freeze("acme"); return nil }}},
	"Thaw":   {{"the end", passes, func(b *bench, _ context.Context) error { b.thaw(); return nil }}},
}

// reading are the methods of a Registry that write nothing but the audit trail.
var reading = []string{"Audit", "ChangeSet", "ChangeSets", "Draft", "Export", "Fleet", "Frozen", "Get", "Head", "History", "List", "NoteProfile", "NoteTry", "Source", "Sources", "Tenant", "Tenants", "Value", "ValueHistory", "Values"}

func publishing(source string, opts ...func(*registry.PublishRequest)) func(*bench, context.Context) error {
	return func(b *bench, _ context.Context) error {
		_, err := b.tryPublish(source, opts...)
		return err
	}
}

func of(name string) func(*registry.PublishRequest) {
	return func(r *registry.PublishRequest) { r.Name = named(name) }
}

func pinning(name script.Name, version uint64) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		_, err := b.Pin(ctx, registry.PinRequest{Write: write(name), Version: version})
		return err
	}
}

func rollingBack(name script.Name, version uint64) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		_, err := b.Rollback(ctx, registry.RollbackRequest{Write: write(name), Version: version})
		return err
	}
}

func enabling(name string, enabled bool) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		_, err := b.SetEnabled(ctx, registry.SetEnabledRequest{Write: write(named(name)), Enabled: enabled})
		return err
	}
}

func steering(name string, s registry.Steering) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		_, err := b.Steer(ctx, registry.SteerRequest{Write: write(named(name)), Steering: s})
		return err
	}
}

func moving(move registry.Move) func(*bench, context.Context) error {
	return func(b *bench, _ context.Context) error { return b.move(named("running"), move) }
}

func settingTenant(s *script.TenantSettings) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		_, _, err := b.SetTenant(ctx, registry.SetTenant{Tenant: "acme", Settings: s, Author: "ann", By: everybody})
		return err
	}
}

// TestEveryWriteKnowsTheFreeze: a new method of a Registry needs a line that says what becomes of
// it while the registry is frozen. What is isRefused, or waits, does not change what runs.
func TestEveryWriteKnowsTheFreeze(t *testing.T) {
	methods := reflect.TypeFor[*registry.Registry]()
	for i := range methods.NumMethod() {
		name := methods.Method(i).Name
		if (len(frozenWrites[name]) == 0) != slices.Contains(reading, name) {
			t.Errorf("what becomes of %s while the registry is frozen? Add it to frozenWrites, or to reading", name)
		}
	}
	for method, lines := range frozenWrites {
		for _, line := range lines {
			t.Run(method+" "+line.name, func(t *testing.T) {
				b := beforeTheFreeze(t)
				b.freeze("other", "acme/other-*")
				before := b.runs()
				err := line.do(b, t.Context())
				switch kind := script.KindOf(err); {
				case line.want == isRefused && (kind != script.Denied && !strings.HasPrefix(method, "Advance") || kind != script.Conflict && strings.HasPrefix(method, "Advance") ||
					!strings.Contains(err.Error(), "the registry is frozen by ann since 2026-01-01 00:00 UTC (\"incident 12\")") || !strings.Contains(err.Error(), "scriptctl thaw")):
					t.Errorf("it is not refused: %v", err)
				case line.want != isRefused && err != nil:
					t.Error(err)
				}
				after := b.runs()
				if strings.HasSuffix(line.want, "the candidate ends") {
					was, is := before["releases/acme/running"], after["releases/acme/running"]
					if !strings.HasPrefix(was, is+", v2 in step 1") {
						t.Errorf("what runs was %s, and is %s", was, is)
					}
					delete(before, "releases/acme/running")
					delete(after, "releases/acme/running")
				}
				if after["releases/acme/route"] == unreadable {
					delete(before, "releases/acme/route")
					delete(after, "releases/acme/route")
				}
				if line.want != passes && !maps.Equal(before, after) {
					t.Errorf("what runs is\n%v\nand was\n%v", after, before)
				}
				// What is excepted goes on.
				if method == "Publish" || method == "Steer" {
					b = beforeTheFreeze(t)
					b.freeze("acme/*")
					if err := line.do(b, t.Context()); err != nil {
						t.Errorf("though acme is excepted: %v", err)
					}
				}
			})
		}
	}
}
