package browser_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/console/browser"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// router sends requests to the pool of the first prefix that fits.
const router = `function handle(request)
  for _, route in ipairs(config.routes or {}) do
    if request.path:sub(1, #route.prefix) == route.prefix then
      return { upstream = route.upstream }
    end
  end
  return { upstream = "web" }
end`

// TestStory is the tutorial of docs/tutorial-console.md: a person writes a script, sees the error, tries it, publishes it with
// a test, watches a rollout fail and why, and rolls back.
func TestStory(t *testing.T) {
	w := start(t, 3)
	p := w.open(t, "/")
	p.See("There are no scripts yet")

	// Write.
	p.Click("link", "New script")
	p.See("Begin with")
	p.Fill("Tenant", "acme")
	p.Fill("Name", "route")
	p.Click("button", "Write it")
	p.See("A new script. It is not published yet.")
	p.Replace("Source of acme/route", strings.TrimSuffix(router, "end"))
	p.See("The registry finds one problem")
	p.See("Line 8")
	shoot(t, p, "error")
	p.Replace("Source of acme/route", router)
	p.See("The registry finds no problem.")

	// Try.
	p.Fill("Path", "/about")
	p.Click("button", "Run")
	p.See(`"upstream": "web"`)
	p.Fill("Name of the test", "everything goes to the web pool")
	p.Click("button", "Save as test")
	p.See("is among the tests of the draft")
	p.Click("button", "Run the test")
	p.See("All 1 tests passed.")
	shoot(t, p, "try")

	// Publish.
	p.Press("s", chromedp.ModifierCtrl)
	p.See("✓ The registry accepts it.")
	p.Fill("What changes, and why?", "One pool for all")
	p.Click("button", "Publish")
	p.Wait("the page of the script", "location.pathname + location.search === '/script/?name=acme%2Froute'")
	p.See("Version 1.")
	w.live(t, "route", 1)

	// A rollout that fails: the test of version 1 does not fit any more.
	p.Replace("Source of acme/route", strings.ReplaceAll(router, `"web"`, `"web-2"`))
	p.Click("tab", "Rollout plan")
	p.Click("button", "Add a step")
	p.Click("button", "Publish…")
	p.See("✓ The registry accepts it.")
	shoot(t, p, "publish")
	p.Fill("What changes, and why?", "The new web pool")
	p.Click("button", "Publish")
	p.See("Version 2 is published.")
	p.Click("link", "Rollout")
	p.See("Version 2 was given up")
	p.See("everything goes to the web pool")
	shoot(t, p, "rollout-failed")

	// And one that succeeds, until somebody rolls back.
	p.Click("link", "Edit")
	p.See("Version 2.")
	p.Replace("Source of acme/route", router+"\n-- as before")
	p.Click("button", "Publish…")
	p.Fill("What changes, and why?", "The old web pool")
	p.Click("button", "Publish")
	p.See("Version 3 is published.")
	p.Click("link", "Rollout")
	p.See("Version 3 is on its way")
	p.Click("button", "Promote…")
	p.Fill("Reason", "It is only a comment")
	p.Click("button", "Promote")
	p.See("Nothing is rolled out now")
	w.live(t, "route", 3)
	p.Click("link", "History")
	p.See("Versions") // the page before has the same menu and the same reasons
	p.See("It is only a comment")
	shoot(t, p, "history")
	p.Click("button", "Actions")
	p.See("Delete…")
	p.Click("button", "Roll back…")
	p.See("The version that was live before version 3")
	p.Fill("Reason", "Customers complain")
	p.Click("button", "Roll back")
	p.See("held")
	w.live(t, "route", 1)
}

// TestTwoTabs: what somebody else published in between is not overwritten.
func TestTwoTabs(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	b := browser.Start(t)
	mine, theirs := b.Open(t), b.Open(t)
	w.signIn(mine, "/script/?name=acme/route")
	theirs.Go(w.url + "/script/?name=acme/route")
	mine.Replace("Source of acme/route", "-- mine\n"+router+"\n")
	mine.See("with changes that are not published")

	theirs.Replace("Source of acme/route", router+"\n-- theirs\n")
	theirs.Click("button", "Publish…")
	theirs.Fill("What changes, and why?", "A comment at the end")
	theirs.Click("button", "Publish")
	theirs.See("Version 2 is published.")

	mine.See("acme/route changed: version 2 by anonymous.")
	mine.Click("button", "Publish…")
	mine.See("Somebody else changed the script")
	mine.See("The changes do not overlap: both are taken.")
	shoot(t, mine, "conflict")
	mine.Click("button", "Continue")
	mine.Click("button", "Publish…")
	mine.See("✓ The registry accepts it.")
	mine.Fill("What changes, and why?", "A comment at the beginning")
	mine.Click("button", "Publish")
	mine.See("Version 3 is published.")
	if got, want := w.source(t, "route"), "-- mine\n"+router+"\n-- theirs\n"; got != want {
		t.Errorf("version 3 is\n%s\nwant\n%s", got, want)
	}
}

// TestRegistryRestarts: pages say since when they are stale, and go on by themselves. Nothing that was typed is lost.
func TestRegistryRestarts(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme/route")
	p.Replace("Source of acme/route", "-- mine\n"+router)
	p.See("Live")
	if err := w.Stack.StopRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.See("Stale since")
	p.Click("button", "Publish…")
	p.Wait("why it cannot be published", "document.querySelector('dialog[open] [role=alert]')?.innerText.length > 10")
	p.Click("button", "Cancel")
	if err := w.Stack.StartRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.See("Live")
	p.Forgive() // calls while the registry was away
	p.Click("button", "Publish…")
	p.See("✓ The registry accepts it.")
	p.Fill("What changes, and why?", "A comment")
	p.Click("button", "Publish")
	p.See("Version 2 is published.")
	if got, want := w.source(t, "route"), "-- mine\n"+router; got != want {
		t.Errorf("version 2 is\n%s\nwant\n%s", got, want)
	}
}

// live waits until the version runs on all agents.
func (w *world) live(t *testing.T, name string, version uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last []registryclient.ScriptStatus
	for fleet, err := range w.Registry.WatchStatus(ctx, script.Name{Tenant: "acme", Script: name}) {
		if err != nil {
			t.Fatalf("version %d is not live everywhere: %v; last: %+v", version, err, last)
		}
		last = fleet.Scripts
		for _, one := range fleet.Scripts {
			if one.Converged && one.Release.Active.Number == version {
				return
			}
		}
	}
}

// publish publishes a script of acme without tests and steps.
func (w *world) publish(t *testing.T, name, source string) {
	t.Helper()
	w.Publish(t, localtest.Manifest(name, source), 1)
}

// source returns the source of the active version.
func (w *world) source(t *testing.T, name string) string {
	t.Helper()
	e, err := w.Registry.Source(t.Context(), script.Ref{Name: script.Name{Tenant: "acme", Script: name}})
	if err != nil {
		t.Fatal(err)
	}
	return string(e.Source)
}
