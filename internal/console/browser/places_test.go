package browser_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/artifacttest"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestHold holds a version from the history, compares versions, and releases the hold.
func TestHold(t *testing.T) {
	w := start(t, 1)
	for _, source := range []string{"-- one\n" + router, "-- two\n" + router} {
		w.publish(t, "route", source)
	}
	p := w.open(t, "/script/history/?name=acme%2Froute")
	p.See("Version 1 and version 2")
	p.See("-- two")
	p.Click("button", "Hold here…")
	p.Fill("Reason", "incident 12")
	p.Click("button", "Hold")
	p.See("holds the script at version 2")
	_, err := w.Registry.Publish(t.Context(), registryclient.PublishRequest{
		Name: script.Name{Tenant: "acme", Script: "route"}, Source: []byte("-- three\n" + router), Write: registryclient.Write{Author: "bo"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Click("checkbox", "Compare to version 3")
	p.See("-- three")
	if got := w.source(t, "route"); got != "-- two\n"+router+"\n" {
		t.Errorf("while version 2 is held, the active version is\n%s", got)
	}
	p.Click("button", "Release the hold…")
	p.Fill("Reason", "it is over")
	p.Click("button", "Release the hold")
	p.Miss("holds the script at version 2")
	p.See("it is over")
	w.live(t, "route", 3)
}

// TestGroups shows the agents of a rollout by a label, and then those of one group.
func TestGroups(t *testing.T) {
	w := start(t, 3, local.WithAgents(func(c *agentd.Config) {
		c.Labels = map[string]string{"rack": "r1"}
		if c.Name == "agent-3" {
			c.Labels["rack"] = "r2"
		}
	}))
	w.Publish(t, localtest.Manifest("route", router), 3)
	p := w.candidate(t, script.Step{Selector: "rack=r1", Approval: true})
	p.See("Version 2 is on its way")
	p.Choose("Group by", "rack")
	p.Wait("both groups", `['r1', 'r2'].every((r) => [...document.querySelectorAll('[aria-label="Agents by a label"] a')].some((a) => a.textContent === r))`)
	p.Click("link", "r2")
	p.See("rack: r2")
	p.Wait("the one agent of the group", `[...document.querySelectorAll('.nodes button')].map((b) => b.title.split(':')[0]).join() === 'agent-3'`)
	p.Click("button", "agent-3")
	p.Click("link", "agent-3")
	p.Wait("the page of the agent", "location.pathname + location.search === '/fleet/agent/?name=agent-3'")
}

// TestQuarantine finds an agent that does not run a script any more, and reads what to do.
func TestQuarantine(t *testing.T) {
	w := start(t, 1)
	w.report(t, 1, func(_ int, m *eventv1.Status) {
		m.Failures = []*eventv1.Failure{{
			Key: "releases/acme/route", Revision: m.ActivatedRevision, Error: &scriptv1.Error{Kind: "UNAVAILABLE", Field: "script", Message: "acme/route is in quarantine"},
		}}
	})
	p := w.open(t, "/fleet/?state=quarantined")
	p.See("1 in quarantine")
	p.Miss("agent-1")
	p.Click("link", "crowd-00000")
	p.See("Scripts are in quarantine")
	p.See("acme/route is in quarantine")
}

// TestArtifact moves a script to another artifact.
func TestArtifact(t *testing.T) {
	oci := artifacttest.Start(t)
	w := start(t, 1, local.WithArtifacts(registryd.Artifacts{Registries: []string{oci.Host}, PlainHTTP: true}))
	push := func(n int) string {
		policy := fmt.Appendf(nil, "package acme.route\n\ndecision := %d\n", n)
		bundle := artifacttest.Gzip(t, artifacttest.Tar(t, artifacttest.File{Name: "route.rego", Content: policy}))
		config := artifacttest.Blob{Type: "application/vnd.oci.image.config.v1+json", Content: []byte("{}")}
		return oci.Push(t, "acme/route", "latest", config, artifacttest.Blob{Type: "application/vnd.oci.image.layer.v1.tar+gzip", Content: bundle})
	}
	first, second := push(1), push(2)
	w.Publish(t, "apiVersion: scriptorium.dev/v1alpha1\nkind: Script\nmetadata: {name: route}\nspec:\n  tenantId: acme\n  runtime: rego\n  entrypoint: acme/route/decision\n  artifact: "+first+"\n", 1)
	p := w.open(t, "/script/?name=acme%2Froute")
	p.See("The registry fetches the source of this script from a registry of images.")
	p.Fill("Artifact", oci.Host+"/acme/route:latest")
	p.Press("\t")
	p.See("The registry finds one problem")
	p.Fill("Artifact", second)
	p.Press("\t")
	p.See("The registry finds no problem.")
	p.Click("button", "Run")
	p.Wait("the decision of the new policy", `document.querySelector('.outcome').innerText.includes('2')`)
	publishDraft(p, "The second policy")
	p.See("Version 2 is published.")
	w.live(t, "route", 2)
}
