package scriptctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// showRecentLogs prints the recent lines of agents.
func (a *app) showRecentLogs(ctx context.Context, of script.Name, o *logsOptions, tailed bool) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	found, err := a.recentLogs(ctx, client, of, o)
	if err != nil {
		return err
	}
	if found.Truncated && !tailed {
		a.notice("these are the newest %d lines; --tail shows up to %d, and --since, --level, --node and --grep choose among them", len(found.Lines), maxTail)
	}
	if len(found.Lines) == 0 {
		a.notice("agents keep no such lines of %s; -f waits for new ones", selectionText(of))
	}
	return a.printRecentLogs(&found)
}

// recentLogs returns the recent lines of agents. It returns an error if no agent has answered.
func (a *app) recentLogs(ctx context.Context, client *registryclient.Client, of script.Name, o *logsOptions) (registryclient.RecentLogs, error) {
	f := registryclient.RecentLogsFilter{
		Of: of, Agents: o.nodes, Version: o.version, Level: engine.Level(o.level), Grep: o.grep, Limit: o.tail,
	}
	since, err := parseSince(o.since, time.Now())
	if err != nil {
		return registryclient.RecentLogs{}, usage(err)
	}
	if !since.IsZero() {
		f.Since = max(time.Since(since), time.Nanosecond)
	}
	found, err := client.RecentLogs(ctx, f)
	if err != nil {
		return registryclient.RecentLogs{}, err
	}
	return found, a.checkAnswers(&found.Result, of.Tenant, o.nodes)
}

// checkAnswers prints a notice about agents that have not answered a query. It returns an error if none has.
func (a *app) checkAnswers(r *registryclient.QueryResult, tenant string, nodes []string) error {
	queried := r.Answered + r.Silent + r.Older + r.Failed
	switch {
	case queried == 0 && len(nodes) > 0:
		return script.Errorf(script.NotFound, "--node", "no connected agent that follows %s matches %s: scriptctl agents lists them", tenant, strings.Join(nodes, ", "))
	case queried == 0:
		return script.Errorf(script.NotFound, "", "no connected agent follows %s: scriptctl agents lists them", tenant)
	}
	if r.Older > 0 {
		a.notice("%s too old to answer: upgrade agentd there", agentsThat(r.Older, r.OlderAgents, "is", "are"))
	}
	if r.Silent > 0 {
		a.notice("%s not answer in time", agentsThat(r.Silent, r.SilentAgents, "did", "did"))
	}
	switch {
	case r.Answered == 0 && len(r.Failures) > 0:
		f := r.Failures[0]
		return &script.Error{Kind: f.Err.Kind, Message: fmt.Sprintf("no agent has a whole answer: agent %s: %s", plain(f.Agent), plain(f.Err.Message))}
	case r.Answered+r.Silent == 0:
		return script.Errorf(script.Unavailable, "", "all agents are too old to answer: upgrade agentd")
	case r.Answered == 0:
		return script.Errorf(script.Unavailable, "", "no agent answered: do the users of NATS have the subjects PREFIX.query and PREFIX.answers.> (deploy/nats/nats-server.conf)?")
	}
	for _, f := range r.Failures {
		a.notice("agent %s has no whole answer: %s", plain(f.Agent), plain(f.Err.Message))
	}
	if n := r.Failed - len(r.Failures); n > 0 {
		a.notice("%d more agents have no whole answer", n)
	}
	return nil
}

// agentsThat returns the subject and verb of a sentence about agents: "agent a VERB", or "agents a, b VERB".
func agentsThat(n int, agents []string, one, many string) string {
	const most = 5
	names := make([]string, min(len(agents), most))
	for i := range names {
		names[i] = plain(agents[i])
	}
	text := strings.Join(names, ", ")
	if n > len(names) {
		text += fmt.Sprintf(" and %d more", n-len(names))
	}
	if n == 1 {
		return "agent " + text + " " + one
	}
	return "agents " + text + " " + many
}

// printRecentLogs prints the lines, and a notice if older ones are missing.
func (a *app) printRecentLogs(found *registryclient.RecentLogs) error {
	if found.Evicted {
		a.notice("agents no longer keep all lines of that age: newer ones took their room")
	}
	for i := range found.Lines {
		if err := a.printLogLine(found.Lines[i].Agent, &found.Lines[i].LogLine); err != nil {
			return err
		}
	}
	return nil
}
