package scriptctl

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// triggerView is on which event the script runs, and about which requests.
type triggerView struct {
	Priority int       `json:"priority"`
	Match    matchView `json:"match,omitzero"`
}

type matchView struct {
	Hosts        []string          `json:"hosts,omitempty"`
	PathPrefixes []string          `json:"pathPrefixes,omitempty"`
	Methods      []string          `json:"methods,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
}

func viewOfTrigger(t script.Trigger) *triggerView {
	if t.Event == "" {
		return nil
	}
	return &triggerView{Priority: t.Priority, Match: matchView(t.Match)}
}

// String returns the trigger of an event in one line, such as "priority 10, methods GET POST".
func (v *triggerView) String() string {
	if v == nil {
		return ""
	}
	parts := []string{"priority " + strconv.Itoa(v.Priority)}
	list := func(name string, texts []string) {
		if len(texts) > 0 {
			parts = append(parts, plain(name+" "+strings.Join(texts, " ")))
		}
	}
	list("hosts", v.Match.Hosts)
	list("paths", v.Match.PathPrefixes)
	list("methods", v.Match.Methods)
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(v.Match.Headers)) {
		headers = append(headers, name+": "+v.Match.Headers[name])
	}
	list("headers", headers)
	return strings.Join(parts, ", ")
}

// priorityText returns the priority, or a dash for a script without an event.
func priorityText(t *triggerView) string {
	if t == nil {
		return "-"
	}
	return strconv.Itoa(t.Priority)
}
