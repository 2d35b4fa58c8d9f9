package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/history"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Asker asks one registry what it believes. It is safe for concurrent use.
type Asker struct {
	registry string
	record   *Record
	scripts  []script.Name
	client   *registryclient.Client
	repairs  int
}

// NewAsker returns one that asks the registry at address. The caller closes it.
func NewAsker(registry, address string, scripts []script.Name, record *Record) (*Asker, error) {
	client, err := registryclient.Dial(address)
	if err != nil {
		return nil, err
	}
	return &Asker{registry: registry, record: record, scripts: scripts, client: client}, nil
}

// Close ends the connection.
func (a *Asker) Close() { _ = a.client.Close() }

const (
	askEvery    = 120 * time.Millisecond
	askPatience = 2 * time.Second
)

// Run asks for the status until ctx is done, and keeps what it claims.
func (a *Asker) Run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		_, _ = a.Converged(ctx) // a registry that does not answer claims nothing
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Converged asks for the status and the agents, keeps what the registry claims, and
// returns how many agents it counts as connected if it says that every script has
// converged on them; 0 if it does not.
func (a *Asker) Converged(ctx context.Context) (agents int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	start := a.record.Now()
	before, err := a.agents(ctx)
	if err != nil {
		return 0, err
	}
	status, err := a.client.Status(ctx, script.Name{Tenant: a.scripts[0].Tenant})
	if err != nil {
		return 0, err
	}
	connected, err := a.agents(ctx)
	if err != nil {
		return 0, err
	}
	end := a.record.Now()
	if !slices.Equal(before, connected) || len(connected) != status.Connected {
		return 0, nil // it is not known whom the status counts
	}
	all := status.Connected
	for _, s := range status.Scripts {
		if !s.Converged {
			all = 0
			continue
		}
		key := fmt.Sprintf("%s %s %d %s", a.registry, s.Release.Name, s.Release.Revision, strings.Join(connected, ","))
		a.record.claim(key, history.Claim{
			Registry: a.registry, Script: s.Release.Name.String(), Revision: int64(s.Release.Revision),
			Agents: connected, Start: start, End: end,
		})
	}
	return all, nil
}

// agents keeps what the registry says that each agent has activated, and returns the
// names of those that it counts as connected.
func (a *Asker) agents(ctx context.Context) (connected []string, err error) {
	var reports []history.Report
	start := a.record.Now()
	for agent, err := range a.client.Agents(ctx, false) {
		if err != nil {
			return nil, err
		}
		if agent.Unknown {
			continue
		}
		connected = append(connected, agent.Name)
		r := history.Report{Registry: a.registry, Agent: agent.Name, Activated: int64(agent.Activated), Start: start}
		for _, f := range agent.Failures {
			r.Failing = append(r.Failing, f.Name.String())
		}
		if agent.Failed == len(agent.Failures) { // otherwise it is not known which others failed
			reports = append(reports, r)
		}
	}
	for _, r := range reports {
		r.End = a.record.Now()
		a.record.report(fmt.Sprintf("%s %s %d %v", r.Registry, r.Agent, r.Activated, r.Failing), r)
	}
	return connected, nil
}

// Releases returns the releases of the scripts that there are.
func (a *Asker) Releases(ctx context.Context) (map[script.Name]script.Release, error) {
	releases := map[script.Name]script.Release{}
	for release, err := range a.client.List(ctx, a.scripts[0].Tenant) {
		if err != nil {
			return nil, err
		}
		releases[release.Name] = release
	}
	return releases, nil
}

// Finals returns what the registry says of each script in the end.
func (a *Asker) Finals(ctx context.Context) []history.Final {
	var finals []history.Final
	for _, name := range a.scripts {
		f := history.Final{Registry: a.registry, Script: name.String()}
		release, err := a.client.Get(ctx, name)
		switch {
		case script.KindOf(err) == script.NotFound:
			f.Deleted = true
		case err != nil:
			f.Err = err.Error()
		default:
			f.Revision, f.Version, f.Digest = int64(release.Revision), release.Active.Number, release.Active.Digest.String()
			f.Enabled = release.Enabled
		}
		finals = append(finals, f)
	}
	return finals
}

// Entries returns the registry's record of all changes of the scripts. It is the audit
// trail that is asked for: the history of a script goes when its tombstone does.
func (a *Asker) Entries(ctx context.Context) ([]history.Entry, error) {
	var entries []history.Entry
	for l, err := range a.client.Audit(ctx, registryclient.AuditFilter{Name: script.Name{Tenant: a.scripts[0].Tenant}}) {
		if err != nil {
			return nil, fmt.Errorf("the audit trail: %w", err)
		}
		e := history.Entry{
			Script: l.Name.String(), Revision: int64(l.Revision), Change: string(l.Change), Version: l.Version, ID: l.Note,
		}
		if l.Version != 0 {
			e.Digest = l.Digest.String()
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Repair repairs the scripts' records that cannot be read, and deletes scripts of which nothing
// is left. The changes count as writes.
func (a *Asker) Repair(ctx context.Context) error {
	for _, name := range a.scripts {
		options := registryclient.DoctorOptions{Selected: name, Repair: true, Author: "doctor", Note: a.repair(name, script.ChangeRepair)}
		for f, err := range a.client.Doctor(ctx, options) {
			if err == nil && !f.Repairable {
				_, err = a.client.Delete(ctx, name, registryclient.Write{Author: "doctor", Note: a.repair(name, script.ChangeDelete)})
			} else if err == nil && !f.Repaired {
				err = errors.New(f.Remedy)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// repair takes note of a change that may be made, and returns its id.
func (a *Asker) repair(name script.Name, change script.Change) string {
	a.repairs++
	w := history.Write{
		ID: fmt.Sprintf("doctor-%d", a.repairs), Writer: "doctor", Script: name.String(),
		Change: string(change), Start: a.record.Now(), End: a.record.Now(), Outcome: history.Unclear,
	}
	a.record.write(w)
	return w.ID
}

// Remove deletes the scripts; it is of no importance whether that succeeds.
func (a *Asker) Remove(ctx context.Context) {
	for _, name := range a.scripts {
		_, _ = a.client.Delete(ctx, name, registryclient.Write{Author: "cleaner"})
	}
}
