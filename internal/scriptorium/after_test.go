package scriptorium_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// after is a plan that comes after the scripts.
func after(names ...string) *script.Plan {
	plan := &script.Plan{}
	for _, name := range names {
		plan.After = append(plan.After, of(name))
	}
	return plan
}

// large is the source of a script that returns the number: it is too long for the journal of an agent,
// which stores it in a file.
func large(version int) string {
	return returning(version) + "\n--" + strings.Repeat("x", 150<<10)
}

// publishLarge publishes it by the plan.
func (c *canaries) publishLarge(name string, version int, plan script.Plan) {
	c.t.Helper()
	if _, err := c.client.Publish(c.t.Context(), registryclient.PublishRequest{
		Name: of(name), Source: []byte(large(version)), Write: by,
		Settings: &script.Settings{Spec: script.Spec{Limits: script.Limits{SourceBytes: 256 << 10}}, Rollout: plan},
	}); err != nil {
		c.t.Fatal(err)
	}
}

// cannotStore has the agent fail to store the source, until mended is called: a file is where its
// folder is to be.
func (c *canaries) cannotStore(agent, source string) (mended func()) {
	c.t.Helper()
	digest := strings.TrimPrefix(script.DigestOf([]byte(source)).String(), "sha256:")
	path := filepath.Join(c.dir, agent, "state", "blobs", digest[:2])
	if err := errors.Join(os.Rename(path, path+"-away"), os.WriteFile(path, nil, 0o600)); err != nil {
		c.t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.Remove(path), os.Rename(path+"-away", path)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestAfterOtherScripts: a candidate waits for whatever keeps another script from being live in its
// latest version, also if the registry is killed meanwhile, and for nothing else.
func TestAfterOtherScripts(t *testing.T) {
	needs.Time(t, "starts five processes")
	needs.NoRace(t)
	t.Parallel()
	c := startGated(t, 2, "")
	trial := &script.Plan{Steps: []script.Step{{Percent: 50, Approval: true}}}
	onTrial := func(lib string) {
		c.plan(lib, 1, nil)
		c.plan(lib, 2, trial)
	}
	write := func(_ script.Release, _ bool, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var ends []func()
	// Of each: what becomes of the script that it comes after, why it waits, and what ends that.
	for name, tt := range map[string]struct {
		lib  func(lib string)
		why  string // "" if it does not wait
		ends func(lib string)
	}{
		"trial": {onTrial, "version 2 of acme/LIB is not live yet", func(lib string) { c.steer(lib, registryclient.Approve) }},
		"aborted": {func(lib string) {
			onTrial(lib)
			c.steer(lib, registryclient.Abort)
		}, "version 2 of acme/LIB was given up", func(lib string) { c.steer(lib, registryclient.Promote) }},
		"held": {func(lib string) {
			c.plan(lib, 1, nil)
			c.plan(lib, 2, nil)
			write(c.client.Pin(t.Context(), of(lib), 1, by))
		}, "acme/LIB is held at version 1, and its latest is 2", func(lib string) { write(c.client.LiftHold(t.Context(), of(lib), by)) }},
		"disabled": {func(lib string) {
			c.plan(lib, 1, nil)
			write(c.client.SetEnabled(t.Context(), of(lib), false, by))
		}, "acme/LIB is disabled", func(lib string) { write(c.client.SetEnabled(t.Context(), of(lib), true, by)) }},
		"never": {func(string) {}, "acme/LIB does not exist", func(lib string) { c.plan(lib, 1, nil) }},
		"deleted": {func(lib string) {
			c.plan(lib, 1, nil)
			if _, err := c.client.Delete(t.Context(), of(lib), by); err != nil {
				t.Fatal(err)
			}
		}, "acme/LIB does not exist", func(lib string) {
			c.plan(lib, 2, trial, script.Test{Name: "it works"}) // which is live when that passes
		}},
		"pinned": {func(lib string) {
			c.plan(lib, 1, nil)
			if _, err := c.client.Publish(t.Context(), registryclient.PublishRequest{Name: of(lib), Source: []byte(returning(2)), Pin: new(uint64(1)), Write: by}); err != nil {
				t.Fatal(err)
			}
		}, "", nil},
		"live": {func(lib string) { c.plan(lib, 1, nil) }, "", nil},
		// What waits no more: a person has promoted it, or has gone back.
		"promoted": {onTrial, "version 2 of acme/LIB is not live yet", func(lib string) { c.steer(strings.TrimSuffix(lib, "-lib"), registryclient.Promote) }},
	} {
		lib := name + "-lib"
		tt.lib(lib)
		c.plan(name, 1, nil)
		why := strings.ReplaceAll(tt.why, "LIB", lib)
		warnings := c.plan(name, 2, after(lib))
		if want := "rollout.after: " + why; (why == "") != (len(warnings) == 0) || why != "" && warnings[0] != want {
			t.Errorf("%s: publish warns %q, want %q", name, warnings, want)
		}
		if why == "" {
			c.live(name, 2)
			continue
		}
		c.waits(name, why+" (rollout.after)")
		ends = append(ends, func() {
			c.waits(name, why+" (rollout.after)")
			tt.ends(lib)
			c.live(name, 2)
		})
	}
	c.killRegistry()
	for _, end := range ends {
		end()
	}
	c.afterFreeze()
	c.afterBegan(trial)
	c.afterCircle(trial)
	c.afterLongCircle()
	c.afterAgents()
	c.plan("late", 1, nil)
	c.plan("late-lib", 1, nil)
	c.plan("late-lib", 2, trial)
	late := after("late-lib")
	late.ProgressDeadline = time.Second
	c.plan("late", 2, late)
	if why := c.fails("late"); why != "no progress in 1s: version 2 of acme/late-lib is not live yet (rollout.after)" {
		t.Errorf("with a deadline: %s", why)
	}
}

// afterFreeze: a script that waits for the end of a freeze keeps others waiting that do not.
func (c *canaries) afterFreeze() {
	c.plan("thaw-lib", 1, nil)
	c.plan("thaw", 1, nil)
	c.freeze("acme/thaw")
	c.plan("thaw-lib", 2, nil)
	c.plan("thaw", 2, after("thaw-lib"))
	c.waits("thaw", "version 2 of acme/thaw-lib waits for the end of a freeze (rollout.after)")
	c.thaw()
	c.live("thaw", 2)
}

// afterBegan: once the first step has begun, another version of the other script does not matter.
func (c *canaries) afterBegan(trial *script.Plan) {
	c.plan("began-lib", 1, nil)
	c.plan("began", 1, nil)
	plan := after("began-lib")
	plan.Steps = trial.Steps
	c.plan("began", 2, plan)
	c.waits("began", "step 1 needs an approval: scriptctl rollout approve acme/began")
	c.plan("began-lib", 2, trial)
	c.steer("began", registryclient.Approve)
	c.live("began", 2)
}

// afterCircle: of scripts in a circle, those that have a candidate wait for each other, until a person
// decides.
func (c *canaries) afterCircle(trial *script.Plan) {
	names := []string{"ring-1", "ring-2", "ring-3"}
	for _, name := range names {
		c.plan(name, 1, nil)
	}
	c.freeze() // so that none begins before all have a candidate
	var warnings []string
	for i, name := range names {
		plan := after(names[(i+1)%3])
		plan.Steps = trial.Steps
		warnings = c.plan(name, 2, plan)
		c.waits(name, "the registry is frozen by ann") // the next publish knows of it
	}
	c.thaw()
	if want := "rollout.after: acme/ring-1 comes after acme/ring-3 itself: if both have a candidate, neither becomes live"; !slices.Contains(warnings, want) {
		c.t.Errorf("publish warns %q, want %s", warnings, want)
	}
	c.waits("ring-1", "version 2 of acme/ring-2 is not live yet (rollout.after)")
	c.waits("ring-2", "version 2 of acme/ring-3 is not live yet (rollout.after)")
	c.waits("ring-3", "version 2 of acme/ring-1 is not live yet (rollout.after)")
	c.steer("ring-1", registryclient.Promote)
	for _, name := range []string{"ring-3", "ring-2"} {
		c.waits(name, "step 1 needs an approval: scriptctl rollout approve acme/"+name)
		c.steer(name, registryclient.Approve)
		c.live(name, 2)
	}
}

// afterLongCircle: all scripts of a circle of many wait for each other. When a person has promoted one, the others
// are live one after the other. What is in no circle does not wait.
func (c *canaries) afterLongCircle() {
	c.t.Helper()
	const many = 60
	long := func(i int) string { return fmt.Sprint("long-", i%many) }
	for i := range many {
		c.plan(long(i), 1, nil)
	}
	c.freeze()
	for i := range many {
		warnings := c.plan(long(i), 2, after(long(i+1)))
		if i < many-1 {
			c.is(long(i), "waits for the thaw", (*script.Release).Frozen)
			continue
		}
		c.waits(long(i-1), "the registry is frozen by ann") // the registry knows all others
		warnings = append(warnings, c.plan(long(i), 3, after(long(i+1)))...)
		if want := fmt.Sprintf("rollout.after: acme/%s comes after acme/%s itself: if both have a candidate, neither becomes live", long(0), long(i)); !slices.Contains(warnings, want) {
			c.t.Errorf("publish warns %q, want %s", warnings, want)
		}
	}
	c.plan("beside", 1, nil)
	if warnings := c.plan("beside", 2, after(long(0))); slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "itself") }) {
		c.t.Errorf("publish warns of a circle: %q", warnings)
	}
	c.thaw()
	for i := range many - 1 {
		version := 2 + (i+1)/(many-1)
		c.waits(long(i), fmt.Sprintf("version %d of acme/%s is not live yet (rollout.after)", version, long(i+1)))
	}
	c.waits(long(many-1), fmt.Sprintf("version 2 of acme/%s is not live yet (rollout.after)", long(0)))
	c.steer(long(many/2), registryclient.Promote)
	for i := range many - 1 {
		c.live(long(i), 2)
	}
	c.live(long(many-1), 3)
	c.live("beside", 2)
}

// afterAgents: an agent that could not activate the other script holds the candidate up, unless it
// is tolerated.
func (c *canaries) afterAgents() {
	mended := c.cannotStore("node-1", large(7))
	c.plan("disk", 1, nil)
	c.plan("spare", 1, nil)
	c.publishLarge("disk-lib", 7, script.Plan{})
	c.plan("disk", 2, after("disk-lib"))
	tolerant := after("disk-lib")
	tolerant.Tolerate = script.Amount{Count: 1}
	c.plan("spare", 2, tolerant)
	c.live("spare", 2)
	c.waits("disk", "1 of 2 agents have not activated acme/disk-lib (rollout.after)")
	mended()
	c.live("disk", 2)
}
