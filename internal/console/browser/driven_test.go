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

// by is who changes things beside the browser.
var by = registryclient.DataWrite{Author: "bo", Note: "from elsewhere"}

// TestValues writes a value, meets somebody else's change of it, deletes it, and brings it back.
func TestValues(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	key := script.ValueKey{Tenant: "acme", Key: "flags/sale"}
	content := func() string {
		t.Helper()
		_, got, err := w.Registry.Value(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	p := w.open(t, "/values/?tenant=acme")
	p.See("acme has no values yet")
	p.Click("button", "New value")
	p.See("Or the content of a file") // the filter's name begins like the field's
	p.Fill("Key", key.Key)
	p.Fill("Content", `{"sale": 1}`)
	p.Click("button", "Save")
	p.See("version 1, 11 bytes")

	p.Click("button", "Edit")
	p.Fill("Content", `{"sale": 2}`)
	if _, _, err := w.Registry.PutValue(t.Context(), key, []byte(`{"sale": 3}`), by); err != nil {
		t.Fatal(err)
	}
	p.Click("button", "Save")
	p.See("Somebody changed the value meanwhile: bo wrote")
	if got := content(); got != `{"sale": 3}` {
		t.Errorf("the conflict wrote %s", got)
	}
	p.Click("button", "Save mine in place of theirs")
	p.See("flags/sale is saved.")
	if got := content(); got != `{"sale": 2}` {
		t.Errorf("the value is %s", got)
	}
	p.Click("button", "Delete…")
	p.Fill("Reason", "the sale is over")
	p.Click("button", "Delete")
	p.See("flags/sale is deleted.")
	p.Click("button", "Undo")
	p.See("flags/sale is back.")
	if got := content(); got != `{"sale": 2}` {
		t.Errorf("the value is back as %s", got)
	}
}

// TestTenantSettings changes a limit of a tenant.
func TestTenantSettings(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/tenants/?tenant=acme")
	p.See("Limits and quotas")
	p.Click("button", "Edit")
	p.Fill("Memory on each agent", "128Mi")
	p.Click("button", "Save")
	p.See("128Mi")
	tenant, err := w.Registry.Tenant(t.Context(), "acme")
	if err != nil || tenant.Settings.MemoryBytes != 128<<20 {
		t.Errorf("%+v, %v", tenant.Settings, err)
	}
}

// TestYAMLWithProblems checks that nobody publishes a draft without the YAML that they see, and that the YAML outlives another page.
func TestYAMLWithProblems(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme%2Froute")
	p.See("The registry finds no problem.")
	intercept(p, `String(url).endsWith('/Format')`, "window.held = true; await answers")
	p.Click("tab", "YAML")
	p.Wait("the answer that is held", "window.held")
	p.Wait("no editor, whose text the answer would replace", "!document.querySelector('#panel-yaml .code')")
	p.Eval("allow(), 1", new(int))
	p.Replace("Manifest, in YAML, without the source", "spec: [broken")
	p.See("is not YAML")
	p.See("Version 1 with changes")
	p.Miss("The registry finds no problem.")
	p.Click("button", "Run")
	p.See("does not have the text of “YAML” yet")
	p.Click("button", "Publish…")
	p.See("does not have the text of “YAML”")
	p.Wait("a publish that is disabled", "document.querySelector('dialog[open] [type=submit]').disabled")
	p.Click("button", "Cancel")
	p.Click("link", "Scripts")
	p.Click("link", "acme/route")
	p.Click("tab", "YAML")
	p.See("is not YAML")
	p.Click("button", "Drop changes")
	p.See("Version 1.")
	p.Miss("is not YAML")
	p.See("The registry finds no problem.")
}

// TestFieldsWithProblems checks the same of what a person types into a form.
func TestFieldsWithProblems(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme%2Froute")
	p.See("The registry finds no problem.")
	p.Click("tab", "Tests")
	p.Click("button", "Add a test")
	p.Click("button", "Add a test")
	p.Fill("Request, in JSON", `{"broken": `)
	p.Press("\t")
	p.See("This is not JSON yet")
	p.Click("tab", "Settings")
	p.Fill("Instructions of a call", "-1")
	p.Press("\t")
	p.See("Write a whole number that is not negative.")
	p.Click("link", "Scripts")
	p.Click("link", "acme/route")
	p.Click("tab", "Tests")
	p.See("This is not JSON yet")
	p.Click("button", "Publish…")
	p.See("does not have the text of “Test 1: Request, in JSON” and “Instructions of a call”")
	p.Wait("a publish that is disabled", "document.querySelector('dialog[open] [type=submit]').disabled")
	p.Click("button", "Cancel")
	p.Click("button", "Remove the test test")
	p.Miss("This is not JSON yet")
	p.Click("button", "Publish…")
	p.See("does not have the text of “Instructions of a call”")
	p.Click("button", "Drop it")
	p.See("✓ The registry accepts it.")
	p.Click("button", "Cancel")
	p.Click("tab", "Settings")
	p.Miss("Write a whole number that is not negative.")
}

// TestAddresses checks that pages say what their address lacks.
func TestAddresses(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/")
	for path, shows := range map[string]string{
		"/script/":                               "The address names no script.",
		"/script/history/":                       "The address names no script.",
		"/script/rollout/":                       "The address names no script.",
		"/fleet/agent/":                          "The address names no agent",
		"/script/?name=acme%2Froute&version=abc": "The address has “abc” for a version.",
	} {
		p.Go(w.url + path)
		p.See(shows)
	}
}

// TestWorkbench uses what the story leaves out: completion, the YAML beside the forms, and a test that shows how results differ.
func TestWorkbench(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme%2Froute")
	p.See("The registry finds no problem.")
	p.Replace("Source of acme/route", "function handle()\n  log.in")
	p.Press(" ", chromedp.ModifierCtrl)
	p.Wait("a completion of the host API", `[...document.querySelectorAll('*')].some((e) => e.shadowRoot?.querySelector('.cm-tooltip-autocomplete')?.textContent.includes('info'))`)
	p.Press("\x1b")
	p.Replace("Source of acme/route", router)

	p.Click("tab", "Tests")
	p.Click("button", "Add a test")
	p.Fill("Name", "goes to the shop")
	p.Fill("Expected result, in JSON", `{"upstream": "shop"}`)
	p.Click("tab", "YAML")
	p.Wait("the test in the YAML", `[...document.querySelectorAll('*')].some((e) => /goes to the shop[^]*upstream: shop/.test(e.shadowRoot?.querySelector('.cm-content')?.innerText ?? ''))`)
	p.Click("tab", "Source")
	p.Click("button", "Run the test")
	p.See("1 of 1 tests failed.")
	p.See("/upstream")
	p.See(`"shop"`)
}

// candidate publishes version 2 with a plan of one step, and opens the page of its rollout.
func (w *world) candidate(t *testing.T, step script.Step) *browser.Page {
	t.Helper()
	_, err := w.Registry.Publish(t.Context(), registryclient.PublishRequest{
		Name: script.Name{Tenant: "acme", Script: "route"}, Source: []byte(strings.ReplaceAll(router, "web", "shop")),
		Settings: &script.Settings{Rollout: script.Plan{Steps: []script.Step{step}}}, Write: registryclient.Write{Author: "bo"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w.open(t, "/script/rollout/?name=acme%2Froute")
}

// TestApproval approves a step that waits for a person.
func TestApproval(t *testing.T) {
	w := start(t, 2)
	w.Publish(t, localtest.Manifest("route", router), 2)
	p := w.candidate(t, script.Step{Percent: 50, Approval: true})
	p.See("Version 2 is on its way")
	p.Click("button", "Approve…")
	p.Fill("Reason", "It looks good")
	p.Click("button", "Approve")
	p.See("Nothing is rolled out now")
	p.See("It looks good")
	w.live(t, "route", 2)
}

// TestChangeSet aborts a change set from the page of one of its scripts, while the registry is frozen. A freeze stops no abort.
func TestChangeSet(t *testing.T) {
	w := start(t, 2)
	for _, name := range []string{"route", "gate"} {
		w.Publish(t, localtest.Manifest(name, router), 2)
	}
	plan := script.Plan{Steps: []script.Step{{Percent: 50, Approval: true}}}
	set := registryclient.ChangeSetRequest{Tenant: "acme", Name: "spring", Plan: &plan, ChangeSetWrite: registryclient.ChangeSetWrite{Author: "bo", Note: "both at once"}}
	for _, name := range []string{"route", "gate"} {
		set.Scripts = append(set.Scripts, registryclient.PublishRequest{
			Name: script.Name{Tenant: "acme", Script: name}, Source: []byte(strings.ReplaceAll(router, "web", "shop")),
		})
	}
	if _, err := w.Registry.PublishChangeSet(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	p := w.open(t, "/script/rollout/?name=acme%2Froute")
	p.See("spring")
	p.See("gate")
	if _, err := w.Registry.Freeze(t.Context(), time.Hour, nil, "bo", "incident 12"); err != nil {
		t.Fatal(err)
	}
	p.Click("link", "Fleet")
	p.See("incident 12")
	p.Go(w.url + "/script/rollout/?name=acme%2Froute")
	p.Click("button", "Abort…")
	p.See("all of its 2 scripts")
	p.Fill("Reason", "It was wrong")
	p.Click("button", "Abort")
	p.See("It was wrong")
	for _, name := range []string{"route", "gate"} {
		fleet, err := w.Registry.Status(t.Context(), script.Name{Tenant: "acme", Script: name})
		if err != nil || len(fleet.Scripts) != 1 || fleet.Scripts[0].Release.Active.Number != 1 || fleet.Scripts[0].Release.CandidateState() != script.CandidateFailed {
			t.Errorf("%s: %+v, %v", name, fleet.Scripts, err)
		}
	}
}

// TestRecordedRequest tries a request that an agent recorded, without what the decision log masks.
func TestRecordedRequest(t *testing.T) {
	w := start(t, 1)
	w.Publish(t, localtest.Manifest("route", router)+"  log: {decisions: {sample: 1, mask: [path]}}\n", 1)
	w.call(t, "route", 5)
	p := w.open(t, "/script/?name=acme%2Froute")
	p.Click("button", "Read recorded requests")
	p.See("recorded requests are in the list")
	p.Eval(`{ const list = [...document.querySelectorAll('select')].find((s) => s.querySelector('[label=Recorded]')); list.value = 'recorded:0'; list.dispatchEvent(new Event('change', { bubbles: true })); } 1`, new(int))
	p.Wait("the masked path", `[...document.querySelectorAll('input')].some((e) => e.value === '***')`)
	p.Click("button", "Run")
	p.See(`"upstream": "web"`)
}

// TestShadow shows where a candidate's results differ from the live ones.
func TestShadow(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.candidate(t, script.Step{Percent: 100, By: script.ByShadow, Approval: true})
	p.See("Calls in the shadow")
	w.differ(t, "route")
	p.See("differs at /upstream")
	p.Eval("document.querySelector('details.sample').open = true", new(bool))
	p.See("Version 1 answered −, version 2 would +")
	p.See(`"shop"`)
}

// differ calls the script until an agent found a difference in the shadow. An agent drops shadow calls while it has no room for them.
func (w *world) differ(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		w.call(t, name, 7)
		d, err := w.Registry.ShadowDiff(ctx, script.Name{Tenant: "acme", Script: name}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Findings.Samples) > 0 {
			return
		}
	}
}

// TestNewConflict does not overwrite a script that somebody else created meanwhile.
func TestNewConflict(t *testing.T) {
	w := start(t, 1)
	p := w.open(t, "/script/new/")
	p.Fill("Tenant", "acme")
	p.Fill("Name", "route")
	p.Click("button", "Write it")
	p.See("A new script. It is not published yet.")
	w.publish(t, "route", router)
	p.Click("button", "Publish…")
	p.See("Somebody else changed the script")
	p.Click("button", "Cancel")
	if got := w.source(t, "route"); got != router+"\n" {
		t.Errorf("version 1 is\n%s", got)
	}
}

// TestAudit exports the entries of a filter, and chooses events.
func TestAudit(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	if _, _, err := w.Registry.PutValue(t.Context(), script.ValueKey{Tenant: "acme", Key: "flags/sale"}, []byte("1"), by); err != nil {
		t.Fatal(err)
	}
	p := w.open(t, "/audit/?tenant=acme")
	p.See("flags/sale")
	p.Eval(`saved = ''; { const make = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) => (saved = text)); return make.call(URL, blob); }; } 1`, new(int))
	p.Click("button", "Export JSON")
	p.See("Saved 2 entries.")
	p.Wait("both entries in the file", `saved && JSON.parse(saved).length === 2 && saved.includes('acme/route') && saved.includes('flags/sale')`)
	p.Click("button", "Export CSV")
	p.Wait("both entries in the file", `saved.trim().split('\n').length === 3 && saved.includes('from elsewhere')`)

	p.Go(w.url + "/fleet/events/")
	p.See("acme/route")
	p.Choose("About", "Values")
	p.Miss("acme/route")
	p.See("acme/flags/sale")
}
