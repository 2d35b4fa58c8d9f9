package browser_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// TestStory does what docs/tutorial-console.md says, and takes its pictures.
func TestStory(t *testing.T) {
	w := start(t, 3)
	p := w.open(t, "/")
	p.Size(1280, 860)
	p.See("There are no scripts yet")
	w.writeScript(t, p)
	tryScript(t, p)

	// Publish it.
	p.Press("s", chromedp.ModifierCtrl)
	p.See("✓ The registry accepts it.")
	shoot(t, p, "publish")
	p.Fill("What changes, and why?", "The API has a service of its own")
	p.Click("button", "Publish")
	p.Wait("the page of the script", "location.pathname + location.search === '/script/?name=acme%2Froute'")
	p.See("Version 1.")
	w.live(t, "route", 1)

	// A change that its test stops.
	p.Click("tab", "Settings")
	p.Replace("Config, in JSON", `{"routes": [{"prefix": "/api", "upstream": "api-v2"}], "default": "web"}`)
	p.Click("tab", "Rollout plan")
	p.Click("button", "Add a step")
	publishDraft(p, "The new service")
	p.See("Version 2 is published.")
	p.Click("link", "Rollout")
	p.See("Version 2 was given up")
	p.See("the API has its own service")
	shoot(t, p, "rollout-failed")

	// The test follows, and the rollout goes on when somebody says so.
	p.Click("link", "Edit")
	p.See("Version 2.")
	p.Click("tab", "Tests")
	p.Fill("Expected result, in JSON", `{"upstream": "api-v2"}`)
	p.Click("tab", "Source")
	publishDraft(p, "The test expects the new service")
	p.See("Version 3 is published.")
	p.Click("link", "Rollout")
	p.See("Version 3 is on its way")
	p.See("candidate 1")
	shoot(t, p, "rollout-step")
	p.Click("button", "Promote…")
	p.Fill("Reason", "The service is ready")
	p.Click("button", "Promote")
	p.See("Nothing is rolled out now")
	w.live(t, "route", 3)

	// And back.
	p.Click("link", "History")
	p.See("Versions") // the page before has the same menu and the same reasons
	p.See("The service is ready")
	shoot(t, p, "history")
	p.Click("button", "Actions")
	p.See("Delete…")
	p.Click("button", "Roll back…")
	p.See("The version that was live before version 3")
	p.Fill("Reason", "The service is down")
	p.Click("button", "Roll back")
	p.See("held")
	w.live(t, "route", 1)
}

// writeScript begins a script with a template, and makes a mistake.
func (w *world) writeScript(t *testing.T, p *browser.Page) {
	t.Helper()
	template, err := os.ReadFile(filepath.FromSlash("../../scaffold/files/decision/route.lua"))
	if err != nil {
		t.Fatal(err)
	}
	source := strings.TrimSpace(string(template))
	p.Click("link", "New script")
	p.See("Begin with")
	p.Fill("Tenant", "acme")
	p.Fill("Name", "route")
	p.Click("button", "Write it")
	p.See("A new script. It is not published yet.")
	p.Replace("Source of acme/route", strings.TrimSuffix(source, "end"))
	p.See("The registry finds one problem")
	p.See("the script ends, but the 'function'")
	shoot(t, p, "error")
	p.Replace("Source of acme/route", source)
	p.See("The registry finds no problem.")
}

// tryScript runs the draft on an agent, and makes a test of the result.
func tryScript(t *testing.T, p *browser.Page) {
	t.Helper()
	p.Fill("Path", "/api/cart")
	p.Click("button", "Run")
	p.See(`"upstream": "api"`)
	p.Fill("Name of the test", "the API has its own service")
	p.Click("button", "Save as test")
	p.See("is among the tests of the draft")
	p.Click("button", "Run the test")
	p.See("The test passed.")
	shoot(t, p, "try")
}

// publishDraft publishes the draft on the page.
func publishDraft(p *browser.Page, note string) {
	p.Click("button", "Publish…")
	p.See("✓ The registry accepts it.")
	p.Fill("What changes, and why?", note)
	p.Click("button", "Publish")
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
	publishDraft(theirs, "A comment at the end")
	theirs.See("Version 2 is published.")

	mine.See("acme/route changed: version 2 by anonymous.")
	mine.Click("button", "Publish…")
	mine.See("Somebody else changed the script")
	mine.See("The changes do not overlap: both are taken.")
	shoot(t, mine, "conflict")
	mine.Click("button", "Continue")
	mine.See("Version 2 with changes that are not published")
	publishDraft(mine, "A comment at the beginning")
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
	publishDraft(p, "A comment")
	p.See("Version 2 is published.")
	if got, want := w.source(t, "route"), "-- mine\n"+router; got != want {
		t.Errorf("version 2 is\n%s\nwant\n%s", got, want)
	}
}

// hide hides the page, which has no stream from then on, and shows what it had.
func hide(p *browser.Page) {
	p.Eval("Object.defineProperty(document, 'hidden', { value: true, configurable: true }) && document.dispatchEvent(new Event('visibilitychange'))", new(bool))
	p.See("Connecting")
}

// TestHiddenPage checks that a page has no stream while nobody sees it: a browser has few connections for all tabs.
func TestHiddenPage(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme%2Froute")
	p.See("Live")
	hide(p)
	w.publish(t, "route", "-- another one\n"+router)
	p.Eval("delete document.hidden && document.dispatchEvent(new Event('visibilitychange'))", new(bool))
	p.See("Live")
	p.See("version 2")
}

// TestSessionEnds checks that a person loses no draft when the session ends, and goes on after a sign-in in another tab.
func TestSessionEnds(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	b := browser.Start(t)
	mine, other, reader := b.Open(t), b.Open(t), b.Open(t)
	w.signIn(mine, "/script/?name=acme/route")
	reader.Go(w.url + "/script/?name=acme/route") // has a stream, and calls nothing
	reader.See("Live")
	reader.See("The registry finds no problem.")
	mine.Replace("Source of acme/route", "-- mine\n"+router)
	mine.See("with changes that are not published")
	mine.Click("link", "Fleet") // the draft stays in the tab
	mine.See("revision")
	other.Go(w.url + "/")
	other.Click("button", "anonymous")
	other.Click("button", "Sign out")
	mine.See("Your session ended.")
	reader.See("Sign in")
	reader.Forgive()
	w.signIn(other, "/")
	mine.See("Live")
	mine.Click("link", "Scripts")
	mine.Click("link", "acme/route")
	mine.See("with changes that are not published")
	mine.Forgive() // the calls meanwhile
	publishDraft(mine, "A comment")
	mine.See("Version 2 is published.")
}

// TestLostAnswer checks that a person whose publish had no answer sees that the registry has it, and no conflict with oneself.
func TestLostAnswer(t *testing.T) {
	w := start(t, 1)
	p := w.publishing(t, browser.Start(t), `allow(); throw new TypeError('Failed to fetch')`)
	p.See("The console does not answer")
	w.live(t, "route", 2)
	p.Click("button", "Cancel")
	p.See("Version 2 is published.")
	p.Miss("Your draft began before")
}

// TestConsoleRestartsDuringAPublish checks the same of a console that ends with all its sessions before it answers.
func TestConsoleRestartsDuringAPublish(t *testing.T) {
	w := start(t, 1)
	b := browser.Start(t)
	p := w.publishing(t, b, `await answers; throw new TypeError('Failed to fetch')`)
	p.See("Publishing…")
	w.live(t, "route", 2)
	w.restart(t)
	p.Eval("allow(), 1", new(int))
	p.Wait("why it is not published", "document.querySelector('dialog[open] [role=alert]')?.innerText.includes('does not answer')")
	p.See("Your session ended.")
	w.signIn(b.Open(t), "/")
	p.See("Live")
	p.Click("button", "Cancel")
	p.See("Version 2 is published.")
	p.Miss("Your draft began before")
	p.Forgive() // the calls without a session
}

// TestChangesDuringAPublish checks that what a person changes before the answer to a publish is part of the next one.
func TestChangesDuringAPublish(t *testing.T) {
	w := start(t, 1)
	p := w.publishing(t, browser.Start(t), `await answers`)
	p.See("Publishing…")
	w.live(t, "route", 2)
	p.Click("button", "Cancel")
	p.Replace("Source of acme/route", "-- more\n"+router)
	p.See("Version 1 with changes")
	p.Eval("allow(), 1", new(int))
	p.See("Version 2 with changes")
	p.Miss("Your draft began before")
	publishDraft(p, "A comment")
	p.See("Version 3 is published.")
	if got, want := w.source(t, "route"), "-- more\n"+router; got != want {
		t.Errorf("version 3 is\n%s\nwant\n%s", got, want)
	}
}

// TestActRightAfterTyping checks that a publish and a try have the last keys, although the editor reports them a moment later.
func TestActRightAfterTyping(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme/route")
	p.See("The registry finds no problem.")
	for _, publish := range []func(){
		func() { p.Press("s", chromedp.ModifierCtrl) },
		func() { p.Click("button", "Publish…") },
	} {
		p.Replace("Source of acme/route", "-- mine\n"+router)
		publish()
		p.Wait("the last keys in the dialog", "document.querySelector('dialog[open]')?.innerText.includes('+ -- mine')")
		p.See("✓ The registry accepts it.")
		p.Click("button", "Cancel")
		p.Click("button", "Drop changes")
		p.See("Version 1.")
	}
	for i, try := range []func(){
		func() { p.Press("\r", chromedp.ModifierCtrl) },
		func() { p.Click("button", "Run") },
	} {
		p.Replace("Source of acme/route", fmt.Sprintf("function handle() return 'try %d' end", i))
		try()
		p.See(fmt.Sprintf(`"try %d"`, i))
	}
}

// publishing opens a page that publishes version 2 of a script. When the answer arrives, the page does what then says: see intercept. The
// editor checks the draft with calls of the same method, so the page recognizes the publish by its note.
func (w *world) publishing(t *testing.T, b *browser.Browser, then string) *browser.Page {
	t.Helper()
	w.publish(t, "route", router)
	p := b.Open(t)
	w.signIn(p, "/script/?name=acme/route")
	p.Replace("Source of acme/route", "-- mine\n"+router)
	p.See("with changes that are not published")
	p.Click("button", "Publish…")
	p.See("✓ The registry accepts it.")
	p.Fill("What changes, and why?", "Mine goes first")
	intercept(p, `String(url).endsWith('/Publish') && new TextDecoder().decode(options.body).includes('Mine goes first')`, then)
	p.Click("button", "Publish")
	return p
}

// intercept has the page do what then says when the answer to a request arrives for which when is true. then is a statement that can use
// answers, a promise that ends with a call of allow. From that call on, all answers arrive as they are.
func intercept(p *browser.Page, when, then string) {
	p.Eval(`{ const real = fetch, answers = new Promise((done) => { window.allow = () => { fetch = real; done(); }; });
	fetch = async (url, options) => {
		const answer = await real(url, options);
		if (`+when+`) {
			`+then+`;
		}
		return answer;
	}; } 1`, new(int))
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
