package rpc

import (
	"path"
	"regexp"
	"slices"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// maxAgentPattern bounds a name or pattern of agents, in bytes.
const maxAgentPattern = 253

// logFilter selects the lines that a watch of logs sends. It works in the registry: an RE2 expression takes a time that
// the length of the line bounds, which browsers do not promise of theirs.
type logFilter struct {
	agents  *eventv1.Query // names them
	version uint64         // all if 0
	levels  []engine.Level
	grep    *regexp.Regexp // all if nil
}

func toLogFilter(m *registryv1.WatchLogsRequest) (f logFilter, err error) {
	f = logFilter{agents: &eventv1.Query{Agents: m.GetAgents()}, version: m.GetVersion(), levels: []engine.Level{engine.Info, engine.Warn, engine.Error}}
	if n := len(m.GetAgents()); n > wire.MaxQueryAgents {
		return f, script.Errorf(script.Invalid, "agents", "are %d, at most %d are allowed: use a pattern such as 'edge-*'", n, wire.MaxQueryAgents)
	}
	for _, pattern := range m.GetAgents() {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > maxAgentPattern {
			return f, script.Errorf(script.Invalid, "agents", "%.80q is no name and no pattern of names: use * for any characters", pattern)
		}
	}
	if level := m.GetLevel(); level != "" {
		at := slices.Index(f.levels, engine.Level(level))
		if at < 0 {
			return f, script.Errorf(script.Invalid, "level", "%.80q is no level: want info, warn or error", level)
		}
		f.levels = f.levels[at:]
	}
	if m.GetGrep() != "" {
		f.grep, err = wire.CompileGrep(m.GetGrep())
	}
	return f, err
}

// apply returns the logs without the lines that the filter leaves out, and false if nothing is left to say. Every reader
// gets to know of lines that were left out as nobody read them in time.
func (f *logFilter) apply(logs fleet.Logs) (fleet.Logs, bool) {
	if logs.State != "" || logs.Agent == "" {
		return logs, true
	}
	if !wire.QueryNames(f.agents, logs.Agent) {
		return logs, false
	}
	logs.Lines = slices.DeleteFunc(slices.Clone(logs.Lines), func(l fleet.LogLine) bool { return !f.has(&l) })
	return logs, len(logs.Lines) > 0 || logs.Dropped > 0
}

func (f *logFilter) has(l *fleet.LogLine) bool {
	return (f.version == 0 || f.version == l.Version) && slices.Contains(f.levels, l.Level) && (f.grep == nil || f.grep.MatchString(l.Message))
}
