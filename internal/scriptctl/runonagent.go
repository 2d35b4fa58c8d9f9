package scriptctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/scripttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// anyAgent is the value of --on-agent without a name.
const anyAgent = "*"

// onAgentUsage says where a script that is not published runs.
const onAgentUsage = "run it on an agent, without publishing it: the `AGENT` with that name, or any that follows the tenant"

// forRegistry is what the registry calls the agent.
func forRegistry(agent string) string {
	if agent == anyAgent {
		return ""
	}
	return agent
}

// checkOnAgent refuses flags that only a call on this machine has.
func (o *runOptions) checkOnAgent(file string) error {
	for flag, set := range map[string]bool{"--interactive": o.interactive, "--kv": len(o.kv) > 0, "--now": o.now != "", "--seed": o.seeded} {
		if set {
			return script.Errorf(script.Invalid, flag, "is for a call on this machine: leave out --on-agent")
		}
	}
	if filepath.Ext(file) == ".lua" {
		return script.Errorf(script.Invalid, "--on-agent", "needs a tenant: name a manifest in place of %s", file)
	}
	return nil
}

// triedView is a runView of a call on an agent.
type triedView struct {
	runView
	Agent     string `json:"agent"`
	Isolation string `json:"isolation"`
	Truncated bool   `json:"truncated,omitempty"`
}

// runOnAgent calls the script once on an agent, with the values of its tenant.
func (a *app) runOnAgent(ctx context.Context, m *manifest.Manifest, args []string, config []byte, agent string) error {
	if config != nil {
		m.Settings.Config = config
	}
	call := make([]json.RawMessage, len(args))
	for i, arg := range args {
		call[i] = json.RawMessage(arg)
	}
	found, err := a.try(ctx, m, registryclient.TryRequest{Agent: forRegistry(agent), Calls: [][]json.RawMessage{call}})
	if err != nil {
		return err
	}
	if len(found.Calls) == 0 {
		return script.Errorf(script.Timeout, "", "agent %s had no time for the call: try again, or name another agent", found.Agent)
	}
	c := found.Calls[0]
	for _, l := range c.Logs {
		a.report(fmt.Sprintf("log %s: %s", l.Level, plain(l.Message)), map[string]testLogView{"log": {string(l.Level), l.Message}})
	}
	if c.DroppedLogs > 0 {
		a.notice("%d lines that the script logged are left out", c.DroppedLogs)
	}
	if c.Err != nil {
		return runError(m.Locate(c.Err))
	}
	if c.Truncated {
		a.notice("the call returned more than the agent sends")
	}
	view := triedView{Agent: found.Agent, Isolation: found.Isolation, Truncated: c.Truncated, runView: runView{
		Script: m.Name.String(), Results: c.Results, Seconds: c.Took.Seconds(), Instructions: c.Instructions, AllocatedBytes: c.Allocated,
	}}
	return a.print(view, func(w io.Writer) { writeResults(w, view.Results) })
}

// try runs what the manifest has on an agent. A script that does not compile is an error with its place.
func (a *app) try(ctx context.Context, m *manifest.Manifest, req registryclient.TryRequest) (*registryclient.Tried, error) {
	client, err := a.connect()
	if err != nil {
		return nil, err
	}
	settings := m.Settings
	req.Name, req.Source, req.Engine, req.Entrypoint, req.Settings = m.Name, m.Source, m.Engine, &m.Entrypoint, &settings
	found, err := client.Try(ctx, req)
	if err != nil {
		return nil, err
	}
	if found.Err != nil {
		return nil, &exitError{code: exitRefused, err: m.Locate(found.Err)}
	}
	return &found, nil
}

// testOnAgent runs the tests of a manifest on an agent, and returns their results in order.
func (a *app) testOnAgent(ctx context.Context, m *manifest.Manifest, agent string) (results []*scripttest.Result, err error) {
	suite, ok := scripttest.OfManifest(m)
	if !ok {
		return nil, nil
	}
	found, err := a.try(ctx, m, registryclient.TryRequest{Agent: forRegistry(agent), Tests: true})
	if err != nil {
		return nil, err
	}
	for i := range suite.Cases {
		r := &scripttest.Result{Script: m.Name, Case: &suite.Cases[i]}
		results = append(results, r)
		if i >= len(found.Tests) || found.Tests[i].Test == nil {
			r.Skipped = "agent " + found.Agent + " had no time for it: try again"
			continue
		}
		t := &found.Tests[i]
		r.Took, r.Used.Instructions, r.Used.Allocated = t.Took, t.Instructions, t.Allocated
		for _, l := range t.Logs {
			r.Logs = append(r.Logs, scripttest.Log{Level: l.Level, Message: l.Message})
		}
		if t.Test.Err == nil {
			continue
		}
		r.Failure = &scripttest.Failure{Message: script.AsError(t.Test.Err).Message, Differences: t.Test.Differences, More: t.Test.More}
		if len(t.Test.Differences) > 0 {
			r.Failure.Message = ""
		}
		if t.Err != nil {
			r.Failure.Err = m.Locate(t.Err)
		}
	}
	return results, nil
}

// testsOnAgent runs the tests of all manifests among the suites.
func (a *app) testsOnAgent(ctx context.Context, paths []string, suites []scripttest.Suite, o *testOptions) error {
	only, err := regexp.Compile(o.run)
	if err != nil {
		return usage(script.Errorf(script.Invalid, "--run", "is no RE2 expression: %v", err))
	}
	view := testsView{Tests: []caseView{}}
	began, all := time.Now(), 0
	for i := range suites {
		if len(suites[i].Cases) > 0 && manifest.IsTestFile(suites[i].Cases[0].File) {
			a.notice("%s has tests that need this machine: they are left out", suites[i].Cases[0].File)
			continue
		}
		results, err := a.testOnAgent(ctx, suites[i].Script, o.onAgent)
		if err != nil {
			return err
		}
		for _, r := range results {
			if all++; !only.MatchString(r.Case.Name) {
				continue
			}
			view.add(r)
			if a.output == formatTable {
				view.Tests[len(view.Tests)-1].write(a.Out, o.all)
			}
		}
	}
	view.Seconds = time.Since(began).Seconds()
	if err := a.printTests(&view); err != nil {
		return err
	}
	return view.failure(all, paths, o)
}
